"""The graph timer: its steps against a stand-in for CUDA, itself on a GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import fused_lmhead  # noqa: E402
from asv_benchmarks import graph as graph_module  # noqa: E402
from asv_benchmarks.backward import ForwardBackward  # noqa: E402
from asv_benchmarks.conditions import NoMonitor  # noqa: E402
from asv_benchmarks.graph import GraphSubject, compare  # noqa: E402
from asv_benchmarks.timing import MismatchError, Plan, gpu_plan, take_round  # noqa: E402
from asv_benchmarks.workloads import SMOKE  # noqa: E402


class StandIn:
    """torch with a CUDA that runs on the host and notes what it is asked, in order.

    Replaying runs the captured call again and writes into the outputs of the
    capture, unless ``replays`` is off.
    """

    def __init__(self, call: Callable[[], tuple[Any, ...]], replays: bool = True) -> None:
        self.notes: list[str] = []
        notes, outer = self.notes, self

        class Stream:
            def wait_stream(self, other: object) -> None:
                notes.append("wait")

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                notes.append("event")

            def elapsed_time(self, end: object) -> float:
                return 1.5

        class CUDAGraph:
            def replay(self) -> None:
                notes.append("replay")
                if replays:
                    for old, new in zip(outer.subject._outputs, call(), strict=True):
                        old.copy_(new)

        @contextlib.contextmanager
        def scope(what: str) -> Iterator[None]:
            notes.append(what)
            yield
            notes.append(f"end {what}")

        class Cuda:
            pass

        cuda: Any = Cuda()
        cuda.Stream, cuda.Event, cuda.CUDAGraph = Stream, Event, CUDAGraph
        cuda.current_stream = Stream
        cuda.stream = lambda stream: scope("side")
        cuda.graph = lambda graph: scope("capture")
        cuda.synchronize = lambda: notes.append("sync")
        self.cuda = cuda
        self.subject: Any = None

    def empty(self, size: int, dtype: Any, device: str) -> Any:
        assert device == "cuda"
        notes = self.notes

        class Flush:
            def zero_(self) -> None:
                notes.append("flush")

        return Flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def subject_on(
    monkeypatch: pytest.MonkeyPatch, call: Any, replays: bool = True, again: Any = None
) -> Any:
    stand_in = StandIn(call, replays and again is None)
    monkeypatch.setattr(graph_module, "torch", stand_in)
    stand_in.subject = GraphSubject(lambda: stand_in.notes.append("call") or call(), again)
    return stand_in


def test_it_warms_up_on_a_side_stream_and_then_captures(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = subject_on(monkeypatch, lambda: (torch.ones(3),))
    assert stand_in.notes == [
        *("wait", "side", "call", "call", "end side", "wait", "sync"),
        *("capture", "call", "end capture"),
    ]


def test_each_replay_follows_a_flush_and_lies_between_two_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand_in = subject_on(monkeypatch, lambda: (torch.ones(3),))
    stand_in.notes.clear()
    assert stand_in.subject.sample(2) == [1.5, 1.5]
    assert stand_in.notes == ["flush", "event", "replay", "event"] * 2 + ["sync"]


def test_a_round_passes_only_if_the_replay_writes_what_a_call_returns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = Plan("graph-paced", "median", 0.0, samples=3)
    good = subject_on(monkeypatch, lambda: (torch.ones(3), torch.arange(3)))
    assert take_round(good.subject, plan, NoMonitor()).value == 1.5
    idle = subject_on(monkeypatch, lambda: (torch.ones(3),), replays=False)
    with pytest.raises(MismatchError, match="output 0"):
        take_round(idle.subject, plan, NoMonitor())


def test_what_moved_is_another_call_whose_outputs_are_verified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[torch.Tensor] = []

    def again() -> Any:
        made.append(torch.ones(3))
        return lambda: (made[-1] * 2,)

    stand_in = subject_on(monkeypatch, lambda: (torch.ones(3) * 2,), again=again)
    before = stand_in.subject._outputs
    plan = Plan("graph-placements", "median", 0.0, samples=3, moves=True)
    with pytest.raises(MismatchError, match="output 0"):  # its replays write to no place but one
        take_round(stand_in.subject, plan, NoMonitor())
    assert len(made) == 3
    assert stand_in.notes.count("capture") == 4
    now = stand_in.subject._outputs
    assert torch.isnan(now[0]).all()  # poisoned where it lies, and nowhere else
    assert torch.equal(before[0], torch.full((3,), 2.0))
    stand_in.subject.move()
    stand_in.subject.verify()


def test_memory_of_earlier_places_is_not_given_to_later_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand_in = subject_on(monkeypatch, lambda: (torch.ones(3),))
    places = {stand_in.subject._outputs[0].data_ptr()}
    for _ in range(20):
        stand_in.subject.move()
        places.add(stand_in.subject._outputs[0].data_ptr())
    assert len(places) == 21


def test_outputs_in_one_buffer_are_not_compared_with_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The control writes replayed and eager products into the same tensor.
    buffer = torch.zeros(3)
    idle = subject_on(monkeypatch, lambda: (buffer.fill_(2.0),), replays=False)
    idle.subject.poison()
    with pytest.raises(MismatchError):
        idle.subject.verify()


def test_replayed_outputs_are_held_against_eager_ones() -> None:
    eager = (torch.ones(10), torch.arange(10))
    compare((torch.ones(10), torch.arange(10)), eager)
    compare((torch.ones(10) * 1.001, torch.arange(10)), eager)
    with pytest.raises(MismatchError, match="output 0"):
        compare((torch.ones(10) * 1.1, torch.arange(10)), eager)
    with pytest.raises(MismatchError, match="output 0"):
        compare((torch.full((10,), float("nan")), torch.arange(10)), eager)
    with pytest.raises(MismatchError, match="output 1"):
        compare((torch.ones(10), torch.arange(10) + 5), eager)
    with pytest.raises(MismatchError, match="1 outputs replayed"):
        compare(eager[:1], eager)


@pytest.mark.gpu
def test_a_graph_is_timed_and_verified() -> None:
    left = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
    subject = GraphSubject(lambda: (left @ left,))
    assert all(0 < ms < 50 for ms in subject.sample(5))
    timing = take_round(subject, gpu_plan(min(subject.sample(3))), NoMonitor())
    assert len(timing.samples) == gpu_plan(0.1).samples
    subject.poison()
    with pytest.raises(MismatchError):
        subject.verify()


@pytest.mark.gpu
def test_a_short_call_moves_and_is_verified_where_it_came_to() -> None:
    def again() -> Any:
        return ForwardBackward().prepare(fused_lmhead, SMOKE[0], "gpu")

    subject = GraphSubject(again(), again)
    places = {subject._outputs[0].data_ptr()}
    timing = take_round(subject, gpu_plan(0.05), NoMonitor())
    places.add(subject._outputs[0].data_ptr())
    assert len(timing.samples) == gpu_plan(0.05).samples
    assert len(places) == 2


@pytest.mark.gpu
def test_gradients_are_captured_in_the_graph() -> None:
    call = ForwardBackward().prepare(fused_lmhead, SMOKE[1], "gpu")
    call()
    timing = take_round(GraphSubject(call), gpu_plan(0.5), NoMonitor())
    assert timing.value > 0
