"""The shipped history: found without importing the suite that measured it."""

from __future__ import annotations

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


def verdict_of(store: Path, results: Path) -> str:
    """Build the store from the results; the verdict of their latest two commits as text.

    The history's own commits.jsonl is used, no repository, and the settings of the project that
    it lies in. Where nothing can be compared the text says why.
    """
    from dashboard.check import check
    from dashboard.narration import narrated_ingest
    from dashboard.settings import policy
    from dashboard.store import open_store, queries
    from dashboard.verdicts.reports import render

    narrated_ingest(store, results, repository=None)
    with open_store(store) as opened:
        machine = queries.newest_machine(opened)
        try:
            report = check(opened, policy(results), machine=machine)
        except InputError as error:
            return f"no verdict: {error}\n"
    return render(report, "text")
