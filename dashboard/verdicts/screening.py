"""Verdicts that need no statistics, and the rounds of the pairs that do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite, log
from statistics import median

from dashboard.models import Pair, Round, Series, SeriesVerdict, Side, Status, Verdict
from dashboard.verdicts.past import NO_PAST, Past
from dashboard.verdicts.policy import Rule, limits
from dashboard.verdicts.statistic import one_statistic, other_pacing, other_statistic
from dashboard.verdicts.turns import taken_in_turn

# What has to be the same on both sides; unknown is no evidence of a change.
_CONDITIONS = (
    ("version", "benchmark version"),
    ("gpu", "GPU"),
    ("driver", "driver"),
    ("torch", "torch"),
    ("triton", "triton"),
    ("protocol", "timing protocol"),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """A pair with rounds on both sides, for the statistics.

    ``base`` and ``head`` are the logarithms of the rounds' values in order of
    time; ``interleaved`` says whether the sides took turns, ``None`` where the
    rounds carry no times; ``other_card`` whether no card measured both sides;
    ``past`` what earlier commits tell of the noise; ``remark`` says by which statistic
    the rounds were valued anew, and that ``run``, not the latest one, took them, if so.
    """

    series: Series
    rule: Rule
    base: tuple[float, ...]
    head: tuple[float, ...]
    interleaved: bool | None
    other_card: bool
    past: Past = NO_PAST
    remark: str = ""
    run: str | None = None


def screen(pair: Pair, rule: Rule) -> SeriesVerdict | Measured:
    """The verdict of ``pair`` if no statistics are needed, else its rounds."""
    base, head = pair.base, pair.head
    before, after = _measured_value(base), _measured_value(head)
    if base is None or head is None or before is None or after is None:
        return _absence(pair, before, after)
    turns = taken_in_turn(base, head)
    if turns is not None:
        found = screen(Pair(pair.series, turns.base, turns.head), rule)
        return replace(_remarked(found, turns.remark), run=turns.run)
    changed = [
        f"{name} {old} → {new}"
        for key, name in _CONDITIONS
        if (old := getattr(base, key)) is not None
        and (new := getattr(head, key)) is not None
        and old != new
    ]
    pacing = other_pacing(base, head)
    if pacing is not None and not changed:
        changed = [pacing]
    valued = one_statistic(base, head)
    if valued is None:
        changed.append(other_statistic(base, head))
    plain = _plain(pair.series, rule, before, after)
    if changed or valued is None:
        reason = f"changed between the runs: {', '.join(changed)}"
        return replace(plain, verdict=Verdict.NOT_COMPARABLE, reason=reason)
    old, new, remark = valued
    if remark:
        return _remarked(screen(Pair(pair.series, old, new), rule), remark)
    if rule.exact:
        return _exact(plain, rule, before, after)
    if plain.ratio is None:
        return _without_ratio(plain)
    return _rounds(pair.series, rule, base, head) or _without_rounds(plain, rule, plain.ratio)


def _remarked(found: SeriesVerdict | Measured, remark: str) -> SeriesVerdict | Measured:
    if isinstance(found, Measured):
        return replace(found, remark="; ".join(filter(None, (found.remark, remark))))
    return replace(found, reason=f"{found.reason}; {remark}")


def _absence(pair: Pair, before: float | None, after: float | None) -> SeriesVerdict:
    """The verdict where at least one side has no value."""
    base, head = pair.base, pair.head
    base_failed = before is None and _failed(base)
    if after is not None:
        verdict = Verdict.NEW
        reason = _because("failed at base" if base_failed else "not measured at base", base)
    elif _failed(head):
        verdict = Verdict.FAILED
        reason = _because("failed at both commits" if base_failed else "failed at head", head)
    elif before is not None:
        verdict = Verdict.MISSING
        reason = _because("not measured at head", head)
    elif base_failed:
        verdict = Verdict.NOT_COMPARABLE
        reason = _because("failed at base, not measured at head", base)
    else:
        verdict = Verdict.NOT_COMPARABLE
        reason = _because("measured at neither commit", head or base)
    return SeriesVerdict(pair.series, verdict, reason, base=before, head=after)


def _measured_value(side: Side | None) -> float | None:
    """The side's finite value, from its rounds if need be; ``None`` where there is none."""
    if side is None or side.status is not Status.OK:
        return None
    value = _value(side)
    return value if value is not None and isfinite(value) else None


def _failed(side: Side | None) -> bool:
    """Whether a side without a finite value was measured at all."""
    return side is not None and side.status is not Status.SKIPPED


def _because(what: str, side: Side | None) -> str:
    if side is None:
        return what
    if side.reason:
        return f"{what}: {side.reason}"
    if side.status is Status.OK:
        return f"{what}: its value is {_value(side)}"
    reasons = [r.reason for r in side.rounds if r.reason]
    return f"{what}: {reasons[0]}" if reasons else what


def _value(side: Side) -> float | None:
    if side.value is not None:
        return side.value
    values = [r.value for r in side.rounds if r.value is not None and isfinite(r.value)]
    return median(values) if values else None


def _finite(value: float | None) -> bool:
    return value is not None and isfinite(value)


def _plain(series: Series, rule: Rule, base: float, head: float) -> SeriesVerdict:
    """Values and ratio, or the difference where a ratio has no meaning; verdict yet open."""
    plain = SeriesVerdict(
        series,
        Verdict.INCONCLUSIVE,
        "",
        base=base,
        head=head,
        threshold=rule.minimum_effect,
    )
    if base > 0 and head > 0:
        ratio = base / head if rule.higher_is_better else head / base
        if isfinite(ratio) and ratio > 0:
            return replace(plain, ratio=ratio)
    difference = head - base
    return replace(plain, difference=difference if isfinite(difference) else None)


def _exact(plain: SeriesVerdict, rule: Rule, base: float, head: float) -> SeriesVerdict:
    found = replace(plain, low=plain.ratio, high=plain.ratio, threshold=0.0)
    if base == head:
        return replace(found, verdict=Verdict.UNCHANGED, reason="exactly equal")
    worse = (head < base) == rule.higher_is_better
    reason = f"{base:.12g} → {head:.12g}, compared exactly"
    return replace(found, verdict=Verdict.REGRESSED if worse else Verdict.IMPROVED, reason=reason)


def _without_ratio(plain: SeriesVerdict) -> SeriesVerdict:
    if plain.difference == 0:
        return replace(plain, verdict=Verdict.UNCHANGED, reason="equal; such values have no ratio")
    reason = "such values have no ratio; declare the benchmark exact to judge their difference"
    return replace(plain, reason=reason)


def _without_rounds(plain: SeriesVerdict, rule: Rule, ratio: float) -> SeriesVerdict:
    effect = rule.minimum_effect
    side = "within" if 1 / (1 + effect) <= ratio <= 1 + effect else "beyond"
    reason = f"{side} {limits(effect)}, but without rounds on both sides there is no interval"
    return replace(plain, reason=reason)


def _rounds(series: Series, rule: Rule, base: Side, head: Side) -> Measured | None:
    before, after = _usable(base), _usable(head)
    if not before or not after:
        return None
    shared = _cards(before) & _cards(after)
    if shared:
        same = tuple([r for r in side if r.gpu_uuid in shared] for side in (before, after))
        # One round alone carries no noise: rather all of them than that.
        if min(map(len, same)) >= 2:
            before, after = same
    other = bool(_cards(before) and _cards(after)) and _cards(before) != _cards(after)
    return Measured(
        series,
        rule,
        base=_logs(before),
        head=_logs(after),
        interleaved=_interleaved(before, after),
        other_card=other,
    )


def _usable(side: Side) -> list[Round]:
    """The rounds with a value, by time where all have one; none if a value has no logarithm."""
    rounds = [r for r in side.rounds if r.status is Status.OK and _finite(r.value)]
    if any(r.value is not None and r.value <= 0 for r in rounds):
        return []
    if all(r.started_at is not None for r in rounds):
        rounds.sort(key=lambda r: r.started_at.timestamp() if r.started_at else 0.0)
    return rounds


def _cards(rounds: list[Round]) -> set[str]:
    return {r.gpu_uuid for r in rounds if r.gpu_uuid is not None}


def _logs(rounds: list[Round]) -> tuple[float, ...]:
    return tuple(log(r.value) for r in rounds if r.value is not None)


def _interleaved(base: list[Round], head: list[Round]) -> bool | None:
    """Whether the sides took turns: at least as many changes of side as rounds, and two."""
    times = [(r.started_at, side) for side, rounds in ((0, base), (1, head)) for r in rounds]
    if any(started is None for started, _ in times):
        return None
    order = [side for _, side in sorted((t.timestamp(), side) for t, side in times if t)]
    turns = sum(a != b for a, b in pairwise(order))
    return turns >= max(2, min(len(base), len(head)))
