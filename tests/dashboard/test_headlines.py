"""The headline tables by command: the figures of the page, for a terminal and for machines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from app_pages import run_page, written
from typer.testing import CliRunner

from asv_benchmarks import workloads
from dashboard.app import headlines, pairs, references, wording
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


def combined(rows: list[dict[str, Any]]) -> dict[str, tuple[str, str]]:
    """Figures and references of the table, of synthetic rows that share model and card."""
    same = {"machine": "m", "environment": "e", "low": None, "high": None, "gpu_uuid": "G"}
    named = {"model": "kimi-k2", "unit": "ms", "heading": "h", "shape": "s"}
    points = pd.DataFrame([{**same, **named, "params": {}, **row} for row in rows])
    table = headlines.combined(pairs.families(points))
    plain = str.maketrans({wording.TIMES: "x", wording.DASH: "-"})
    return {
        figure: (ours.translate(plain), theirs.translate(plain))
        for figure, ours, theirs in table.to_numpy()
    }


def test_a_shape_counts_at_each_point_that_it_stands_for() -> None:
    """16K tokens at TP 4 without CP, and 32K with CP 2, are one shape; 2,048 at TP 1 is 16K / 8."""
    rows = []
    for tokens, tp, quotient in ((16384, 4, 2.0), (2048, 1, 3.0), (4096, 2, 9.0)):
        at = {"tokens": tokens, "tp": tp}
        rows.append({"group": "forward_entropy", "value": 1.0, **at})
        rows.append({"group": "two_pass", "value": quotient, **at})
    found = combined(rows)
    title = "Two passes over one combined pass, median"
    assert found[title] == ("3.00x over 3 shapes", "-")
    assert found["the same over layouts"] == ("2.00x over 3 points", "1.44x over 115 points")
    alone = combined([row for row in rows if row["tokens"] == 4096])
    assert alone[title] == ("9.00x over 1 shape", "1.44x over 115 points")
    assert "the same over layouts" not in alone
    assert "the same over layouts" not in combined([{**row, "model": "smoke"} for row in rows])


def test_the_points_are_those_of_the_suite() -> None:
    suite = {(one.model, one.tokens, one.tp, one.cp) for one in workloads.pair_layouts()}
    assert suite == {
        (model, tokens, tp, cp)
        for model in references.COMBINED_MODELS
        for tokens in references.COMBINED_TOKENS
        for tp, cp in references.COMBINED_SPLITS
    }


def test_differentiable_entropy_is_told_by_activity() -> None:
    rows = []
    for active, took in ((None, 5.0), ("23", 6.0), ("100", 4.0)):
        at = {"tokens": 8192, "tp": 4, "params": {} if active is None else {"active": active}}
        rows.append({"group": "forward_backward_entropy", "value": 2.0, **at})
        rows.append({"group": "two_pass_backward", "value": took, **at})
    title, cited = "Differentiable entropy, forward and backward", "2.11 - 2.17x at all shares"
    assert list(combined(rows).items()) == [
        (f"{title}, least and most", ("2.50x over 1 shape", "-")),
        ("the same, 100 % of the rows active", ("2.00x over 1 shape", cited)),
        ("the same, 23 % of the rows active", ("3.00x over 1 shape", "-")),
    ]
    assert combined(rows[:2]) == {f"{title}, least and most": ("2.50x over 1 shape", cited)}
    only = {f"{title}, 23 % of the rows active": ("3.00x over 1 shape", cited)}
    assert combined(rows[2:4]) == only
