"""The changes in the history of series, and what explains them other than a commit.

A change that coincides with another driver, torch, triton, GPU or benchmark version is
explained by it; by another card of the same GPU only if that may have made it (``cards.py``).
So is one that the controls of the machine made too: no commit changes their code.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import exp, expm1, log, log1p

import numpy as np

from dashboard.models import CARD_CONDITION, Series
from dashboard.verdicts.cards import may_be_a_cards
from dashboard.verdicts.kinds import CONTROL_FAMILY, is_call_time
from dashboard.verdicts.noise import Floats
from dashboard.verdicts.points import PointNoise, point_noise
from dashboard.verdicts.policy import Rule
from dashboard.verdicts.steps import Step, find_steps

# A control moved along if it moved by this share of the change at least.
_ALONG = 0.5

_LARGEST = 700.0


@dataclass(frozen=True, slots=True)
class Condition:
    """Something other than the code that changed at the value of index ``place``."""

    place: int
    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class SeriesHistory:
    """A series' values in order of the commits.

    ``places`` (P,) are the commits' indices, ``values`` (P,) the values in the series' unit.
    ``rounds_error`` is the mean squared standard error of a value's logarithm by its rounds,
    NaN where unknown, with ``rounds_df`` degrees of freedom. ``cards`` (P,) number the GPUs
    that measured the values, -1 for one that is not known; they are empty where none is.
    """

    series: Series
    rule: Rule
    places: tuple[int, ...]
    values: Floats
    rounds_error: float = float("nan")
    rounds_df: float = 0.0
    conditions: tuple[Condition, ...] = field(default=())
    cards: tuple[int, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Found:
    """A change of one series; ``after`` … ``latest`` are places of commits.

    The change came after ``after`` and was complete at ``first``, by the best estimate;
    ``earliest`` is the last place certainly before it, ``latest`` the first certainly after.
    ``ratio`` above 1 is worse; ``None``, with ``difference`` in the unit, where a value is
    not above 0. ``points`` values were seen since.
    """

    series: Series
    after: int
    first: int
    earliest: int
    latest: int
    ratio: float | None
    low: float | None
    high: float | None
    difference: float | None
    worse: bool
    points: int
    gradual: bool
    explained_by: str | None = None


def has_logarithm(history: SeriesHistory) -> bool:
    """Whether all values are above 0, as noise and ratios need them."""
    return bool(np.all(history.values > 0))


def find_changes(histories: Sequence[SeriesHistory]) -> list[Found]:
    """All changes of all series, in the order of the series and then of time.

    All series of a store belong into one call: each one's noise is learned from all.
    Series that are not exact and have values of 0 or less are passed over.
    """
    steps = _all_steps(histories)
    controls = _control_moves(histories, steps)
    changes: list[Found] = []
    for index, history in enumerate(histories):
        if history.rule.exact:
            changes += _exact_changes(history)
        own = steps.get(index, [])
        for step in own:
            by_card = may_be_a_cards(
                _worse(history), history.cards, own, step, clocked=is_call_time(history.series)
            )
            changes.append(_explained(history, step, controls, by_card=by_card))
    return changes


def _all_steps(histories: Sequence[SeriesHistory]) -> dict[int, list[Step]]:
    alike: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
    for index, history in enumerate(histories):
        if not history.rule.exact and has_logarithm(history):
            series = history.series
            alike[series.machine, series.environment, series.unit].append(index)
    steps: dict[int, list[Step]] = {}
    for members in alike.values():
        worse = [_worse(histories[index]) for index in members]
        noise = _noise([histories[index] for index in members], worse)
        for position, index in enumerate(members):
            minimum = log1p(histories[index].rule.minimum_effect)
            steps[index] = find_steps(worse[position], noise, position, minimum)
    return steps


def _worse(history: SeriesHistory) -> Floats:
    """The logarithms of the values, turned so that more is worse; (P,)."""
    sign = -1.0 if history.rule.higher_is_better else 1.0
    return sign * np.log(history.values)


def _noise(histories: Sequence[SeriesHistory], values: list[Floats]) -> PointNoise:
    return point_noise(
        values,
        np.array([h.rounds_error for h in histories]),
        np.array([h.rounds_df for h in histories]),
    )


def _control_moves(
    histories: Sequence[SeriesHistory], steps: dict[int, list[Step]]
) -> dict[tuple[str, str], list[list[tuple[int, int, float]]]]:
    """By machine and environment, of each control its changes: first and last place, effect."""
    moves: defaultdict[tuple[str, str], list[list[tuple[int, int, float]]]] = defaultdict(list)
    for index, history in enumerate(histories):
        if history.series.family == CONTROL_FAMILY and index in steps:
            where = (history.series.machine, history.series.environment)
            moves[where].append(
                [
                    (history.places[step.earliest - 1], history.places[step.latest], step.effect)
                    for step in steps[index]
                ]
            )
    return moves


def _explained(
    history: SeriesHistory,
    step: Step,
    controls: dict[tuple[str, str], list[list[tuple[int, int, float]]]],
    *,
    by_card: bool,
) -> Found:
    places = history.places
    begin, end = places[step.earliest - 1], places[step.latest]
    conditions = [
        c
        for c in history.conditions
        if begin < c.place <= end and not step.gradual and (by_card or c.name != CARD_CONDITION)
    ]
    if conditions:
        # The change is where the conditions changed, if it may be there at all.
        first = places.index(conditions[-1].place)
        step = replace(step, first=first, points=len(places) - first)
    reasons = [f"{c.name} {c.before} → {c.after}" for c in conditions]
    series = history.series
    if series.family == CONTROL_FAMILY:
        reasons.append("machine (a control: no commit changes its code)")
    else:
        along = _along(controls.get((series.machine, series.environment), []), begin, end, step)
        if along is not None:
            reasons.append(f"machine (its controls moved by {100 * expm1(along):+.2g} %)")
    return _found(history, step, "; ".join(reasons) or None)


def _along(
    controls: list[list[tuple[int, int, float]]], begin: int, end: int, step: Step
) -> float | None:
    """The median effect of the controls that changed alike, if at least half of them did."""
    effects = []
    for moves in controls:
        alike = [
            effect
            for first, last, effect in moves
            if first < end and last > begin and effect / step.effect >= _ALONG
        ]
        effects += alike[:1]
    if not effects or 2 * len(effects) < len(controls):
        return None
    return float(np.median(effects))


def _found(history: SeriesHistory, step: Step, explained_by: str | None) -> Found:
    places = history.places
    before = step.earliest - 1 if step.gradual else step.first - 1
    return Found(
        series=history.series,
        after=places[before],
        first=places[step.first],
        earliest=places[min(before, step.earliest - 1)],
        latest=places[max(step.latest, step.first)],
        ratio=_exp(step.effect),
        low=_exp(step.effect - step.half),
        high=_exp(step.effect + step.half),
        difference=None,
        worse=step.effect > 0,
        points=step.points,
        gradual=step.gradual,
        explained_by=explained_by,
    )


def _exact_changes(history: SeriesHistory) -> list[Found]:
    """Every difference of an exact quantity, which all cards of a model have alike."""
    changes = []
    changed = {
        c.place: f"{c.name} {c.before} → {c.after}"
        for c in history.conditions
        if c.name != CARD_CONDITION
    }
    for index, (before, after) in enumerate(pairwise(history.values.tolist()), start=1):
        if before == after:
            continue
        worse = (after < before) == history.rule.higher_is_better
        effect = log(after) - log(before) if before > 0 and after > 0 else None
        turned = None if effect is None else -effect if history.rule.higher_is_better else effect
        ratio = None if turned is None else _exp(turned)
        place, past = history.places[index], history.places[index - 1]
        changes.append(
            Found(
                series=history.series,
                after=past,
                first=place,
                earliest=past,
                latest=place,
                ratio=ratio,
                low=ratio,
                high=ratio,
                difference=after - before if ratio is None else None,
                worse=worse,
                points=len(history.places) - index,
                gradual=False,
                explained_by=changed.get(place),
            )
        )
    return changes


def _exp(logarithm: float) -> float:
    return exp(max(-_LARGEST, min(logarithm, _LARGEST)))
