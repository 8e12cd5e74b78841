"""What the further pages compute, as data, on synthetic histories."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dashboard.app import (
    frames,
    headlines,
    heatmaps,
    layouts,
    measures,
    pairs,
    palette,
    reproduce,
    tuning,
    wording,
)
from dashboard.app.filters import containing
from dashboard.app.views import trends
from dashboard.store import open_store, queries


@pytest.fixture(scope="module")
def described(history_store: Path) -> pd.DataFrame:
    """All series of the default synthetic history."""
    with open_store(history_store) as store:
        return frames.describe(queries.series(store))


def test_points_are_the_measurements_of_the_series_and_commits_asked_for(
    history_store: Path, described: pd.DataFrame
) -> None:
    ids = list(frames.ids(described))[:3]
    with open_store(history_store) as store:
        commits = [commit.hash for commit in queries.measured_commits(store)]
        everything = queries.measurements(store, ids)
        assert queries.points(store, ids, commits).equals(everything)
        last = queries.points(store, ids, commits[-1:])
    assert list(last["commit"]) == commits[-1:] * 3


def test_thinned_points_keep_the_extremes_and_the_ends(
    history_store: Path, described: pd.DataFrame
) -> None:
    number = frames.ids(described)[:1]
    with open_store(history_store) as store:
        commits = [commit.hash for commit in queries.measured_commits(store)]
        every = queries.points(store, number, commits)["value"]
        few = queries.points(store, number, commits, most=2)
    assert {every.min(), every.max(), every.iloc[0], every.iloc[-1]} == set(few["value"])


def test_recent_values_are_in_the_order_of_the_commits(history_store: Path) -> None:
    with open_store(history_store) as store:
        commits = [commit.hash for commit in queries.measured_commits(store)]
        turned = queries.recent_values(store, "synthetic", commits[::-1])
        straight = queries.recent_values(store, "synthetic", commits)
    values = dict(zip(straight["series_id"], straight["values"], strict=True))
    assert len(values) == 6
    for number, back in zip(turned["series_id"], turned["values"], strict=True):
        assert list(back) == list(values[number])[::-1]


def test_a_layout_of_more_ranks_is_the_same_measurement() -> None:
    points = pd.DataFrame(
        {
            "model": ["m"] * 2,
            "tokens": [2048, 4096],
            "tp": [1, 2],
            "y": [1.0, 2.0],
            "shown_value": ["a", "b"],
            "shown_y": ["a", "b"],
            "n": ["3", "3"],
            "series_id": [1, 2],
        }
    )
    cells = [cell for row in frames.records(points) for cell in layouts._cells(row)]
    assert {(c["total"], c["row"]) for c in cells if c["series_id"] == 1} == {
        (2048, "CP 1"), (4096, "CP 2"), (8192, "CP 4"), (16384, "CP 8"),
    }  # fmt: skip
    # TP 2 with CP 8 would be sixteen ranks.
    assert {c["row"] for c in cells if c["series_id"] == 2} == {"CP 1", "CP 2", "CP 4"}
    assert layouts.is_sparse(layouts.unfold(points))


def test_the_command_selects_one_benchmark_with_its_parameters() -> None:
    name, values = "forward.Forward.track_time", ["'kimi-k2'", "8192", "1"]
    command = reproduce.measure(name, values, ["a" * 40, "b" * 40], "lab 1")
    before, after = command.split(" | ")
    assert shlex.split(before) == ["printf", "%s\\n", "a" * 40, "b" * 40]
    words = shlex.split(after)
    expression = words[words.index("--bench") + 1]
    assert words[:5] == ["asv", "run", "--interleave-rounds", "--machine", "lab 1"]
    assert re.search(expression, "forward.Forward.track_time('kimi-k2', 8192, 1)")
    assert not re.search(expression, "forward.Forward.track_time('kimi-k2', 8192, 12)")
    assert not re.search(expression, "entropy.forward.Forward.track_time('kimi-k2', 8192, 1)")


def test_hostile_names_stay_one_word_of_the_shell() -> None:
    command = reproduce.measure("a.b'; rm -rf /; '", ["'$(x)'"], ["c" * 40], "$(m)", 7)
    words = shlex.split(command)
    assert words[:4] == ["asv", "run", "--machine", "$(m)"]
    assert words[words.index("--attribute") + 1] == "rounds=7"
    assert len(words) == 10
    assert words[-1] == "c" * 40 + "^!"


def test_what_is_measured_again_is_loaded_before_it_is_judged() -> None:
    text = reproduce.again("a.b", [], ("a" * 40, "b" * 40), "lab")
    lines = [shlex.split(line) for line in text.splitlines()]
    assert [line[0:2] for line in lines[1:]] == [
        ["lmhead-perf", "ingest"],
        ["lmhead-perf", "check"],
    ]
    assert lines[2][2:] == ["--base", "a" * 40, "--head", "b" * 40, "--machine", "lab"]


def test_rates_count_the_products_that_cannot_be_avoided() -> None:
    row = {"m": 1000, "h": 1000, "v": 1000, "unit": "ms", "value": 2.0, "low": 1.0, "high": 4.0}
    frame = pd.DataFrame([{**row, "family": "forward"}, {**row, "family": "forward_backward"}])
    assert list(measures.rate(frame)["y"]) == pytest.approx([1.0, 4.0])
    shares = measures.share_of_ceiling(frame, pd.Series([1.0, 0.5]))
    assert list(shares["y"]) == pytest.approx([0.5, 1.0])
    assert shares["y_low"].iloc[0] == pytest.approx(0.25)
    unknown = measures.rate(frame.assign(family="their own"))
    assert unknown["y"].isna().all()


@pytest.mark.parametrize(
    ("tokens", "bucket"), [(1, 1), (2048, 2048), (20_000, 32768), (40_000, 65536)]
)
def test_buckets_are_powers_of_two_at_or_above(tokens: int, bucket: int) -> None:
    assert tuning.bucket(tokens) == bucket


def test_schedules_are_told_by_what_differs() -> None:
    one = '{"block_m": 128, "block_n": 256, "block_k": 64, "num_warps": 8}'
    other = '{"block_m": 128, "block_n": 128, "block_k": 64, "num_warps": 8, "extra": 1}'
    assert wording.schedule(one) == f"tile 128{wording.TIMES}256{wording.TIMES}64, warps 8"
    changed = wording.schedule_change(one, other)
    assert changed.startswith("tile 128")
    assert "warps" not in changed
    assert changed.endswith(f"extra {wording.DASH} → 1")
    assert wording.schedule("not json") == "schedule not json"
    assert wording.schedule(None) == wording.NONE


def test_a_search_needs_every_word(described: pd.DataFrame) -> None:
    assert len(containing(described, "")) == len(described)
    assert len(containing(described, "QWEN entropy")) == 1
    assert containing(described, "qwen nothing").empty


def test_a_map_writes_every_value_it_colours() -> None:
    frame = pd.DataFrame(
        {
            "row": ["a", "b"],
            "column": ["x", "x"],
            "value": [0.9, 1.2],
            "shown": ["one", "two"],
            "note": ["n", "m"],
        }
    )
    spec = heatmaps.heat(
        frame,
        rows=["a", "b"],
        columns=["x"],
        colours=heatmaps.diverging(palette.DARK),
        domain=[0.8, 1.0, 1.2],
        hover=[("note", "note")],
        palette=palette.DARK,
    )
    assert list(spec["datasets"]["cells"]["shown"]) == ["one", "two"]
    assert [layer["mark"]["type"] for layer in spec["layer"]] == ["rect", "text"]
    assert spec["layer"][1]["encoding"]["text"]["field"] == "shown"
    colour = spec["layer"][0]["encoding"]["color"]["scale"]
    assert colour["range"] == [palette.DARK.good, palette.DARK.pale, palette.DARK.bad]
    assert colour["domain"] == [0.8, 1.0, 1.2]


def test_many_commits_leave_room_for_fewer_panels() -> None:
    assert [trends._panels_of(commits) for commits in (0, 5, 30, 50, 2000)] == [12, 12, 6, 4, 4]


def test_a_family_that_was_not_measured_has_no_quotients_but_their_columns() -> None:
    found = pairs.quotients({"forward": {}}, "forward", "control")
    assert found.empty
    assert {"y", "y_low", "y_high", "under_value", "row", "column", "shape"} <= set(found.columns)


def test_families_are_divided_where_one_card_measured_both() -> None:
    def side(value: float, card: str | None) -> dict[str, Any]:
        names = {"model": "m", "tokens": 8, "tp": 1, "group": "g", "heading": "G", "shape": "s"}
        return {
            **names,
            **{"rest": (), "machine": "lab", "environment": "e", "params": {}, "unit": "ms"},
            **{"value": value, "low": value, "high": value, "gpu_uuid": card},
        }

    cards = (("GPU-1", "GPU-1"), ("GPU-1", "GPU-2"), ("GPU-1", None))
    above = {("m", number, 1): side(3.0, card) for number, (card, _) in enumerate(cards)}
    below = {("m", number, 1): side(2.0, card) for number, (_, card) in enumerate(cards)}
    families = {"forward": above, "control": below}
    found = pairs.quotients(families, "forward", "control")
    assert found["y"].tolist() == [1.5, 1.5]
    assert pairs.on_other_cards(families, "forward", "control") == 1
    assert headlines.beside_the_ceiling(families) == 1
