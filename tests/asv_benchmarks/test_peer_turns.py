"""Peers on one shape of the comparison: values checked, samples taken in turn."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from fake_peers import fake, right  # noqa: E402

from asv_benchmarks.conditions import NoMonitor  # noqa: E402
from asv_benchmarks.inputs import make_inputs  # noqa: E402
from asv_benchmarks.peer_turns import Entrant, check, enter, take_turns, truth_of  # noqa: E402
from asv_benchmarks.timing import MismatchError, Plan  # noqa: E402
from asv_benchmarks.workloads import SMOKE  # noqa: E402


def test_values_that_differ_are_not_timed() -> None:
    inputs = make_inputs(SMOKE[0], "cpu")
    truth = truth_of(inputs, "cpu", with_gradients=True)
    assert truth is not None
    both, zeros = "forward + backward", torch.zeros_like
    hidden, weight = truth.gradients
    with pytest.raises(MismatchError, match="log-prob"):
        check(fake("sign", right), (truth.logprob,), truth)
    with pytest.raises(MismatchError, match="log-prob"):
        check(fake("nan", right), (truth.logprob * float("nan"),), truth)
    with pytest.raises(MismatchError, match="entropy"):
        check(fake("entropy", right), (-truth.logprob, truth.entropy + 1), truth)
    with pytest.raises(MismatchError, match="gradient of hidden"):
        check(fake("hidden", right, both), (-truth.logprob, zeros(hidden), weight), truth)
    with pytest.raises(MismatchError, match="gradient of weight"):
        check(fake("weight", right, both), (-truth.logprob, hidden, weight * 1.2), truth)


def test_without_ours_the_others_go_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = make_inputs(SMOKE[0], "cpu")

    def fails(*arguments: Any) -> Any:
        raise RuntimeError("no kernel")

    monkeypatch.setattr("asv_benchmarks.peer_turns.ours_forward", fails)
    truth = truth_of(inputs, "cpu", with_gradients=False)
    assert truth is None
    entrant = enter(fake("right", right), SMOKE[0], inputs, truth, "cpu")
    assert (entrant.reason, entrant.difference) == ("", None)
    assert entrant.subject is not None


class FakeSubject:
    """Notes its turns; takes 1, 2, 3 … ms, or fails at its sample number ``fails_at``."""

    def __init__(self, name: str, notes: list[str], fails_at: int = -1, idle: bool = False) -> None:
        self.name, self.notes, self.fails_at, self.idle = name, notes, fails_at, idle
        self.taken = 0

    def sample(self, group: int) -> list[float]:
        self.notes.append(self.name)
        self.taken += 1
        if self.taken - 1 == self.fails_at:
            raise RuntimeError("lost")
        return [9.0] * (group - 1) + [float(self.taken)]

    def poison(self) -> None:
        self.notes.append(f"poison {self.name}")

    def verify(self) -> None:
        self.notes.append(f"verify {self.name}")
        if self.idle:
            raise MismatchError("poison")


def entrant(name: str, plan: Plan, notes: list[str], **subject: Any) -> Entrant:
    return Entrant(fake(name, right), plan, FakeSubject(name, notes, **subject), "graph")


def test_samples_are_taken_in_turn_after_the_longer_gap() -> None:
    notes: list[str] = []
    short = entrant("a", Plan("graph-paced", "median", 20.0, samples=3), notes)
    long = entrant("b", Plan("graph-paced", "minimum", 60.0, samples=2), notes)
    readings = take_turns([short, long], NoMonitor(), lambda s: notes.append(f"{s * 1000:g}"))
    assert notes == [
        *("20", "a", "60", "b"),
        *("60", "a", "60", "b"),
        *("60", "a", "poison b", "60", "b"),
        *("poison a", "60", "a", "verify a", "verify b"),
    ]
    assert (short.rounds, long.rounds) == ([3.0], [2.0])
    assert len(readings) == 5
    assert short.cell().ms == 3.0


def test_the_first_replays_of_a_burst_are_not_counted() -> None:
    plan = Plan("graph-bursts", "median", 0.0, samples=1, group=3, warming=2)
    one = entrant("a", plan, [])
    take_turns([one], NoMonitor())
    assert one.rounds == [2.0]


def test_the_rounds_median_is_the_value() -> None:
    one = entrant("a", Plan("graph-paced", "median", 0.0, samples=1), [])
    for _ in range(3):
        take_turns([one], NoMonitor())
    assert one.rounds == [2.0, 4.0, 6.0]
    assert one.cell().ms == 4.0


def test_who_fails_on_the_way_drops_out_and_the_others_go_on() -> None:
    notes: list[str] = []
    plan = Plan("graph-paced", "median", 0.0, samples=2)
    lost = entrant("lost", plan, notes, fails_at=1)
    idle = entrant("idle", plan, notes, idle=True)
    good = entrant("good", plan, notes)
    for _ in range(2):
        take_turns([lost, idle, good], NoMonitor())
    assert notes.count("lost") == 2
    assert notes.count("idle") == 3
    assert lost.cell().reason == "RuntimeError: lost"
    assert idle.cell().reason == "MismatchError: poison"
    assert idle.cell().ms is None
    assert len(good.rounds) == 2
