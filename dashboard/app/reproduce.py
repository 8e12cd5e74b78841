"""Commands that take a number again, for a shell; no streamlit."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from dashboard.verdicts.reports.links import asv_run


def run(rest: str, machine: str) -> str:
    """asv's command that measures ``rest`` (further options and commits) on a machine."""
    return f"asv run --machine {shlex.quote(machine)} {rest}"


def measure(
    benchmark: str,
    param_values: Sequence[str],
    commits: Sequence[str],
    machine: str,
    rounds: int | None = None,
) -> str:
    """The asv command that measures one series at some commits (see ``links.asv_run``)."""
    called = benchmark + (f"({', '.join(param_values)})" if param_values else "")
    # A dot fits a quote as well, and needs none of its own in the shell.
    expression = f"^{re.escape(called)}$".replace("'", ".").replace(r"\ ", " ")
    return asv_run(expression, commits, machine, rounds)


def again(
    benchmark: str,
    param_values: Sequence[str],
    pair: tuple[str, str],
    machine: str,
    rounds: int | None = None,
) -> str:
    """The commands that measure one series at base and head, load that and judge it."""
    base, head = pair
    judge = ["lmhead-perf", "check", "--base", base, "--head", head, "--machine", machine]
    return "\n".join(
        [
            measure(benchmark, param_values, pair, machine, rounds),
            "lmhead-perf ingest",
            shlex.join(judge),
        ]
    )
