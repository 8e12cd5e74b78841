"""Which base is taken: rather one whose rounds took turns with head's.

The histories are synthetic, see conftest: four commits, each measured by a run of its own but
where a test says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dashboard.check import check
from dashboard.models import CheckReport
from dashboard.store import open_store
from dashboard.store.ingest import ingest
from dashboard.verdicts import Policy


@pytest.fixture
def made(tmp_path: Path, make_history: Callable[..., Any], recipe: Any) -> Any:
    return make_history(tmp_path / "results", recipe())


def run(made: Any, **wishes: Any) -> CheckReport:
    store = made.results.parent / "s.duckdb"
    ingest(store, made.results)
    with open_store(store) as opened:
        return check(opened, Policy(), **wishes)


def test_a_base_that_a_run_measured_in_turn_with_head_is_preferred(made: Any) -> None:
    for index in (0, 1, 3):
        made.measured_by(index, "turns")
    report = run(made)
    assert (report.base.hash, report.head.hash) == (made.commits[1], made.commits[3])
    assert report.notes[0] == (
        f"base is {made.commits[1][:8]}, the nearest measured ancestor of head that one run "
        f"measured in turn with head; {made.commits[2][:8]} was not"
    )
    named = run(made, base=made.commits[2])
    assert named.base.hash == made.commits[2]


def test_the_nearest_base_needs_no_remark_where_it_took_turns(made: Any) -> None:
    for index in (1, 2, 3):
        made.measured_by(index, "turns")
    report = run(made)
    assert report.base.hash == made.commits[2]
    assert report.notes[0] == (
        f"base is {made.commits[2][:8]}, the nearest measured ancestor of head"
    )


def families_of(made: Any) -> list[str]:
    return sorted({line["benchmark"] for line in made.rounds(3)})


@pytest.mark.parametrize("at", [1, 3])
@pytest.mark.parametrize("lost", ["not measured", "failed"])
def test_a_run_that_measured_few_of_head_s_series_in_turn_does_not_choose(
    at: int, lost: str, made: Any
) -> None:
    # The run of both has two thirds of the series at one commit and one third at the other.
    families = families_of(made)
    for index in (1, 3):
        kept = families[:1] if index == at else families[:2]
        failed = {"status": "failed", "reason": "synthetic", "samples": [], "value": None}
        turns = [
            r | {"run": "turns"} | ({} if r["benchmark"] in kept else failed)
            for r in made.rounds(index)
            if lost == "failed" or r["benchmark"] in kept
        ]
        made.write_rounds(index, [*made.rounds(index), *turns])
    assert run(made).base.hash == made.commits[2]
    for index in (1, 3):
        more = [r | {"run": "turns"} for r in made.rounds(index) if r["run"] != "turns"]
        made.write_rounds(index, more)
    assert run(made).base.hash == made.commits[1]


@pytest.mark.parametrize("parents", [True, False])
def test_a_commit_that_was_measured_as_head_was_comes_before_a_nearer_one(
    parents: bool, made: Any
) -> None:
    made.keep_only(2, families_of(made)[:1])
    if not parents:
        (made.results / "commits.jsonl").unlink()
    report = run(made)
    assert report.base.hash == made.commits[1]
    kind = "nearest measured ancestor of head" if parents else "last measured commit before head"
    other = f"; {made.commits[2][:8]} was not" if parents else ""
    assert report.notes[0] == (
        f"base is {made.commits[1][:8]}, the {kind} of which nearly all of head's series were "
        f"measured{other}"
    )


def test_two_runs_that_measured_parts_in_turn_are_as_good_as_one(made: Any) -> None:
    families = families_of(made)
    for index in (1, 3):
        lines = [r | {"run": f"turns {r['benchmark']}"} for r in made.rounds(index)]
        made.write_rounds(index, lines)
    assert run(made).base.hash == made.commits[1]
    lines = [r for r in made.rounds(1) if r["benchmark"] != families[0]]
    made.write_rounds(1, lines)
    store = made.results.parent / "s.duckdb"
    store.unlink()
    assert run(made).base.hash == made.commits[2]


def test_without_parents_the_last_commit_that_took_turns_is_taken(made: Any) -> None:
    (made.results / "commits.jsonl").unlink()
    for index in (0, 1, 3):
        made.measured_by(index, "turns")
    report = run(made)
    assert report.base.hash == made.commits[1]
    assert report.notes[0] == (
        f"base is {made.commits[1][:8]}, the last measured commit before head that one run "
        "measured in turn with head"
    )
    made.measured_by(2, "turns")
    assert run(made, head=made.commits[2]).base.hash == made.commits[1], "none that is later"


class Branched:
    """A repository whose main branch is at the commit of that index."""

    def __init__(self, made: Any, main: int, fork: int) -> None:
        self.main, self.fork = made.commits[main], made.commits[fork]

    def main_branch(self) -> tuple[str, str]:
        return "main", self.main

    def merge_base(self, one: str, other: str) -> str:
        del one, other
        return self.fork

    def resolve(self, revision: str) -> str | None:
        del revision
        return None


def test_a_measured_merge_base_comes_before_one_that_took_turns(made: Any) -> None:
    for index in (1, 3):
        made.measured_by(index, "turns")
    report = run(made, repository=Branched(made, 2, 2))
    assert report.base.hash == made.commits[2]
    assert report.notes[0] == f"base is {made.commits[2][:8]}, the merge base with main"


def test_before_a_merge_base_that_was_not_measured_one_is_taken_that_took_turns(made: Any) -> None:
    for index in (0, 3):
        made.measured_by(index, "turns")
    made.result_file(2).unlink()
    made.rounds_file(2).unlink()
    report = run(made, repository=Branched(made, 2, 2))
    assert report.base.hash == made.commits[0]
    assert report.notes[0] == (
        f"base is {made.commits[0][:8]}, the nearest measured ancestor of the merge base with main "
        f"that one run measured in turn with head; {made.commits[1][:8]} was not"
    )


def test_a_later_commit_of_head_s_run_is_no_base(made: Any) -> None:
    for index in (2, 3):
        made.measured_by(index, "turns")
    assert run(made, head=made.commits[2]).base.hash == made.commits[1]
