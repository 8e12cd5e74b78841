"""What a commit's runs were to measure: tiers differ.

The histories are synthetic, see conftest: four commits, each measured by a run of its own but
where a test says otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dashboard.check import check
from dashboard.models import CheckReport, Verdict
from dashboard.store import open_store
from dashboard.store.ingest import ingest
from dashboard.verdicts import Policy


@pytest.fixture
def made(tmp_path: Path, make_history: Callable[..., Any], recipe: Any) -> Any:
    return make_history(tmp_path / "results", recipe())


def benchmarks_of(made: Any) -> list[str]:
    return sorted({line["benchmark"] for line in made.rounds(3)})


def run(made: Any, **wishes: Any) -> CheckReport:
    store = made.results.parent / "s.duckdb"
    ingest(store, made.results)
    with open_store(store) as opened:
        return check(opened, Policy(), **wishes)


def missing(report: CheckReport) -> set[str]:
    return {v.series.benchmark for v in report.verdicts if v.verdict is Verdict.MISSING}


def left_out(report: CheckReport) -> list[str]:
    return [note for note in report.notes if "left out" in note]


def test_what_another_tier_measured_at_base_is_left_out_and_counted(made: Any) -> None:
    few = benchmarks_of(made)[:1]
    for index in (0, 1, 3):  # the earlier ones show that there is such a tier
        made.keep_only(index, few)
    report = run(made)
    assert missing(report) == set()
    assert {v.series.benchmark for v in report.verdicts} == set(few)
    left = len({(x["benchmark"], x["params"]["model"]) for x in made.rounds(2)})
    assert left_out(report) == [
        f"{left - len(report.verdicts)} series of base {made.commits[2][:8]} were not measured at "
        "head and are left out: head's runs selected others, as those of earlier commits did"
    ]


def test_one_commit_alone_shows_no_tier(made: Any) -> None:
    # It may have broken off itself.
    benchmarks = benchmarks_of(made)
    for index in (1, 3):
        made.keep_only(index, benchmarks[:1])
    assert missing(run(made)) == set(benchmarks[1:])


def test_later_commits_show_no_tier(
    tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    made = make_history(tmp_path / "results", recipe(commits=6))
    benchmarks = benchmarks_of(made)
    for index in (3, 4, 5):
        made.keep_only(index, benchmarks[:1])
    report = run(made, base=made.commits[2], head=made.commits[3])
    assert missing(report) == set(benchmarks[1:])


def test_pieces_of_runs_show_no_tier(made: Any) -> None:
    # Each commit in runs of one benchmark each; head got only the first.
    benchmarks = benchmarks_of(made)
    for index in range(4):
        lines = [r | {"run": f"{index} {r['benchmark']}"} for r in made.rounds(index)]
        made.write_rounds(index, lines)
    made.keep_only(3, benchmarks[:1])
    assert missing(run(made)) == set(benchmarks[1:])


def test_a_run_of_both_that_broke_off_shows_no_tier(made: Any) -> None:
    # Base has a whole run of its own too.
    benchmarks = benchmarks_of(made)
    again = [r | {"run": "both"} for r in made.rounds(2) if r["benchmark"] == benchmarks[0]]
    made.write_rounds(2, [*made.rounds(2), *again])
    made.keep_only(3, benchmarks[:1])
    made.measured_by(3, "both")
    assert missing(run(made, base=made.commits[2])) == set(benchmarks[1:])


def test_a_run_that_broke_off_is_no_tier(made: Any) -> None:
    benchmarks = benchmarks_of(made)
    made.keep_only(3, benchmarks[:1])
    report = run(made)
    assert missing(report) == set(benchmarks[1:])
    assert left_out(report) == []


def test_what_disappeared_from_the_same_tier_is_missing(made: Any) -> None:
    benchmarks = benchmarks_of(made)
    made.keep_only(3, benchmarks[:-1])
    report = run(made)
    assert missing(report) == {benchmarks[-1]}
    assert left_out(report) == []


def test_a_benchmark_that_was_swept_in_a_piece_of_its_own_is_missing(made: Any) -> None:
    benchmarks = benchmarks_of(made)
    made.write_rounds(2, [r | {"run": f"piece of {r['benchmark']}"} for r in made.rounds(2)])
    made.keep_only(3, benchmarks[:-1])
    assert missing(run(made)) == {benchmarks[-1]}


def test_what_a_run_of_both_measured_at_base_alone_is_missing(made: Any) -> None:
    benchmarks = benchmarks_of(made)
    for index in (0, 1, 3):
        made.keep_only(index, benchmarks[:1])
    for index in (2, 3):
        made.measured_by(index, "both")
    assert missing(run(made)) == set(benchmarks[1:])


@pytest.mark.parametrize("first", [True, False])
def test_a_tier_is_known_by_its_run_among_others_of_base(first: bool, made: Any) -> None:
    # Base was measured by a tier of two benchmarks too; head lost one of these.
    benchmarks = benchmarks_of(made)
    for index in (0, 1):
        made.keep_only(index, benchmarks[:1])
    every = made.rounds(2)
    tier = [
        line | {"run": "tier", "samples": [9.0 * one for one in line["samples"]]}
        for line in every
        if line["benchmark"] in benchmarks[:2]
    ]
    made.write_rounds(2, [*tier, *every] if first else [*every, *tier])
    made.keep_only(3, benchmarks[:1])
    assert missing(run(made)) == {benchmarks[1]}


def test_what_head_s_rounds_name_was_to_be_measured(made: Any) -> None:
    # A tier of eleven benchmarks, of which asv's own results know one.
    benchmarks = benchmarks_of(made)
    named = [r for r in made.rounds(3) if r["benchmark"] == benchmarks[1]]
    for index in (0, 1, 3):
        made.keep_only(index, benchmarks[:1])
        own = made.rounds(index)[0]
        more = [own | {"benchmark": f"more.More{number}.track_time"} for number in range(10)]
        made.write_rounds(index, [*made.rounds(index), *more])
    assert missing(run(made)) == set()
    lost = {"status": "skipped", "reason": None, "samples": [], "value": None}
    made.write_rounds(3, [*made.rounds(3), *(r | lost for r in named)])
    assert missing(run(made)) == {benchmarks[1]}


def test_commits_without_rounds_are_precedents_too(made: Any) -> None:
    benchmarks = benchmarks_of(made)
    for index in (0, 1, 3):
        made.keep_only(index, benchmarks[:1])
    for index in range(4):
        made.rounds_file(index).unlink()
    assert missing(run(made)) == set()


def test_what_asv_writes_of_series_it_was_not_asked_for_is_not_measured(made: Any) -> None:
    benchmarks = benchmarks_of(made)
    for index in (0, 1, 3):
        whole = json.loads(made.result_file(index).read_text("utf-8"))
        made.keep_only(index, benchmarks[:1])
        few = json.loads(made.result_file(index).read_text("utf-8"))
        for name in benchmarks[1:]:
            row = whole["results"][name]
            few["results"][name] = [[float("nan")] * len(row[0]), *row[1:5]]
        made.result_file(index).write_text(json.dumps(few), "utf-8")
    report = run(made)
    assert missing(report) == set()
    assert len(left_out(report)) == 1


def test_one_machine_is_no_precedent_for_another(
    made: Any, make_history: Callable[..., Any], recipe: Any
) -> None:
    other = make_history(
        made.results, recipe(hashes=made.commits, machine="other", commits_file=False)
    )
    benchmarks = benchmarks_of(made)
    for index in (0, 1, 3):
        made.keep_only(index, benchmarks[:1])
    other.keep_only(3, benchmarks[:1])
    gone = [v.series for v in run(made).verdicts if v.verdict is Verdict.MISSING]
    assert {series.machine for series in gone} == {"other"}
    assert {series.benchmark for series in gone} == set(benchmarks[1:])
