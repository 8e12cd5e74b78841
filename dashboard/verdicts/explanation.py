"""From the numbers of a decision to a verdict with its reason in words."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, expm1, isfinite, log1p
from statistics import fmean

import numpy as np

from dashboard.models import SeriesVerdict, Verdict
from dashboard.verdicts.decision import FALSE_DISCOVERY_RATE, Decision, Evidence, rounds_needed
from dashboard.verdicts.kinds import TIME_UNITS
from dashboard.verdicts.noise import Floats
from dashboard.verdicts.policy import limits
from dashboard.verdicts.screening import Measured

# The exponential of more is no longer a finite float.
_LARGEST = 709.0

# Within this share of the threshold of it, more rounds make a verdict no likelier.
_CLOSE = 1 / 3


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one series; logarithms turned so that above 0 is worse.

    ``effect`` ± ``half`` is the 95 % interval (``half`` NaN where nothing is known
    of the noise), ``shift`` what of the effect is the machine's by its controls,
    ``deviation`` that of one round. ``rounds_needed`` is NaN where none up to a hundred would
    settle it, ``rounds_interleaved`` the same if base and head took turns on one card.
    ``middle`` is the effect by the medians of the rounds.
    """

    verdict: Verdict
    effect: float
    half: float
    shift: float
    deviation: float
    middle: float
    rounds_needed: float
    rounds_interleaved: float

    @staticmethod
    def of(evidence: Evidence, decision: Decision, shift: Floats) -> list[Finding]:
        """One finding a series; ``shift`` (N,) is what was taken off the effects."""
        verdict = np.select(
            [decision.regressed, decision.improved, decision.unchanged],
            [Verdict.REGRESSED, Verdict.IMPROVED, Verdict.UNCHANGED],
            Verdict.INCONCLUSIVE,
        )
        undecided = verdict == Verdict.INCONCLUSIVE
        columns = (
            evidence.effect + shift,
            decision.half,
            shift,
            np.sqrt(evidence.noise.variance),
            evidence.median_effect,
            rounds_needed(evidence, undecided),
            rounds_needed(evidence, undecided, between=np.zeros_like(evidence.between)),
        )
        rows = zip(verdict.tolist(), *(column.tolist() for column in columns), strict=True)
        return [Finding(Verdict(name), *numbers) for name, *numbers in rows]


def explain(measured: Measured, finding: Finding) -> SeriesVerdict:
    """The verdict of a series, with the values it was made from and the reason."""
    known = isfinite(finding.half)
    named = finding.verdict is Verdict.INCONCLUSIVE and isfinite(finding.rounds_needed)
    wanted = int(finding.rounds_needed) if named else None
    parts = [_what(measured, finding, wanted), *_circumstances(measured, finding)]
    return SeriesVerdict(
        measured.series,
        finding.verdict,
        "; ".join(parts),
        base=_exp(fmean(measured.base)),
        head=_exp(fmean(measured.head)),
        ratio=_exp(finding.effect),
        low=_exp(finding.effect - finding.half) if known else None,
        high=_exp(finding.effect + finding.half) if known else None,
        threshold=measured.rule.minimum_effect,
        rounds_needed=wanted,
        run=measured.run,
    )


def _what(measured: Measured, finding: Finding, wanted: int | None) -> str:
    effect = finding.effect - finding.shift
    limit = log1p(measured.rule.minimum_effect)
    if finding.verdict is Verdict.UNCHANGED:
        return _unchanged(measured, effect, finding.half)
    if finding.verdict is not Verdict.INCONCLUSIVE:
        place = "beyond" if abs(effect) > limit else "about"
        edge = _limit(limit if effect > 0 else -limit)
        return f"{_change(measured, effect)}, {place} {edge} and beyond the noise"
    if not isfinite(finding.half):
        return "one round a side, and too few other series to learn the noise from"
    return f"{_open(measured, finding, effect, limit)}; {_remedy(measured, finding, wanted)}"


def _unchanged(measured: Measured, effect: float, half: float) -> str:
    limit = log1p(measured.rule.minimum_effect)
    passes = abs(effect) + half > limit
    if abs(effect) > half:
        edge = _limit(limit if effect > 0 else -limit)
        reason = f"{_change(measured, effect)}, less than the {edge} that count"
        return f"{reason}; the interval passes that by less than a tenth" if passes else reason
    where = "passes" if passes else "lies within"
    reason = f"the 95 % interval {where} {limits(measured.rule.minimum_effect)}"
    return f"{reason} by less than a tenth" if passes else reason


def _open(measured: Measured, finding: Finding, effect: float, limit: float) -> str:
    """What keeps a series from a verdict."""
    change = f"{_change(measured, effect)} ± {_percent(finding.half)}"
    if abs(effect) <= limit:
        end = effect + (finding.half if effect > 0 else -finding.half)
        edge = _limit(limit if effect > 0 else -limit)
        sign = "+" if effect > 0 else "-"
        what = f"{_signed(end)} is possible, past {sign}{edge} by more than a tenth"
    elif _is_split(finding, effect, limit):
        what = f"single rounds make it, by the medians it is {_signed(finding.middle)}"
    elif abs(effect) <= finding.half:
        what = "no change is possible too"
    elif finding.half > limit:
        what = "its size is not known well enough"
    else:
        what = f"not certain enough for a false discovery rate of {100 * FALSE_DISCOVERY_RATE:g} %"
    return f"{change}: {what} ({_percent(finding.deviation)} from round to round)"


def _is_split(finding: Finding, effect: float, limit: float) -> bool:
    """Whether the means of the rounds say a change, and their medians none."""
    same = finding.middle if effect > 0 else -finding.middle
    return abs(effect) > limit and same <= limit / 2


def _remedy(measured: Measured, finding: Finding, wanted: int | None) -> str:
    if wanted is not None:
        now = min(len(measured.base), len(measured.head))
        return f"about {wanted} rounds a side would settle it ({now} now)"
    if isfinite(finding.rounds_interleaved):
        kind = "rounds on one card" if measured.other_card else "interleaved ones"
        return f"more rounds of these runs would not settle it, {kind} would"
    effect, limit = finding.effect - finding.shift, log1p(measured.rule.minimum_effect)
    if _is_split(finding, effect, limit):
        return "rounds that agree better are needed"
    if abs(abs(effect) - limit) <= limit * _CLOSE:
        edge = f"{100 * measured.rule.minimum_effect:g} %"
        return f"too close to the threshold of {edge} to be settled by more rounds"
    return "too noisy to be settled by a hundred rounds"


def _circumstances(measured: Measured, finding: Finding) -> list[str]:
    found = []
    if finding.shift:
        # Turned back: the shift is of the values, whatever is better.
        shift = -finding.shift if measured.rule.higher_is_better else finding.shift
        found.append(f"the controls moved by {100 * expm1(shift):+.2g} %, which is taken off")
    if measured.interleaved is None:
        found.append("noise between runs included, as the rounds carry no times")
    elif not measured.interleaved:
        found.append("noise between runs included, as base and head were not interleaved")
    if measured.remark:
        found.append(measured.remark)
    if measured.other_card:
        found.append("another card of the same model, whose noise is included")
    return found


def _change(measured: Measured, effect: float) -> str:
    timed = measured.series.unit in TIME_UNITS and not measured.rule.higher_is_better
    worse, better = ("slower", "faster") if timed else ("worse", "better")
    return f"{_percent(effect)} {worse if effect > 0 else better}"


def _percent(log_ratio: float) -> str:
    value = 100 * abs(expm1(min(log_ratio, _LARGEST)))
    return f"{value:.2f} %" if 0.1 <= value < 10 else f"{value:.3g} %"


def _signed(log_ratio: float) -> str:
    return f"{'+' if log_ratio > 0 else '-'}{_percent(log_ratio)}"


def _limit(log_ratio: float) -> str:
    return f"{100 * abs(expm1(log_ratio)):.3g} %"


def _exp(logarithm: float) -> float:
    return exp(max(-_LARGEST, min(logarithm, _LARGEST)))
