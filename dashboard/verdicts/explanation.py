"""From the numbers of a decision to a verdict with its reason in words."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, expm1, isfinite
from statistics import fmean

import numpy as np

from dashboard.models import SeriesVerdict, Verdict
from dashboard.verdicts.decision import Decision, Evidence, rounds_needed
from dashboard.verdicts.noise import Floats
from dashboard.verdicts.screening import Measured

# The exponential of more is no longer a finite float.
_LARGEST = 709.0

_TIME_UNITS = frozenset({"s", "seconds", "ms", "us", "µs", "ns"})


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one series; logarithms turned so that above 0 is worse.

    ``effect`` ± ``half`` is the 95 % interval (``half`` NaN where nothing is known
    of the noise), ``shift`` what of the effect is the machine's by its controls,
    ``deviation`` that of one round, ``rounds_needed`` NaN where none would settle it.
    """

    verdict: Verdict
    effect: float
    half: float
    shift: float
    deviation: float
    rounds_needed: float

    @staticmethod
    def of(evidence: Evidence, decision: Decision, shift: Floats) -> list[Finding]:
        """One finding a series; ``shift`` (N,) is what was taken off the effects."""
        verdict = np.select(
            [decision.regressed, decision.improved, decision.unchanged],
            [Verdict.REGRESSED, Verdict.IMPROVED, Verdict.UNCHANGED],
            Verdict.INCONCLUSIVE,
        )
        columns = (
            evidence.effect + shift,
            decision.half,
            shift,
            np.sqrt(evidence.noise.variance),
            rounds_needed(evidence, tests=evidence.effect.size),
        )
        rows = zip(verdict.tolist(), *(column.tolist() for column in columns), strict=True)
        return [Finding(Verdict(name), *numbers) for name, *numbers in rows]


def explain(measured: Measured, finding: Finding) -> SeriesVerdict:
    """The verdict of a series, with the values it was made from and the reason."""
    known = isfinite(finding.half)
    wanted = _rounds(measured, finding) if finding.verdict is Verdict.INCONCLUSIVE else None
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
    )


def _rounds(measured: Measured, finding: Finding) -> int | None:
    """Rounds a side that would settle it: more than there are, or ``None`` if none would."""
    if not isfinite(finding.rounds_needed):
        return None
    return max(int(finding.rounds_needed), min(len(measured.base), len(measured.head)) + 1)


def _what(measured: Measured, finding: Finding, wanted: int | None) -> str:
    limit = f"{100 * measured.rule.minimum_effect:g} %"
    change = _change(measured, finding.effect - finding.shift)
    if finding.verdict is Verdict.UNCHANGED:
        return f"the 95 % interval lies within ±{limit}"
    if finding.verdict is not Verdict.INCONCLUSIVE:
        return f"{change}, beyond {limit} and the noise"
    if not isfinite(finding.half):
        return "one round a side, and too few other series to learn the noise from"
    noise = (
        f"{change}, ± {_percent(finding.half)}: too wide for a threshold of {limit} "
        f"at {_percent(finding.deviation)} from round to round"
    )
    if wanted is None:
        return f"{noise}; more rounds of these runs would not settle it, interleaved ones would"
    rounds = min(len(measured.base), len(measured.head))
    return f"{noise}; about {wanted} rounds a side would settle it ({rounds} now)"


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
    if measured.other_card:
        found.append("another card of the same model, whose noise is included")
    return found


def _change(measured: Measured, effect: float) -> str:
    timed = measured.series.unit in _TIME_UNITS and not measured.rule.higher_is_better
    worse, better = ("slower", "faster") if timed else ("worse", "better")
    return f"{_percent(effect)} {worse if effect > 0 else better}"


def _percent(log_ratio: float) -> str:
    return f"{100 * abs(expm1(min(log_ratio, _LARGEST))):.2g} %"


def _exp(logarithm: float) -> float:
    return exp(max(-_LARGEST, min(logarithm, _LARGEST)))
