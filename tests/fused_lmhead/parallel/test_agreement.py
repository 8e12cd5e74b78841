"""When the ranks of a group settle on one schedule. Only the call to tuning is played."""

from __future__ import annotations

import pytest
import torch

from fused_lmhead.chunked import ChunkedBackend
from fused_lmhead.parallel.schedules import settle_schedules

tuning = pytest.importorskip("fused_lmhead.tuning")

HIDDEN, WEIGHT, GROUP = torch.zeros(5, 8), torch.zeros(7, 8), object()
SHAPE = (5, 8, 7, torch.float32, torch.device("cpu"))


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    """The calls made to tuning, with a search allowed."""
    calls: list[tuple] = []
    monkeypatch.setenv("FUSED_LMHEAD_TUNING", "search")
    monkeypatch.setattr(tuning, "settle", lambda *shape, backward: calls.append((*shape, backward)))
    return calls


def backend():
    from fused_lmhead.launch import TritonBackend

    return TritonBackend()


@pytest.mark.parametrize(
    ("with_entropy", "requires_grad", "learns", "calls"),
    [
        (False, False, False, [(False, False)]),
        (False, False, True, [(False, True)]),
        (True, True, True, [(True, True)]),
        (True, False, False, [(True, False)]),
        (True, False, True, [(True, False), (False, True)]),
    ],
)
def test_what_will_be_launched_is_settled(settled, with_entropy, requires_grad, learns, calls):
    settle_schedules(backend(), HIDDEN, WEIGHT, with_entropy, requires_grad, learns, GROUP)
    assert settled == [(*SHAPE, entropy, GROUP, backward) for entropy, backward in calls]


def test_without_a_search_nobody_is_asked(settled, monkeypatch: pytest.MonkeyPatch):
    for mode in ("table", "off"):
        monkeypatch.setenv("FUSED_LMHEAD_TUNING", mode)
        settle_schedules(backend(), HIDDEN, WEIGHT, True, True, True, GROUP)
    assert settled == []


def test_what_has_no_schedule_is_not_settled(settled):
    settle_schedules(ChunkedBackend(4), HIDDEN, WEIGHT, True, True, True, GROUP)
    settle_schedules(backend(), HIDDEN[:0], WEIGHT, True, True, True, GROUP)
    assert settled == []
