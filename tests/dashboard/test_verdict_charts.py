"""Charts of regressed series: files that can be looked at, and a note where none can be made."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dashboard.cli import app
from dashboard.errors import InputError
from dashboard.models import Series
from dashboard.store.ingest import ingest
from dashboard.verdicts.reports import charts

FORWARD = "forward.Forward.track_time"
PNG = b"\x89PNG\r\n\x1a\n"
needs_vl_convert = pytest.mark.skipif(
    find_spec("vl_convert") is None, reason="vl-convert, of the extra charts, is not installed"
)


@pytest.fixture
def store(tmp_path: Path, make_history: Callable[..., Any], recipe: Any) -> Path:
    """Nine commits; forward is 10 % slower at the last."""
    made = make_history(tmp_path / "results", recipe(commits=9, factors={(FORWARD, 8): 1.1}))
    ingest(tmp_path / "s.duckdb", made.results)
    return tmp_path / "s.duckdb"


def check(store: Path, *options: object) -> str:
    arguments = ["check", "--store", str(store), *map(str, options)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1, result.output
    return result.stdout


@needs_vl_convert
def test_each_regressed_series_gets_an_image_that_the_comment_shows(
    store: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "charts"
    options = ("--charts", folder, "--charts-url", "https://raw.example/c/")
    text = check(store, "--format", "markdown", *options)
    images = sorted(folder.iterdir())
    assert len(images) == 2, "one for each of the two models"
    for image in images:
        assert image.read_bytes().startswith(PNG)
        assert f'src="https://raw.example/c/{image.name}"' in text


@needs_vl_convert
def test_without_an_address_the_images_are_files_only(store: Path, tmp_path: Path) -> None:
    text = check(store, "--format", "markdown", "--charts", tmp_path / "c")
    assert len(list((tmp_path / "c").iterdir())) == 2
    assert "<img" not in text


def test_a_table_of_the_last_values_stands_in_for_an_image(store: Path) -> None:
    text = check(store, "--format", "markdown")
    (table,) = set(re.findall(r"\| commit \|(?: <code>\w{8}</code> \|)+", text))
    assert table.count("<code>") == 8
    (values,) = re.findall(r"\| ms \|([^\n]*13\.\d+ \|)\n", text)[:1]
    assert values.count("|") == 8


def test_without_vl_convert_the_report_says_so(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.context.can_draw", lambda: False)
    document = json.loads(check(store, "--format", "json", "--charts", tmp_path / "c"))
    assert any("no charts: they need vl-convert" in note for note in document["notes"])
    assert not (tmp_path / "c").exists()


@needs_vl_convert
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write charts to .*file"):
        charts.write_charts([], tmp_path / "file")


def test_file_names_differ_and_are_plain() -> None:
    series = [
        Series("../../etc", (("model", "a/b'"),), machine, environment, "ms")
        for machine in ("h", "h2")
        for environment in ("e", "e2")
    ]
    names = {charts.file_name(one, ".png") for one in series}
    assert len(names) == 4
    assert all(name.removesuffix(".png").isalnum() for name in names)


def test_the_chart_marks_base_and_head() -> None:
    series = Series("b", (), "m", "e", "ms")
    points = (("a" * 40, 1.0), ("b" * 40, 1.1), ("c" * 40, 1.2))
    drawn = charts.chart(charts.Curve(series, points, "b" * 40, "c" * 40)).to_dict()
    (rows,) = drawn["datasets"].values()
    assert [row["is"] for row in rows] == ["history", "base", "head"]
    assert drawn["layer"][1]["encoding"]["shape"]["field"] == "is", "never colour alone"
    assert drawn["layer"][1]["encoding"]["y"]["title"] == "ms"


HOSTILE = "\x1b[31m\x00\ufffe\ud800 two\nlines \u202egnp.exe <b>&amp;</b> 😀 " + "long " * 60


@needs_vl_convert
@pytest.mark.parametrize("suffix", charts.SUFFIXES)
def test_hostile_names_are_drawn_and_abort_nothing(tmp_path: Path, suffix: str) -> None:
    series = Series(HOSTILE, ((HOSTILE, HOSTILE),), HOSTILE, HOSTILE, HOSTILE)
    points = (("a" * 40, 1e-300), (HOSTILE, 1.0), ("b" * 40, 1e300))
    curve = charts.Curve(series, points, "a" * 40, "b" * 40)
    # First the texts: vl-convert ends the whole process at a control character.
    drawn = json.dumps(charts.chart(curve).to_dict(), ensure_ascii=False)
    assert not re.search(r"[\x00-\x1f\ud800-\udfff\ufffe\u202e]", drawn)
    assert not re.search(r"\\u00[01]|\\n", drawn)
    names = charts.write_charts([curve], tmp_path, suffix)
    image = (tmp_path / names[series]).read_bytes()
    assert image.startswith(PNG if suffix == ".png" else b"<svg")
    if suffix == ".png":
        assert int.from_bytes(image[16:20], "big") < 2500, "a long name makes no wide picture"


@needs_vl_convert
def test_a_chart_that_cannot_be_drawn_costs_no_verdict(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = charts.chart

    def failing(curve: charts.Curve) -> Any:
        if "nemotron" in curve.series.label:
            raise ValueError("no such mark")
        return draw(curve)

    monkeypatch.setattr(charts, "chart", failing)
    document = json.loads(check(store, "--format", "json", "--charts", tmp_path / "c"))
    assert document["summary"]["regressed"] == 2
    assert "1 of 2 charts could not be drawn" in document["notes"]
    assert len(list((tmp_path / "c").iterdir())) == 1
