"""What separates two runs beyond their rounds.

All rounds of one run share its luck: the clock the chip settled at, the layout
of memory, the temperature of the room. That cancels between base and head only
if they took turns within a run. Where they did not, it is noise, which more
rounds of the same runs cannot reduce; it is estimated from the series that no
commit changes (the controls), or from all series together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dashboard.verdicts.noise import Floats, Mask

# Two runs differ by at least this (standard deviation of a log ratio): paced GPU timings
# repeat within 0.5 to 1 % from run to run.
LEAST_RUN_NOISE = 0.004

# Two cards of one model differ by about this (standard deviation of a log ratio).
CARD_NOISE = 0.01

# A shift that all series share is taken for the machine's up to this size. Beyond it, a
# commit that changed everything is the likelier cause, and must not go unsaid.
_MOST_COMMON_SHIFT = 0.02

# A shift that all share is one draw of the noise between runs: a plausible one if the
# noise's deviation is at least the shift over this.
_PLAUSIBLE = 1.5

# So many controls are enough to tell the machine's shift from the code's.
_FEWEST_CONTROLS = 2

# So many series are enough to speak of a shift or a spread that they share.
_FEWEST_SERIES = 8

# Rounds that resemble their neighbours understate the noise of their run by up to this
# factor (autocorrelation 0.5 makes 1.8). Effects that scatter more than that have a cause.
_MOST_INFLATION = 3.0

# Dividing by the controls has to make the other series agree better by this factor.
_STEADIER = 0.8


@dataclass(frozen=True, slots=True)
class RunNoise:
    """The noise between the runs of base and head.

    ``shift`` is what the controls moved by, to be taken off every effect (0 where
    that would not make them steadier); ``variance`` (N,) is what remains of the
    difference between the runs in each effect.
    """

    shift: float
    variance: Floats


def between_runs(effect: Floats, error: Floats, control: Mask) -> RunNoise:
    """The noise between two runs of one machine that did not take turns.

    ``effect`` (N,) are the series' log ratios, ``error`` (N,) their standard
    errors from the rounds (NaN where unknown), ``control`` (N,) marks the controls.
    """
    shift, shift_variance = _control_shift(effect, error, control)
    rest = effect - shift
    variance = np.full_like(effect, LEAST_RUN_NOISE**2 + shift_variance)
    reference = rest[control] if control.sum() >= _FEWEST_CONTROLS else rest
    if control.sum() >= _FEWEST_CONTROLS or reference.size >= _FEWEST_SERIES:
        common = min(abs(float(np.median(reference))), _MOST_COMMON_SHIFT) / _PLAUSIBLE
        variance = np.maximum(variance, common**2 + shift_variance)
    return RunNoise(shift, variance + _own_offsets(rest, error))


def _control_shift(effect: Floats, error: Floats, control: Mask) -> tuple[float, float]:
    """The controls' mean effect and its variance; zeros where dividing by it would not help."""
    others = effect[~control]
    if control.sum() < _FEWEST_CONTROLS or others.size == 0:
        return 0.0, 0.0
    size = int(control.sum())
    shift = float(np.mean(effect[control]))
    sampling = float(np.mean(np.nan_to_num(error[control]) ** 2))
    variance = max(float(np.var(effect[control], ddof=1)), sampling) / size
    clear = abs(shift) > 2 * variance**0.5
    steadier = np.median(np.abs(others - shift)) < _STEADIER * np.median(np.abs(others))
    return (shift, variance) if clear and steadier else (0.0, 0.0)


def _own_offsets(effect: Floats, error: Floats) -> Floats:
    """The variance (N,) by which effects scatter more than their rounds explain.

    From the median absolute deviation, so that a minority of changed series
    does not count as noise; bounded, so that a majority of them does not hide itself.
    """
    known = np.isfinite(error) & (error > 0)
    if known.sum() < _FEWEST_SERIES:
        return np.zeros_like(effect)
    centred = np.abs(effect[known] - np.median(effect[known])) / error[known]
    inflation = min(max(1.0, 1.4826 * float(np.median(centred))), _MOST_INFLATION)
    return np.where(known, (inflation**2 - 1) * np.where(known, error, 0.0) ** 2, 0.0)
