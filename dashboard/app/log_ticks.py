"""Where a logarithmic axis has its labels; Vega's own are 1, 2, 5 and 10, of which a panel of less
than a decade may show one."""

from __future__ import annotations

import math

_ENOUGH, _MOST = 4, 9
# Coarse to fine, the first digits of the labels in each decade.
_DIGITS = ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0))
_STEPS = (5.0, 2.5, 2.0, 1.0)


def between(low: float, high: float) -> list[float]:
    """Round values from ``low`` (above 0) to ``high``, about five of them, in order."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = range(first, last + 1)
    for digits in _DIGITS:
        # One decade in so many, where there are more than can be told apart.
        every = max(1, len(decades) // _MOST)
        found = [
            float(f"{digit}e{power}")
            for power in decades[::every]
            for digit in digits
            if low <= float(f"{digit}e{power}") <= high
        ]
        if len(found) >= _ENOUGH:
            return found
    return _evenly(low, high)


def _evenly(low: float, high: float) -> list[float]:
    """The multiples of a round step, which are as good on so short an axis."""
    power = math.floor(math.log10(high - low)) if high > low else 0
    for step in (float(f"{size}e{p}") for p in (power, power - 1) for size in _STEPS):
        multiples = range(math.ceil(low / step), math.floor(high / step) + 1)
        if len(multiples) >= _ENOUGH:
            return [float(f"{number * step:.12g}") for number in multiples]
    return sorted({low, high})
