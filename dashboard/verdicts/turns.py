"""Rounds that one run took at both commits, where a later run measured one of them again.

A commit's value is its latest run's. But a run that measured both commits, their rounds in
turn on one card, says more of their difference than two runs do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import isfinite
from statistics import median

from dashboard.models import Round, Side, Status

_LEAST = 2
"""Rounds a side, below which a run says nothing of noise."""


@dataclass(frozen=True, slots=True)
class Turns:
    """Both sides as one run measured them, its id, and the remark that says so."""

    base: Side
    head: Side
    run: str
    remark: str


def taken_in_turn(base: Side, head: Side) -> Turns | None:
    """Both sides by the latest run that measured both.

    ``None`` where the values of both are of one run already, and where no run that is behind the
    one's value measured the other.
    """
    if _runs(base.rounds) & _runs(head.rounds):
        return None
    base, head = _without_copies(base, head), _without_copies(head, base)
    options = [
        (latest, number, run)
        for number, (here, there) in enumerate(((base, head), (head, base)))
        for run in _runs(here.rounds) & _runs(there.others)
        if (latest := _latest(run, here.rounds, there.others)) is not None
    ]
    if not options:
        return None
    _, number, run = max(options)
    here, there = (base, head) if number == 0 else (head, base)
    name, others = ("head", "base") if number == 0 else ("base", "head")
    # One invocation has one suite and one machine: what is known of the one holds for the other.
    there = replace(
        _by(there, there.others, run),
        version=here.version,
        gpu=here.gpu,
        driver=here.driver,
        torch=here.torch,
        triton=here.triton,
        statistic=here.statistic,
        protocol=here.protocol,
    )
    here = _by(here, here.rounds, run)
    remark = f"{name} by its rounds of the run that measured {others} too"
    return Turns(*((here, there) if number == 0 else (there, here)), run, remark)


def _without_copies(side: Side, other: Side) -> Side:
    """``side`` without loose rounds that stand behind a value or were read twice."""
    known = {*side.rounds, *other.rounds}
    return replace(side, others=tuple(dict.fromkeys(r for r in side.others if r not in known)))


def _runs(rounds: Iterable[Round]) -> set[str]:
    return {r.run for r in rounds if r.run is not None and _is_usable(r)}


def _latest(run: str, *sides: Iterable[Round]) -> datetime | None:
    """When the last round of ``run`` began; ``None`` where a side has too few."""
    own = [[r for r in side if r.run == run and _is_usable(r)] for side in sides]
    if min(map(len, own)) < _LEAST:
        return None
    known = [r.started_at for rounds in own for r in rounds if r.started_at is not None]
    return max(known, default=datetime.min.replace(tzinfo=UTC))


def _by(side: Side, rounds: Iterable[Round], run: str) -> Side:
    """``side`` as ``run`` alone measured it."""
    own = tuple(r for r in rounds if r.run == run)
    values = [r.value for r in own if _is_usable(r) and r.value is not None]
    return replace(side, status=Status.OK, value=median(values), rounds=own)


def _is_usable(r: Round) -> bool:
    return r.status is Status.OK and r.value is not None and isfinite(r.value)
