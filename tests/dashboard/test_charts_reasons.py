"""Names, partners and reasons of series as data, on invented numbers."""

from __future__ import annotations

from io import BytesIO
from typing import Any
from xml.etree import ElementTree
from zipfile import ZipFile

import pandas as pd
import pytest

from dashboard.app import dots, images, naming, palette, relations, tuning, why, wording

TIMES = wording.TIMES


@pytest.mark.parametrize(
    ("family", "benchmark", "model", "group"),
    [
        (None, "suite.time_it", None, "suite.time_it"),
        ("forward", "forward.Forward.track_time", "m", "forward"),
        ("compile", "compile.Cold.track_time", "m", "compile.Cold"),
        ("memory", "memory.Forward.track_bytes", "m", "memory.Forward"),
        ("control", "control.Control.track_time", "m", "control"),
        ("control", "bandwidth.Bandwidth.track_rate", None, "bandwidth.Bandwidth"),
    ],
)
def test_benchmarks_of_a_family_that_measure_different_things_are_apart(
    family: str | None, benchmark: str, model: str | None, group: str
) -> None:
    assert naming.group_of(family, benchmark, model) == group
    if family is not None:
        assert wording.family_title(group) != group


def test_a_shape_tells_the_parameters_beside_it() -> None:
    params = {"model": "m", "tokens": "8192", "tp": "4", "active": "23"}
    assert naming.shape_of("m", 8192, 4, params) == "m · 8,192 tokens · TP 4 · 23 % active"
    assert naming.shape_of(None, None, None, {"n": "1", "kind": "a"}) == "n=1, kind=a"
    assert naming.shape_of(None, None, None, None) == ""


def _point(**cells: Any) -> dict[str, Any]:
    base = {
        "machine": "lab", "environment": "py", "commit": "a", "model": "m", "tokens": 8, "tp": 1,
        "unit": "ms", "value": 2.0, "low": 1.9, "high": 2.1, "series_id": 1,
        "gpu_uuid": None,
    }  # fmt: skip
    return base | cells


def test_bytes_have_no_ratio_to_a_time() -> None:
    control = pd.DataFrame([_point(value=1.0, low=0.9, high=1.1)])
    points = pd.DataFrame([_point(), _point(unit="bytes", series_id=2)])
    ratio = relations.relative_to_control(points, control)["y"]
    assert ratio.iloc[0] == 2.0
    assert pd.isna(ratio.iloc[1])


def test_values_relate_to_the_commit_chosen() -> None:
    points = pd.DataFrame([_point(), _point(commit="b", value=3.0, low=2.9, high=3.1)])
    related = relations.relative_to(points, points[points["commit"] == "b"])
    assert list(related["y"]) == pytest.approx([2 / 3, 1.0])
    assert tuple(related[["y_low", "y_high"]].iloc[1]) == (1.0, 1.0)
    other = relations.relative_to(points.assign(series_id=9), points)
    assert other["y"].isna().all()


def _chosen(heading: str, tokens: int, schedule: str) -> dict[str, Any]:
    shape = f"m · {tokens} tokens"
    return {
        "heading": heading, "model": "m", "tokens": tokens, "tp": 1, "schedule": schedule,
        "shape": shape,
    }  # fmt: skip


def test_benchmarks_that_choose_alike_share_a_map() -> None:
    one, other = '{"num_warps": 8, "tokens_per_chunk": 64}', '{"num_warps": 4}'
    chosen = pd.DataFrame(
        [
            _chosen("A", 64, one), _chosen("A", 128, other),
            _chosen("B", 64, '{"num_warps": 8, "tokens_per_chunk": 128}'),
            _chosen("C", 64, other),
        ]
    )  # fmt: skip
    named = tuning.letters(chosen)
    assert named == {"warps 4": "A", "warps 8": "B"}
    cells = tuning.choice_map(chosen, named)
    assert list(dict.fromkeys(cells["heading"])) == ["A and 1 other", "C"]
    assert list(cells["shown"]) == ["B", "A", "A"]
    assert tuning.legend(chosen, named)["Benchmarks"].tolist() == ["A; C", "A; B"]


def test_what_changed_beside_a_step_is_told() -> None:
    row = {
        "group": "forward", "unit": "ms", "place": "lab", "model": "m", "tokens": 8, "tp": 1,
        "gpu_uuid": "GPU-1",
    }  # fmt: skip
    before = row | {"commit": "a", "value": 2.0, "schedule": '{"num_warps": 8}'}
    now = row | {"commit": "b", "value": 3.0, "schedule": '{"num_warps": 4}'}
    others = pd.DataFrame(
        [
            {"group": group, "heading": name, "shape": "s", "unit": unit, "commit": commit,
             "value": value, "gpu_uuid": "GPU-1"}
            for group, name, unit, values in (
                ("control", "Control", "ms", (1.0, 1.5)),
                ("compile.Spills", "Registers spilled", "registers", (0.0, 8.0)),
            )
            for commit, value in zip("ab", values, strict=True)
        ]
    )  # fmt: skip
    table = why.table(before, now, others).set_index("What")
    assert table.loc["Schedule", "Change"] == "warps 8 → 4"
    # The control moved as much: the machine did it.
    assert list(table.loc["Ratio to the control"]) == ["±0.0 %", f"{TIMES}2.000", f"{TIMES}2.000"]
    assert table.loc["Control itself", "Change"] == "+50.0 %"
    elsewhere = why.table(before, now | {"gpu_uuid": "GPU-2"}, others).set_index("What")
    assert list(elsewhere.loc["Ratio to the control"]) == [
        wording.NONE,
        f"{TIMES}2.000",
        wording.NONE,
    ]
    assert list(table.loc["Registers spilled (s)"][["Before", "Now"]]) == [
        "0 registers", "8 registers",
    ]  # fmt: skip


def test_a_chart_becomes_an_svg_with_its_marks() -> None:
    pytest.importorskip("vl_convert")
    frame = pd.DataFrame(
        {"shape": ["a", "b"], "line": ["x", "x"], "y": [1.0, 2.0], "y_low": [0.9, 1.9],
         "y_high": [1.1, 2.1]}
    )  # fmt: skip
    spec = dots.dots(
        frame, lines=["x"], palette=palette.LIGHT, references=[(1.0, "equal")], x_title="x",
        hover=[("shape", "shape")],
    )  # fmt: skip
    drawn = images.svg(spec, "#ffffff").decode()
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
    assert "equal" in drawn
    packed = ZipFile(BytesIO(images.archive([("one: a/b", spec), ("", spec)], "#ffffff")))
    assert packed.namelist() == ["01 one-a-b.svg", "02 chart.svg"]
