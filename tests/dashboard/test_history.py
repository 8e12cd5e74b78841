"""The history of a store: which commits changed what, what explains it, who accepted it.

The histories are synthetic, see conftest.
"""

from __future__ import annotations

import json
import runpy
import statistics
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import jsonschema
import pytest
from typer.testing import CliRunner

from dashboard.acknowledged import Acknowledgement, Acknowledgements
from dashboard.cli import app
from dashboard.errors import InputError
from dashboard.history import HistoryReport, history
from dashboard.store import open_store
from dashboard.store.ingest import ingest
from dashboard.store.queries.statistics import values_alike
from dashboard.verdicts import Policy
from dashboard.verdicts.reports.changes import changes_json, changes_text
from dashboard.verdicts.reports.schemas import history_schema

FORWARD = "forward.Forward.track_time"
ENTROPY = "entropy.ForwardEntropy.track_time"
CONTROL = "control.Control.track_time"


def run(store: Path, **options: Any) -> HistoryReport:
    with open_store(store) as opened:
        return history(opened, options.pop("policy", Policy()), **options)


@pytest.fixture
def slowed(tmp_path: Path, make_history: Callable[..., Any], recipe: Any) -> tuple[Path, Any]:
    """Twelve commits; forward is 10 % slower from the eighth on."""
    made = make_history(tmp_path / "results", recipe(commits=12, factors={(FORWARD, 7): 1.1}))
    ingest(tmp_path / "s.duckdb", made.results)
    return tmp_path / "s.duckdb", made


def rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change every document of a JSON or JSON-lines file."""
    lines = path.read_text("utf-8").splitlines()
    documents = [json.loads(line) for line in lines]
    for document in documents:
        change(document)
    path.write_text("".join(json.dumps(document) + "\n" for document in documents), "utf-8")


def test_the_commit_that_made_it_slower_is_named(slowed: tuple[Path, Any]) -> None:
    store, made = slowed
    report = run(store)
    assert (report.commits, report.series) == (12, 6)
    assert {change.series.benchmark for change in report.changes} == {FORWARD}
    assert len(report.changes) == 2, "both models"
    for change in report.changes:
        assert change.after.hash == made.commits[6]
        assert change.commit.hash == made.commits[7]
        assert [commit.hash for commit in change.suspects] == [made.commits[7]]
        assert change.found.ratio == pytest.approx(1.1, rel=0.01)
        assert change.found.explained_by is None
        assert change.found.points == 5


def test_commits_that_were_not_measured_are_suspects_too(
    tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    made = make_history(tmp_path / "results", recipe(commits=14, factors={(FORWARD, 6): 1.1}))
    for index in (5, 6):
        made.result_file(index).unlink()
        made.rounds_file(index).unlink()
    ingest(tmp_path / "s.duckdb", made.results)
    change = run(tmp_path / "s.duckdb").changes[0]
    assert change.after.hash == made.commits[4]
    assert change.commit.hash == made.commits[7]
    assert tuple(commit.hash for commit in change.suspects) == made.commits[5:8]


@pytest.mark.parametrize("gap", [2, 14])
def test_the_text_names_few_suspects_and_of_many_the_ends(
    tmp_path: Path, make_history: Callable[..., Any], recipe: Any, gap: int
) -> None:
    made = make_history(tmp_path / "results", recipe(commits=26, factors={(FORWARD, 6): 1.1}))
    for index in range(5, 5 + gap):
        made.result_file(index).unlink()
        made.rounds_file(index).unlink()
    ingest(tmp_path / "s.duckdb", made.results)
    suspects = [commit[:8] for commit in made.commits[5 : 6 + gap]]
    named = suspects if gap == 2 else [suspects[0], "…", suspects[-1]]
    text = changes_text(run(tmp_path / "s.duckdb"))
    assert f"\n{len(suspects)} suspects: {' '.join(named)}\n" in text


def test_four_commits_are_enough_for_a_large_step(
    tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    made = make_history(tmp_path / "results", recipe(commits=4, factors={(FORWARD, 2): 1.2}))
    ingest(tmp_path / "s.duckdb", made.results)
    report = run(tmp_path / "s.duckdb")
    assert {change.commit.hash for change in report.changes} == {made.commits[2]}
    assert {change.series.benchmark for change in report.changes} == {FORWARD}


def test_an_unchanged_history_has_no_changes(history_store: Path) -> None:
    assert run(history_store).changes == ()


def test_another_driver_explains_a_change(
    tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    made = make_history(tmp_path / "results", recipe(commits=12, factors={(FORWARD, 7): 1.1}))
    for index in range(7, 12):
        rewrite(made.rounds_file(index), lambda line: line.update(driver="2.0"))
    ingest(tmp_path / "s.duckdb", made.results)
    changes = run(tmp_path / "s.duckdb").changes
    assert {change.found.explained_by for change in changes} == {"driver 1.0 → 2.0"}


def by_minimum(line: dict[str, Any]) -> None:
    """The same samples valued by the minimum."""
    line.update(value=min(line["samples"]), statistic="minimum")


@pytest.fixture
def revalued(tmp_path: Path, make_history: Callable[..., Any], recipe: Any) -> Any:
    """Twelve commits whose samples spread by 2.5 % in a round; from the eighth on a round is
    valued by their minimum, before by their median."""
    made = make_history(tmp_path / "results", recipe(commits=12, noise=0.05, rounds=9))
    for index in range(7, 12):
        rewrite(made.rounds_file(index), by_minimum)
    return made


def test_another_statistic_makes_no_change(tmp_path: Path, revalued: Any) -> None:
    ingest(tmp_path / "s.duckdb", revalued.results)
    report = run(tmp_path / "s.duckdb")
    assert report.changes == ()
    assert report.notes == (
        "6 series were valued by a median at some commits and by a minimum at others: compared "
        "by the minimum of each round's samples",
    )


def test_values_of_another_statistic_are_those_of_the_samples(
    tmp_path: Path, revalued: Any
) -> None:
    ingest(tmp_path / "s.duckdb", revalued.results)
    with open_store(tmp_path / "s.duckdb") as opened:
        table, anew = values_alike(opened, revalued.commits)
    assert len(anew) == 6
    lines = [json.loads(line) for line in revalued.rounds_file(0).read_text().splitlines()]
    minima: dict[tuple[str, str], list[float]] = {}
    for line in lines:
        key = (line["benchmark"], line["params"]["model"])
        minima.setdefault(key, []).append(min(line["samples"]))
    expected = sorted(statistics.median(values) for values in minima.values())
    assert sorted(table.value[table.place == 0].tolist()) == pytest.approx(expected)


def test_another_statistic_without_samples_explains_a_change(
    tmp_path: Path, slowed: tuple[Path, Any]
) -> None:
    _, made = slowed
    for index in range(7, 12):
        rewrite(made.rounds_file(index), lambda line: line.update(statistic="minimum"))
    ingest(tmp_path / "lost.duckdb", made.results)
    with duckdb.connect(str(tmp_path / "lost.duckdb")) as connection:
        connection.execute("UPDATE round SET samples = []")
    report = run(tmp_path / "lost.duckdb")
    assert {change.found.explained_by for change in report.changes} == {
        "statistic median → minimum"
    }
    assert "samples to compute one are missing" in report.notes[0]


def test_another_protocol_explains_a_change(
    tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    made = make_history(tmp_path / "results", recipe(commits=12, factors={(FORWARD, 7): 1.1}))
    for index in range(7, 12):
        rewrite(made.rounds_file(index), lambda line: line.update(protocol="graph-back-to-back"))
    ingest(tmp_path / "s.duckdb", made.results)
    assert {change.found.explained_by for change in run(tmp_path / "s.duckdb").changes} == {
        "timing protocol graph-paced → graph-back-to-back"
    }


@pytest.mark.parametrize(
    ("cards", "explained"),
    [
        ("AAAAAAABBBBB", "GPU card A → B"),
        ("A?AAAAABBB?B", "GPU card A → B"),
        ("AAAABBABABBB", None),
    ],
    ids=["apart", "unknown", "by turns"],
)
def test_another_card_explains_a_change_unless_a_card_of_both_sides_shows_it(
    tmp_path: Path,
    make_history: Callable[..., Any],
    recipe: Any,
    cards: str,
    explained: str | None,
) -> None:
    made = make_history(tmp_path / "results", recipe(commits=12, factors={(FORWARD, 7): 1.05}))
    for index, card in enumerate(cards):
        uuid = None if card == "?" else card
        rewrite(made.rounds_file(index), lambda line, uuid=uuid: line.update(gpu_uuid=uuid))
    ingest(tmp_path / "s.duckdb", made.results)
    changes = run(tmp_path / "s.duckdb").changes
    assert {change.found.explained_by for change in changes} == {explained}


def test_a_machine_that_slowed_everything_is_blamed_itself(
    tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    factors = {(name, 7): 1.1 for name in (FORWARD, ENTROPY, CONTROL)}
    made = make_history(tmp_path / "results", recipe(commits=12, factors=factors))
    ingest(tmp_path / "s.duckdb", made.results)
    changes = run(tmp_path / "s.duckdb").changes
    assert len(changes) == 6
    assert all((change.found.explained_by or "").startswith("machine") for change in changes)


def test_commits_of_another_branch_are_left_out_and_said(slowed: tuple[Path, Any]) -> None:
    store, made = slowed
    report = run(store, head=made.commits[5])
    assert report.changes == ()
    assert report.notes == (f"6 measured commits do not lead to {made.commits[5][:8]}: left out",)


def test_without_a_graph_the_order_is_that_of_the_dates(
    tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    made = make_history(
        tmp_path / "results",
        recipe(commits=12, factors={(FORWARD, 7): 1.1}, commits_file=False),
    )
    ingest(tmp_path / "s.duckdb", made.results)
    change = run(tmp_path / "s.duckdb").changes[0]
    assert (change.after.hash, change.commit.hash) == (made.commits[6], made.commits[7])
    assert [commit.hash for commit in change.suspects] == [made.commits[7]]


def test_the_minimum_effect_of_the_settings_decides(slowed: tuple[Path, Any]) -> None:
    store, _ = slowed
    assert run(store, policy=Policy().with_minimum_effect(0.2)).changes == ()


def test_an_acknowledged_change_stays_and_says_so(slowed: tuple[Path, Any]) -> None:
    store, made = slowed
    entry = Acknowledgement("forward.*(model=nemotron-super*)", made.commits[7][:8], "why", "me")
    stale = Acknowledgement("entropy.*", made.commits[7][:8], "why", "me")
    old = Acknowledgement("forward.*", made.commits[7][:8], "why", "me", date(2026, 1, 1))
    entries = Acknowledgements((old, entry, stale), today=date(2026, 1, 2))
    report = run(store, acknowledgements=entries)
    accepted = {change.series.model: change.acknowledged for change in report.changes}
    assert accepted == {"nemotron-super": entry, "qwen3.6-35b": None}
    assert [note.split(" by me ")[1] for note in report.notes] == [
        "expired on 2026-01-01",
        "matches no regression: remove it",
    ]
    text = changes_text(report)
    assert "acknowledged by me: why" in text
    rows = json.loads(changes_json(report))["changes"]
    assert sorted(row["acknowledged"] for row in rows) == [False, True]


def test_the_text_names_commit_subject_and_size(slowed: tuple[Path, Any]) -> None:
    store, made = slowed
    lines = changes_text(run(store)).splitlines()
    assert lines[0].startswith("2 changes in 6 series over 12 commits up to")
    assert lines[2] == f"{made.commits[7][:8]} — Synthetic change 7 — synthetic author"
    assert lines[4].lstrip().startswith("+10")


def test_the_json_is_as_its_schema_says(slowed: tuple[Path, Any]) -> None:
    store, made = slowed
    document = json.loads(changes_json(run(store)))
    jsonschema.Draft202012Validator(history_schema()).validate(document)
    row = document["changes"][0]
    assert row["suspects"] == [row["commit"]] == [made.commits[7]]
    assert row["params"]["tokens"] == 8192
    assert row["interval"][0] < row["ratio"] < row["interval"][1]
    assert row["kind"] == "step"


def test_the_schema_refuses_a_document_without_suspects(slowed: tuple[Path, Any]) -> None:
    document = json.loads(changes_json(run(slowed[0])))
    del document["changes"][0]["suspects"]
    with pytest.raises(jsonschema.ValidationError, match="suspects"):
        jsonschema.Draft202012Validator(history_schema()).validate(document)


def test_the_command_reports(slowed: tuple[Path, Any], tmp_path: Path) -> None:
    store, made = slowed
    result = CliRunner().invoke(app, ["history", "--store", str(store), "--format", "json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["changes"][0]["commit"] == made.commits[7]
    result = CliRunner().invoke(app, ["history", "--store", str(store)])
    assert result.stdout.startswith("2 changes")
    file = tmp_path / "accepted.toml"
    file.write_text(
        f"[[acknowledged]]\nseries = 'forward.*'\ncommit = '{made.commits[7]}'\n"
        "reason = 'r'\nauthor = 'a'\n"
    )
    arguments = ["history", "--store", str(store), "--acknowledged", str(file), "--format", "json"]
    rows = json.loads(CliRunner().invoke(app, arguments).stdout)["changes"]
    assert all(row["acknowledged"] for row in rows)


def test_what_cannot_be_told_is_said_in_one_line(slowed: tuple[Path, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown commit 'nonsense'"):
        run(slowed[0], head="nonsense")
    with pytest.raises(InputError, match="on machine 'elsewhere', but on synthetic"):
        run(slowed[0], machine="elsewhere")
    open_store(tmp_path / "empty.duckdb", read_only=False).close()
    with pytest.raises(InputError, match="has no measured commits"):
        run(tmp_path / "empty.duckdb")


@pytest.mark.slow
def test_a_thousand_series_at_five_hundred_commits(tmp_path: Path) -> None:
    from dashboard.check import check

    writer = runpy.run_path(str(Path(__file__).with_name("large_store.py")))
    store = tmp_path / "large.duckdb"
    writer["write_large_store"](store, commits=500, series=1000)
    run(store)  # the imports
    for name, limit, call in (("history", 20.0, history), ("check", 2.0, check)):
        started = time.perf_counter()
        with open_store(store) as opened:
            call(opened, Policy())
        seconds = time.perf_counter() - started
        print(f"{name}: {seconds:.2f} s, goal under {limit:g} s")
        assert seconds < limit
