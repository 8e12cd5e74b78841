"""What a commit's runs were to measure: tiers differ.

The histories are synthetic, see conftest: four commits, each measured by a run of its own but
where a test says otherwise.
"""

from __future__ import annotations

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


def test_what_another_tier_measured_at_base_is_left_out_and_counted(made: Any) -> None:
    few = benchmarks_of(made)[:1]
    made.keep_only(3, few)
    report = run(made)
    assert missing(report) == set()
    assert {v.series.benchmark for v in report.verdicts} == set(few)
    left = len({(x["benchmark"], x["params"]["model"]) for x in made.rounds(2)})
    assert report.notes[-1] == (
        f"{left - len(report.verdicts)} series of base {made.commits[2][:8]} left out: only runs "
        "that selected others than head's did measured them"
    )


def test_what_disappeared_from_the_same_tier_is_missing(made: Any) -> None:
    benchmarks = benchmarks_of(made)
    made.keep_only(3, benchmarks[:-1])
    report = run(made)
    assert missing(report) == {benchmarks[-1]}
    assert not any("left out" in note for note in report.notes)


def test_what_a_run_of_both_measured_at_base_alone_is_missing(made: Any) -> None:
    benchmarks = benchmarks_of(made)
    made.keep_only(3, benchmarks[:1])
    for index in (2, 3):
        made.measured_by(index, "both")
    assert missing(run(made)) == set(benchmarks[1:])


def test_a_tier_is_known_by_its_run_among_others_of_base(made: Any) -> None:
    # Base was measured by a tier of two benchmarks too; head lost one of these.
    benchmarks = benchmarks_of(made)
    every = made.rounds(2)
    tier = [line for line in every if line["benchmark"] in benchmarks[:2]]
    made.write_rounds(2, [*every, *(line | {"run": "tier"} for line in tier)])
    made.keep_only(3, benchmarks[:1])
    assert missing(run(made)) == {benchmarks[1]}


def test_where_no_round_tells_of_its_run_all_is_expected(made: Any) -> None:
    benchmarks = benchmarks_of(made)
    made.keep_only(3, benchmarks[:1])
    made.rounds_file(2).unlink()
    assert missing(run(made)) == set(benchmarks[1:])
