"""What a change of level means: its commits, its size, what explains it. Synthetic series."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from level_histories import history, stepped
from numpy.typing import NDArray

from dashboard.models import CARD_CONDITION
from dashboard.verdicts.changes import Condition, Found, SeriesHistory, find_changes

Floats = NDArray[np.float64]


def one(*histories: SeriesHistory) -> Found:
    (found,) = [f for f in find_changes(histories) if f.series.family != "control"]
    return found


def test_a_change_names_the_commits_around_it() -> None:
    found = one(history(stepped(1)))
    assert (found.after, found.first, found.earliest, found.latest) == (57, 60, 57, 60)
    assert found.ratio == pytest.approx(1.1, rel=0.005)
    assert found.worse
    assert found.explained_by is None


def test_the_ratio_is_above_one_where_it_became_worse() -> None:
    faster = one(history(stepped(1, factor=1 / 1.1)))
    assert faster.ratio == pytest.approx(1 / 1.1, rel=0.005)
    assert not faster.worse
    lost = one(history(stepped(1, factor=1 / 1.1), higher=True))
    assert lost.ratio == pytest.approx(1.1, rel=0.005)
    assert lost.worse


def test_another_driver_at_the_same_commit_explains_a_change() -> None:
    driver = Condition(60, "driver", "550", "560")
    assert one(history(stepped(1), conditions=(driver,))).explained_by == "driver 550 → 560"
    elsewhere = Condition(30, "driver", "550", "560")
    assert one(history(stepped(1), conditions=(elsewhere,))).explained_by is None


def test_a_change_that_may_be_where_the_driver_changed_is_placed_there() -> None:
    values = stepped(1, factor=1.06, sigma=0.01)
    values[20] = 10 * 1.06**0.5  # between the levels: the step may as well begin one later
    for place in (60, 63):
        torch = Condition(place, "torch", "2.10", "2.11")
        found = one(history(values, conditions=(torch,)))
        assert found.first == place
        assert found.earliest <= 57
        assert found.latest >= 63
        assert found.explained_by == "torch 2.10 → 2.11"


def test_controls_that_moved_along_explain_a_change() -> None:
    controls = [history(stepped(i, 1.09), "control") for i in (2, 3)]
    still = [history(stepped(i, 1.0), "control") for i in (4, 5)]
    along = one(history(stepped(1)), *controls).explained_by
    assert along is not None
    assert along.startswith("machine (its controls moved by +9")
    assert one(history(stepped(1)), *still).explained_by is None
    (control,) = find_changes(controls[:1])
    assert control.explained_by == "machine (a control: no commit changes its code)"


def test_exact_quantities_change_at_every_difference() -> None:
    found = find_changes([history(np.array([3.0, 3.0, 4.0, 0.0]), exact=True)])
    assert [(f.after, f.first, f.worse) for f in found] == [(3, 6, True), (6, 9, False)]
    assert found[0].ratio == pytest.approx(4 / 3)
    assert (found[1].ratio, found[1].difference) == (None, -4.0)


def test_another_card_explains_no_change_of_an_exact_quantity() -> None:
    values = np.array([3.0, 4.0, 5.0])
    card, version = Condition(3, CARD_CONDITION, "one", "other"), Condition(6, "triton", "3", "4")
    found = find_changes([history(values, exact=True, conditions=(card, version))])
    assert [f.explained_by for f in found] == [None, "triton 3 → 4"]


def test_values_without_a_logarithm_are_passed_over() -> None:
    assert find_changes([history(np.array([1.0, 0.0, -1.0, 5.0]))]) == []


def test_series_of_different_length_learn_from_each_other() -> None:
    found = find_changes([history(stepped(i, size=8 + i, at=4)) for i in range(6)])
    assert {f.first for f in found} == {12}
    assert len(found) == 6


numbers = st.one_of(
    st.floats(min_value=-1e300, max_value=1e300),
    st.sampled_from([0.0, 1e-308, 1e308, 10.0, 10.0, 11.0, 11.0]),
)


@settings(deadline=None, max_examples=150)
@given(st.lists(st.lists(numbers, max_size=30), max_size=4), st.booleans(), st.booleans())
@example([[], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]], False, False)
def test_no_history_breaks_the_search(rows: list[list[float]], exact: bool, higher: bool) -> None:
    histories = [history(np.array(row), exact=exact, higher=higher) for row in rows]
    for found in find_changes(histories):
        assert found.earliest <= found.after < found.first <= found.latest
        assert found.points >= (1 if exact else 2)
        if found.ratio is None:
            assert found.difference is not None
        elif found.low is not None and found.high is not None:
            assert 0 < found.low <= found.ratio <= found.high < np.inf
