"""Whether another card of the same GPU may have made a change.

Cards of one model differ in clocks and power. What a card that measured at both levels shows,
was not made by another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log1p

import numpy as np

from dashboard.verdicts.noise import Floats
from dashboard.verdicts.steps import Step

# A card of both levels shows a change if it shows this share of it at least.
_SHOWN = 0.5

# The clocks and the power of cards of one GPU differ by percents, not by tens of them.
_CARDS_DIFFER = log1p(0.1)


def may_be_a_cards(
    values: Floats, cards: Sequence[int], steps: Sequence[Step], step: Step, *, clocked: bool
) -> bool:
    """Whether another card may have made ``step``, one of the ``steps`` of ``values`` (P,).

    ``cards`` (P,) number the cards that measured them, -1 for one that is not known, or are
    empty. Where several cards measured at both levels, each counts by what its values tell of a
    difference. ``clocked``: the values are times that go by a card's clocks, so that a change
    larger than those differ is none of the card's.
    """
    if clocked and abs(step.effect) > _CARDS_DIFFER:
        return False
    if not cards:
        return True
    at = steps.index(step)
    begin = steps[at - 1].latest if at else 0
    end = steps[at + 1].earliest if at + 1 < len(steps) else values.size
    before, after = slice(begin, step.earliest), slice(step.latest, end)
    known = np.asarray(cards, dtype=np.int64)
    shifts, weights = [], []
    for card in np.intersect1d(known[before], known[after]):
        old, new = values[before][known[before] == card], values[after][known[after] == card]
        if card >= 0:
            shifts.append(float(np.mean(new) - np.mean(old)))
            weights.append(1 / (1 / old.size + 1 / new.size))
    return not shifts or float(np.average(shifts, weights=weights)) / step.effect < _SHOWN
