"""Where to look further: the app's page of a series, and the command that measures it again."""

from __future__ import annotations

import re
import shlex
from urllib.parse import urlencode

from dashboard.models import CheckReport, Series

_NUMBER = re.compile(r"-?\d+(\.\d+)?")
# Other characters may be written as escapes.
_PLAIN = re.compile(r"[\w .,:;+=/@-]*")


def trend_link(dashboard: str, series: Series) -> str:
    """The address of the app's Trends page with this series alone."""
    chosen: dict[str, str] = {
        "benchmark": series.family or series.benchmark,
        "machine": f"{series.machine} · {series.environment}",
    }
    typed = {"model": series.model, "tokens": series.tokens, "tp": series.tp}
    known = {name: str(value) for name, value in typed.items() if value is not None}
    chosen |= known or {f"param_{name}": value for name, value in series.params}
    return f"{dashboard.rstrip('/')}/trends?{urlencode(chosen, errors='replace')}"


def check_links(dashboard: str, report: CheckReport) -> dict[str, str]:
    """The addresses of the app's Compare page with these two commits, by machine.

    The machine with the worst series first; without any series, one address that names no
    machine, under an empty name.
    """
    machines = dict.fromkeys(verdict.series.machine for verdict in report.verdicts)
    return {machine: _check_link(dashboard, report, machine) for machine in machines or [""]}


def _check_link(dashboard: str, report: CheckReport, machine: str) -> str:
    runner = {"runner": machine} if machine else {}
    query = runner | {"base": report.base.hash, "head": report.head.hash}
    return f"{dashboard.rstrip('/')}/compare?{urlencode(query, errors='replace')}"


def measure_again(report: CheckReport, series: Series) -> str:
    """The shell command that measures one series at both commits, taking turns."""
    called = re.escape(series.benchmark)
    if series.params:
        called += rf"\({', '.join(_pattern(value) for _, value in series.params)}\)"
    expression = f"^{called}$"
    commits = " ".join(shlex.quote(commit.hash) for commit in (report.base, report.head))
    return (
        f"printf '%s\\n' {commits} | asv run --interleave-rounds --record-samples "
        f"--bench {shlex.quote(expression)} HASHFILE:-"
    )


def _pattern(value: str) -> str:
    """Fits a parameter's value as asv writes it: a text in quotes, whatever kind, or none."""
    if _NUMBER.fullmatch(value):
        return re.escape(value)
    inner = value.strip("'\"")
    plain = re.escape(inner).replace(r"\ ", " ") if _PLAIN.fullmatch(inner) else ".*"
    return f".?{plain}.?"
