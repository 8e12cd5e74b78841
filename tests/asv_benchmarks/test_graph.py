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


def subject_on(monkeypatch: pytest.MonkeyPatch, call: Any, replays: bool = True) -> Any:
    stand_in = StandIn(call, replays)
    monkeypatch.setattr(graph_module, "torch", stand_in)
    stand_in.subject = GraphSubject(lambda: stand_in.notes.append("call") or call())
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
    plan = Plan("graph-back-to-back", "median", 0.0, samples=3)
    good = subject_on(monkeypatch, lambda: (torch.ones(3), torch.arange(3)))
    assert take_round(good.subject, plan, NoMonitor()).value == 1.5
    idle = subject_on(monkeypatch, lambda: (torch.ones(3),), replays=False)
    with pytest.raises(MismatchError, match="output 0"):
        take_round(idle.subject, plan, NoMonitor())


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
    assert len(timing.samples) == 9
    subject.poison()
    with pytest.raises(MismatchError):
        subject.verify()


@pytest.mark.gpu
def test_gradients_are_captured_in_the_graph() -> None:
    call = ForwardBackward().prepare(fused_lmhead, SMOKE[1], "gpu")
    call()
    timing = take_round(GraphSubject(call), gpu_plan(0.5), NoMonitor())
    assert timing.value > 0
