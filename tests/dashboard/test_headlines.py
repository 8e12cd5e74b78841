"""The headline tables by command: the figures of the page, for a terminal and for machines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from app_pages import run_page, written
from typer.testing import CliRunner

from dashboard.app import headlines
from dashboard.cli import app
from dashboard.errors import InputError


def command(store: Path, *options: str) -> str:
    done = CliRunner().invoke(app, ["headlines", "--store", str(store), *options])
    if done.exception is not None:
        raise done.exception
    return done.stdout


def test_the_command_gives_the_figures_of_the_page(
    rich_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = json.loads(command(rich_store, "--format", "json"))
    page = run_page(monkeypatch, "headlines", rich_store)
    shown = [frame.to_dict("records") for frame in written(page)]
    assert [table["rows"] for table in report["tables"] if table["rows"]] == shown
    assert len(shown) == 5
    assert report["machine"] == "synthetic"


def test_a_commit_can_be_named(rich_store: Path) -> None:
    newest = json.loads(command(rich_store, "--format", "json"))
    tagged = json.loads(command(rich_store, "--format", "json", "--commit", "v0.0"))
    assert tagged["commit"] != newest["commit"]
    assert tagged["subject"] == "Synthetic change 0"
    with pytest.raises(InputError, match="unknown commit"):
        command(rich_store, "--commit", "nothing")
    with pytest.raises(InputError, match="no measured commits on machine"):
        command(rich_store, "--machine", "nobody")


def test_text_has_the_references_beside_the_figures(rich_store: Path) -> None:
    text = command(rich_store)
    cold = next(line for line in text.splitlines() if line.startswith("First call, no cache"))
    assert cold.endswith("13.27 s (cold, compile and tune)")
    assert "measured on synthetic GPU (synthetic)" in text


def test_what_was_not_measured_has_its_command(history: Any, history_store: Path) -> None:
    text = command(history_store)
    assert "Compile and tuning probe: a benchmark of the family compile" in text
    wanted = f'--benchmarks compile)" {history.commits[-1][:12]}^!'
    assert wanted in text


def test_markdown_is_written_to_a_file(rich_store: Path, tmp_path: Path) -> None:
    target = tmp_path / "headlines.md"
    assert command(rich_store, "--format", "markdown", "--output", str(target)) == ""
    lines = target.read_text("utf-8").splitlines()
    assert "### Distance to the ceiling" in lines
    assert any(line.startswith("| Forward + entropy | 64 |") for line in lines)


def test_a_time_of_zero_is_no_distance_to_the_ceiling() -> None:
    found = pd.DataFrame(
        {
            "line": ["Forward", "Forward", "Chunked torch"],
            "y": [0.0, 1.02, 0.0],
            "shape": ["a", "b", "a"],
            "floor": 1,
        }
    )
    (row,) = headlines.to_ceiling(found).to_dict("records")
    assert (row["Benchmark"], row["Shapes"], row["Worst at"]) == ("Forward", 1, "b")
