"""Two commits, all series at once: from pairs to verdicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import log1p
from statistics import fmean, median

import numpy as np

from dashboard.models import Pair, Series, SeriesVerdict, Verdict
from dashboard.verdicts.decision import Evidence, decide
from dashboard.verdicts.explanation import Finding, explain
from dashboard.verdicts.jumps import jump_chance
from dashboard.verdicts.kinds import CONTROL_FAMILY
from dashboard.verdicts.noise import FEWEST_SERIES, RESOLUTION, Floats, Mask, moderate_by_group
from dashboard.verdicts.past import NO_PAST, Past, with_past
from dashboard.verdicts.policy import Policy
from dashboard.verdicts.runs import CARD_NOISE, between_runs
from dashboard.verdicts.screening import Measured, screen

_WORST_FIRST = {verdict: place for place, verdict in enumerate(Verdict)}

# A family of so many series may have a noise of its own; smaller ones are pooled.
_FEWEST_OF_FAMILY = 12

# Families are pooled, which tells more, unless a rank test says that their noise differs.
_FAMILIES_DIFFER = 0.01

# A smaller family stands apart only if it certainly has another noise: compilers' runs and
# kernels' are both in milliseconds.
_SMALL_FAMILY_DIFFERS = 0.001

# Pairing the rounds of base and head by their order is chosen by the data, so the data
# have to be many, and the gain clear.
_FEWEST_TO_PAIR = 20
_PAIRING_GAIN = 0.7


def compare(
    pairs: Sequence[Pair], policy: Policy, past: Mapping[Series, Past] | None = None
) -> tuple[SeriesVerdict, ...]:
    """The verdict of every pair, worst first.

    All pairs of a check belong into one call: the noise is learned from all of
    them, and the false discovery rate is held over all of them. Where rounds are
    known, ``base`` and ``head`` of a verdict are the geometric means of their
    values. ``past`` is what commits before these tell of the series' noise.
    """
    earlier = past or {}
    screened = [screen(pair, policy.rule(pair.series)) for pair in pairs]
    verdicts = [found for found in screened if isinstance(found, SeriesVerdict)]
    verdicts += judge(
        [
            replace(found, past=earlier.get(found.series, NO_PAST))
            for found in screened
            if isinstance(found, Measured)
        ]
    )
    return tuple(sorted(verdicts, key=_badness))


def _badness(verdict: SeriesVerdict) -> tuple[int, float, str, str, str]:
    series = verdict.series
    ratio = 1.0 if verdict.ratio is None else verdict.ratio
    place = _WORST_FIRST[verdict.verdict]
    return (place, -ratio, series.label, series.machine, series.environment)


def judge(measured: Sequence[Measured]) -> list[SeriesVerdict]:
    """The verdicts of all pairs of a check that have rounds, in the given order."""
    if not measured:
        return []
    # Bytes do not drift with a clock: only like quantities share noise and luck.
    machines = _groups((m.series.machine, m.series.environment, m.series.unit) for m in measured)
    sign = np.array([-1.0 if m.rule.higher_is_better else 1.0 for m in measured])
    effect = sign * np.array([fmean(m.head) - fmean(m.base) for m in measured])
    middle = sign * np.array([median(m.head) - median(m.base) for m in measured])
    weight = np.array([1 / len(m.base) + 1 / len(m.head) for m in measured])
    variance, df = _variances(measured, machines)
    kinds = [part for mask in machines for part in _kinds(measured, variance, df, mask)]
    noise = moderate_by_group(variance, df, kinds)
    error = np.sqrt(noise.variance * weight)
    cards = np.array([CARD_NOISE**2 if m.other_card else 0.0 for m in measured])
    shift, runs = _runs(measured, machines, sign * effect, error)
    evidence = Evidence(
        effect=effect - sign * shift,
        median_effect=middle - sign * shift,
        noise=noise,
        weight=weight,
        between=runs + cards,
        jump=_jumps(measured, effect, kinds),
        threshold=np.array([log1p(m.rule.minimum_effect) for m in measured]),
    )
    findings = Finding.of(evidence, decide(evidence), sign * shift)
    return [explain(m, finding) for m, finding in zip(measured, findings, strict=True)]


def _groups(keys: Iterable[object]) -> list[Mask]:
    """A mask (N,) for each different key, in order of appearance."""
    members: defaultdict[object, list[int]] = defaultdict(list)
    size = 0
    for size, key in enumerate(keys, start=1):
        members[key].append(size - 1)
    masks = []
    for indices in members.values():
        mask = np.zeros(size, dtype=np.bool_)
        mask[indices] = True
        masks.append(mask)
    return masks


def _kinds(measured: Sequence[Measured], variance: Floats, df: Floats, machine: Mask) -> list[Mask]:
    """The parts of a machine's series that share a noise: its families, if they differ in it."""
    families = [m & machine for m in _groups(m.series.family for m in measured)]
    floored = np.where(df > 0, np.maximum(variance, RESOLUTION**2), np.nan)
    small = [f for f in families if FEWEST_SERIES <= f.sum() < _FEWEST_OF_FAMILY]
    apart = [f for f in small if _differ(floored, [f, machine & ~f], _SMALL_FAMILY_DIFFERS)]
    machine = machine & ~np.logical_or.reduce([np.zeros_like(machine), *apart])
    large = [family for family in families if family.sum() >= _FEWEST_OF_FAMILY]
    if not _differ(floored, large, _FAMILIES_DIFFER):
        return [*apart, machine] if machine.any() else apart
    rest = machine & ~np.logical_or.reduce(large)
    return [*apart, *large, rest] if rest.any() else [*apart, *large]


def _differ(variance: Floats, parts: Sequence[Mask], chance: float) -> bool:
    """Whether the variances (N,), NaN where unknown, of the parts differ by a rank test."""
    from scipy import stats

    known = [variance[part & np.isfinite(variance)] for part in parts]
    known = [values for values in known if values.size]
    if len(known) < 2 or np.ptp(np.concatenate(known)) == 0:
        return False
    return bool(stats.kruskal(*known).pvalue <= chance)


def _jumps(measured: Sequence[Measured], effect: Floats, kinds: Sequence[Mask]) -> Floats:
    """The probability, (N,), that a jump makes the effect, learned from series alike."""
    spread = np.array([[max(m.base) - min(m.base), max(m.head) - min(m.head)] for m in measured]).T
    base = np.array([float(len(m.base)) for m in measured])
    head = np.array([float(len(m.head)) for m in measured])
    squares = np.array([m.past.squares for m in measured])
    df = np.array([m.past.df for m in measured])
    chance = np.zeros_like(effect)
    for mask in kinds:
        chance[mask] = jump_chance(
            effect[mask], spread[:, mask], base[mask], head[mask], squares[mask], df[mask]
        )
    return chance


def _variances(measured: Sequence[Measured], machines: Sequence[Mask]) -> tuple[Floats, Floats]:
    """One round's variance and its degrees of freedom, each (N,)."""
    within = np.array([_squares(m.base) + _squares(m.head) for m in measured])
    df = np.array([float(len(m.base) + len(m.head) - 2) for m in measured])
    variance = within / np.maximum(df, 1)
    paired, paired_df = np.full_like(variance, np.nan), np.zeros_like(df)
    for i, m in enumerate(measured):
        if m.interleaved and len(m.base) == len(m.head) > 1:
            steps = tuple(h - b for b, h in zip(m.base, m.head, strict=True))
            paired_df[i] = len(steps) - 1
            paired[i] = _squares(steps) / paired_df[i] / 2
    before, before_df = with_past(variance, df, [m.past for m in measured])
    for mask in machines:
        chosen = mask & (paired_df > 0)
        # What rounds of a run have in common cancels in pairs; the past knows it only as noise.
        if _steadier_paired(variance[chosen], df[chosen], paired[chosen], paired_df[chosen]):
            before[chosen], before_df[chosen] = paired[chosen], paired_df[chosen]
    return before, before_df


def _squares(values: tuple[float, ...]) -> float:
    mean = fmean(values)
    return sum((value - mean) ** 2 for value in values)


def _steadier_paired(variance: Floats, df: Floats, paired: Floats, paired_df: Floats) -> bool:
    """Whether neighbouring rounds of base and head go up and down together, over (N,) series."""
    from scipy import stats

    if variance.size < _FEWEST_TO_PAIR:
        return False
    # Medians over those of the chi-square distribution: a few wild series decide nothing.
    apart = np.median(variance / (stats.chi2.median(df) / df))
    together = np.median(paired / (stats.chi2.median(paired_df) / paired_df))
    return bool(together < _PAIRING_GAIN * apart)


def _runs(
    measured: Sequence[Measured], machines: Sequence[Mask], change: Floats, error: Floats
) -> tuple[Floats, Floats]:
    """Shift to take off and noise between the runs, each (N,); zeros where the sides took turns.

    ``change`` (N,) is log(head/base), whatever is better.
    """
    shift, variance = np.zeros_like(change), np.zeros_like(change)
    apart = np.array([not m.interleaved for m in measured])
    control = np.array([m.series.family == CONTROL_FAMILY for m in measured])
    for mask in machines:
        chosen = mask & apart
        if chosen.any():
            noise = between_runs(change[chosen], error[chosen], control[chosen])
            shift[chosen], variance[chosen] = noise.shift, noise.variance
    # Two runs differ at least as much as the runs of the past did.
    runs = np.array([2 * m.past.run_variance for m in measured])
    variance = np.where(apart, np.maximum(variance, runs), variance)
    return shift, variance
