"""What a trend tells beside its values: cards, how far rounds go, labels. Invented numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from app_pages import charted, charts_of, words
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from dashboard.app import frames, log_ticks, spans, wording
from dashboard.store import open_store, queries
from dashboard.store.ingest import ingest

OPEN = Callable[..., AppTest]
FORWARD = "forward"


@given(st.floats(1e-9, 1e9), st.floats(1.001, 1e6))
def test_a_logarithmic_axis_has_enough_labels_and_not_too_many(low: float, span: float) -> None:
    high = low * span
    ticks = log_ticks.between(low, high)
    assert 4 <= len(ticks) <= 18
    assert ticks == sorted(set(ticks))
    assert low * (1 - 1e-9) <= ticks[0]
    assert ticks[-1] <= high * (1 + 1e-9)


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (0.9, 2.1, [1.0, 1.25, 1.5, 1.75, 2.0]),
        (3.8, 6.6, [4.0, 4.5, 5.0, 5.5, 6.0, 6.5]),
        (0.02, 0.9, [0.02, 0.05, 0.1, 0.2, 0.5]),
        (0.5, 5000, [1.0, 10.0, 100.0, 1000.0]),
        (2.0, 2.0, [2.0]),
    ],
)
def test_labels_are_round(low: float, high: float, wanted: list[float]) -> None:
    assert log_ticks.between(low, high) == wanted


def test_the_logarithmic_panels_of_a_page_have_those_labels(
    open_page: OPEN, rich_store: Path
) -> None:
    app = open_page("trends", rich_store, benchmark="forward_entropy", scale="log")
    for chart in charts_of(app):
        axes = [y for layer in chart["layer"] if (y := layer["encoding"].get("y", {})).get("scale")]
        low, high = axes[0]["scale"]["domain"]
        assert all(y["axis"]["values"] == log_ticks.between(low, high) for y in axes)
    straight = open_page("trends", rich_store, benchmark="forward_entropy")
    assert '"values"' not in json.dumps([c["layer"][1]["encoding"] for c in charts_of(straight)])


def points(*rounds: list[float]) -> pd.DataFrame:
    """A value for each list of rounds, with the interval that the store gives it."""
    made = []
    for values in rounds:
        middle = float(np.median(values)) if values else 5.0
        half = 0.5
        if len(values) > 1:
            deviation = float(np.std(values, ddof=1)) / len(values) ** 0.5
            half = {2: 12.706204736174694, 3: 4.302652729749462}[len(values)] * deviation
        ends = {"low": middle - half, "high": middle + half}
        made.append({"value": middle, **ends, "rounds": len(values) or None})
    return pd.DataFrame(made)


def test_two_rounds_reach_as_far_as_they_lie_apart() -> None:
    drawn = spans.of_rounds(points([92.4, 89.8], [90.0, 91.0, 92.0], [90.0], []))
    assert list(drawn.loc[0, ["low", "high"]]) == pytest.approx([89.8, 92.4])
    assert list(drawn.loc[1, ["low", "high"]]) == list(
        points([90.0, 91.0, 92.0])[["low", "high"]].iloc[0]
    )
    assert drawn.loc[2, ["low", "high"]].isna().all(), "a round says nothing of the next one"
    assert list(drawn.loc[3, ["low", "high"]]) == [4.5, 5.5], "asv's own, of another suite"
    # What is saved is what the store has.
    assert spans.stored(drawn).equals(points([92.4, 89.8], [90.0, 91.0, 92.0], [90.0], []))


def test_of_two_rounds_without_two_values_nothing_is_claimed() -> None:
    odd = points([90.0, 91.0]).assign(low=80.0, high=95.0)  # asv's own interval
    assert spans.of_rounds(odd)[["low", "high"]].isna().all().all()


@pytest.mark.parametrize(
    ("rounds", "told"),
    [
        (([1.0, 2.0, 3.0],), "Bands and bars are 95 % intervals of the value over its rounds."),
        (([1.0, 2.0],), "Bands and bars are the two rounds of each value."),
        (([1.0],), "A value of a single round has none."),
        (([],), "Bands and bars are asv's own 99 % intervals."),
        (
            ([1.0, 2.0, 3.0], [1.0, 2.0], [1.0]),
            "Bands and bars are 95 % intervals of the value over its rounds, of two rounds the two "
            "themselves. A value of a single round has none.",
        ),
    ],
)
def test_the_caption_says_what_the_bars_are(rounds: tuple[list[float], ...], told: str) -> None:
    assert spans.caption(points(*rounds)) == told


def test_a_page_draws_two_rounds_where_they_are(
    open_page: OPEN, store_of: Callable[..., Path]
) -> None:
    store = store_of(rounds=2)
    asked = {"benchmark": FORWARD, "model": "nemotron-super", "show": "absolute"}
    app = open_page("trends", store, **asked)
    drawn = next(frame for frame in charted(app) if "y_low" in frame)
    with open_store(store) as opened:
        described = queries.series(opened)
        (number,) = described["series_id"][
            (described["family"] == FORWARD) & (described["model"] == "nemotron-super")
        ]
        for _, row in drawn.iterrows():
            commit = str(row["key"]).split("@")[1]
            taken = queries.rounds(opened, int(number), commit)["value"]
            assert [row["y_low"], row["y_high"]] == pytest.approx([taken.min(), taken.max()])
    assert "Bands and bars are the two rounds of each value." in words(app)


def cards(*names: str | None) -> pd.DataFrame:
    rows = [
        {"series_id": 1, "rank": place, "value": 1.0, "gpu_uuid": name}
        for place, name in enumerate(names)
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("names", "other"),
    [
        ("aab", [False, False, True]),
        ("ab", [True, False]),  # as many of both: the latest is the usual one
        ("aa", [False, False]),
        (["a", None, "a"], [False, False, False]),
        ([None, None], [False, False]),
    ],
)
def test_the_usual_card_is_that_of_most_points(names: Any, other: list[bool]) -> None:
    assert list(frames.on_another_card(cards(*names))) == other


def test_points_of_another_card_are_hollow_and_name_it(
    open_page: OPEN, tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    made = make_history(tmp_path / "results", recipe(commits=5))
    other = "GPU-44319026-a200-ceca-5266-5cb1b25bc91a"
    made.write_rounds(2, [line | {"gpu_uuid": other} for line in made.rounds(2)])
    ingest(tmp_path / "s.duckdb", made.results)
    asked = {"benchmark": FORWARD, "model": "nemotron-super", "show": "absolute"}
    app = open_page("trends", tmp_path / "s.duckdb", **asked, numbers="true", table="every point")
    (chart,) = charts_of(app)
    drawn = next(frame for frame in charted(app) if "elsewhere" in frame)
    assert list(drawn["elsewhere"]) == [False, False, True, False, False]
    assert drawn["card"].iloc[2] == "GPU-44319026"
    holes = [layer for layer in chart["layer"] if "elsewhere" in json.dumps(layer.get("transform"))]
    assert len(holes) == 1
    assert "Hollow points are of another GPU card" in words(app)
    assert "◆" not in json.dumps(chart, ensure_ascii=False), "cards may alternate"
    assert "GPU-44319026" in set(app.dataframe[0].value["Card"])


def test_a_step_that_something_else_explains_has_a_sign_of_its_own(
    open_page: OPEN, tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    faster = {(f"{name}.track_time", 3): 0.9 for name in ("forward.Forward", "control.Control")}
    slower = {("entropy.ForwardEntropy.track_time", 4): 1.3}
    made = make_history(tmp_path / "results", recipe(commits=8, factors=faster | slower))
    ingest(tmp_path / "s.duckdb", made.results)
    asked = {"model": "nemotron-super", "show": "absolute"}
    signs = {}
    for name in (FORWARD, "forward_entropy"):
        app = open_page("trends", tmp_path / "s.duckdb", benchmark=name, **asked)
        drawn = [frame for frame in charted(app) if "said" in frame]
        signs[name] = [(row["sign"], row["tick"]) for row in drawn[0].to_dict("records")]
    assert signs == {
        FORWARD: [("≠", made.commits[3][:7])],
        "forward_entropy": [("▲", made.commits[4][:7])],
    }


def test_the_details_of_a_point_tell_a_change_of_card(
    open_page: OPEN, tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    made = make_history(tmp_path / "results", recipe())
    made.write_rounds(3, [line | {"gpu_uuid": "GPU-44319026-a200"} for line in made.rounds(3)])
    ingest(tmp_path / "s.duckdb", made.results)
    with open_store(tmp_path / "s.duckdb") as store:
        described = queries.series(store)
    number = described["series_id"][described["family"] == FORWARD].iloc[0]
    point = f"{number}@{made.commits[3]}"
    app = open_page("trends", tmp_path / "s.duckdb", benchmark=FORWARD, point=point)
    assert "Changed beside the code: GPU card GPU-synthetic → GPU-44319026." in words(app)


def test_uuids_of_cards_are_cut_where_they_are_told() -> None:
    told = "GPU card GPU-44319026-a200-ceca-5266-5cb1b25bc91a → GPU-43d7845a-4d37; driver 1"
    assert wording.short_cards(told) == "GPU card GPU-44319026 → GPU-43d7845a; driver 1"


def test_lists_read_as_people_write_them() -> None:
    said = [wording.listed(names) for names in ([], ["a"], ["a", "b"], ["a", "b", "c"])]
    assert said == ["", "a", "a and b", "a, b and c"]


def test_signs_have_room_below_the_lowest_value() -> None:
    assert frames.with_a_foot((2.0, 3.0), log=False) == pytest.approx((1.9, 3.0))
    assert frames.with_a_foot((0.05, 3.0), log=False) == (0.0, 3.0), "no time is below 0"
    low, high = frames.with_a_foot((1.0, 1024.0), log=True)
    assert (low, high) == pytest.approx((0.5, 1024.0))


def test_panels_with_signs_keep_sharing_their_axis(
    open_page: OPEN, store_of: Callable[..., Path]
) -> None:
    stepped = store_of(commits=8, factors={("forward.Forward.track_time", 3): 0.8})
    asked = {"benchmark": [FORWARD, "forward_entropy"]}
    domains: dict[bool, set[tuple[float, ...]]] = {True: set(), False: set()}
    for chart, frame in zip(
        charts_of(app := open_page("trends", stepped, **asked)),
        [frame for frame in charted(app) if "y_low" in frame],
        strict=True,
    ):
        scale = next(
            y["scale"] for x in chart["layer"] if "scale" in (y := x["encoding"].get("y", {}))
        )
        low, high = scale["domain"]
        is_forward = set(frame["heading"]) == {"Forward"}
        domains[is_forward].add((low, high))
        if is_forward:
            assert frame["y"].min() - low > 0.15 * (high - low)
    assert {name: len(found) for name, found in domains.items()} == {True: 1, False: 1}
