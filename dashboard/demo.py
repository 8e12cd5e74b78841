"""The shipped history: found without importing the suite that measured it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from dashboard.errors import InputError


def shipped_results() -> Path:
    """The results folder inside the installed suite. InputError without a history in it."""
    suite = find_spec("asv_benchmarks")
    for location in (suite.submodule_search_locations or ()) if suite is not None else ():
        results = Path(location) / "results"
        if any(results.glob("*/*-*.json")):
            return results
    raise InputError("no measured history is shipped with this installation")


@dataclass(frozen=True, slots=True)
class Shown:
    """A verdict as text, and the query with which the app's address shows the same two commits."""

    text: str
    query: str = ""


def verdict_of(store: Path, results: Path) -> Shown:
    """Build the store from the results and judge two commits.

    These are the newest two that one run measured, else the latest two. The history's own
    commits.jsonl is used, no repository, and the settings of the project that it lies in. Where
    nothing can be compared the text says why.
    """
    from dashboard.check import check
    from dashboard.narration import narrated_ingest
    from dashboard.settings import policy
    from dashboard.store import open_store, queries
    from dashboard.verdicts.reports import render

    narrated_ingest(store, results, repository=None)
    with open_store(store) as opened:
        machine = queries.newest_machine(opened)
        pair = queries.newest_of_one_run(opened, machine)
        base, head = pair or (None, None)
        try:
            report = check(opened, policy(results), base=base, head=head, machine=machine)
        except InputError as error:
            return Shown(f"no verdict: {error}\n")
        newest = queries.measured_commits(opened, machine)[-1].hash
    if head not in (None, newest):
        note = f"{newest[:8]}, the newest commit measured, has a run of its own"
        report = replace(report, notes=(*report.notes, note))
    query = f"?base={report.base.hash[:8]}&head={report.head.hash[:8]}" if pair else ""
    return Shown(render(report, "text"), query)
