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


def test_a_later_commit_of_head_s_run_is_no_base(made: Any) -> None:
    for index in (2, 3):
        made.measured_by(index, "turns")
    assert run(made, head=made.commits[2]).base.hash == made.commits[1]
