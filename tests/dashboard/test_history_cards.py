"""Whether another card explains a change of level. Synthetic series."""

from __future__ import annotations

import pytest
from level_histories import history, stepped

from dashboard.models import CARD_CONDITION
from dashboard.verdicts.changes import Condition, Found, SeriesHistory, find_changes


def one(*histories: SeriesHistory) -> Found:
    (found,) = find_changes(histories)
    return found


# The cards of forty values whose level changes in the middle.
OTHER_CARD = Condition(60, CARD_CONDITION, "a", "b")
APART = 20 * (0,) + 20 * (1,)
BOTH = 19 * (0,) + (1,) + 20 * (1,)
TURNS = 20 * (0, 1)


def test_another_card_explains_what_no_card_of_both_levels_shows() -> None:
    values = stepped(1, factor=1.05)
    for cards in ((), APART, 40 * (-1,)):
        found = one(history(values, conditions=(OTHER_CARD,), cards=cards))
        assert found.explained_by == "GPU card a → b"
    slow = stepped(1, factor=1.0)
    slow[20:] *= 1.05
    slow[25] /= 1.05  # the old card came back once, and shows nothing
    back = (*APART[:25], 0, *APART[26:])
    assert one(history(slow, conditions=(OTHER_CARD,), cards=back)).explained_by is not None


@pytest.mark.parametrize("cards", [BOTH, TURNS], ids=["once", "by turns"])
def test_another_card_does_not_explain_what_a_card_of_both_levels_shows(
    cards: tuple[int, ...],
) -> None:
    found = one(history(stepped(1, factor=1.05), conditions=(OTHER_CARD,), cards=cards))
    assert (found.first, found.explained_by) == (60, None)
    along = (OTHER_CARD, Condition(60, "driver", "550", "560"))
    found = one(history(stepped(1, factor=1.05), conditions=along, cards=cards))
    assert found.explained_by == "driver 550 → 560"


def test_a_card_of_another_level_tells_nothing_of_a_change() -> None:
    values = stepped(1, factor=1.05)
    values[30:] *= 1.08  # a second change, which the first card measured both sides of
    cards = 20 * (0,) + 10 * (1,) + 10 * (0,)
    back = Condition(90, CARD_CONDITION, "b", "a")
    found = find_changes([history(values, conditions=(OTHER_CARD, back), cards=cards)])
    assert [(f.first, f.explained_by) for f in found] == [
        (60, "GPU card a → b"),
        (90, "GPU card b → a"),
    ]


@pytest.mark.parametrize("factor", [1.4, 1 / 1.4])
def test_another_card_explains_no_change_of_a_calls_time_larger_than_cards_differ(
    factor: float,
) -> None:
    found = one(history(stepped(1, factor=factor), conditions=(OTHER_CARD,), cards=APART))
    assert found.explained_by is None
    host = history(stepped(1, factor=factor), "host", conditions=(OTHER_CARD,), cards=APART)
    assert one(host).explained_by == "GPU card a → b"


def test_a_rate_by_turns_of_cards_changed_itself() -> None:
    values = stepped(1, factor=1.05)
    by_turns = history(values, conditions=(OTHER_CARD,), cards=TURNS, higher=True)
    assert one(by_turns).explained_by is None
    apart = history(values, conditions=(OTHER_CARD,), cards=APART, higher=True)
    assert one(apart).explained_by == "GPU card a → b"


def test_cards_of_both_levels_count_by_what_their_values_tell() -> None:
    values = stepped(1, factor=1.05)
    values[30] /= 1.07  # the third card, once before and once after: faster by chance
    cards = (0, 2, *18 * (0,), 1, *9 * (0,), 2, *9 * (0,))
    assert one(history(values, conditions=(OTHER_CARD,), cards=cards)).explained_by is None
