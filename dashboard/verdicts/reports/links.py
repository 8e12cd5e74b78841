"""Where to look further: the app's page of a series, and the command that measures it again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from urllib.parse import urlencode

from dashboard.models import CheckReport, Series, SeriesVerdict

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


def measure_again(report: CheckReport, verdict: SeriesVerdict) -> str:
    """The shell command that measures one series at both commits, taking turns.

    It takes as many rounds as the verdict says would settle it.
    """
    series = verdict.series
    called = re.escape(series.benchmark)
    if series.params:
        called += rf"\({', '.join(_pattern(value) for _, value in series.params)}\)"
    expression = f"^{called}$"
    commits = (report.base.hash, report.head.hash)
    return asv_run(expression, commits, series.machine, verdict.rounds_needed)


def asv_run(
    expression: str, commits: Sequence[str], machine: str, rounds: int | None = None
) -> str:
    """The shell command that measures what ``expression`` fits at some commits, which take turns
    round by round, so that they can be told apart best.

    asv is told the machine: it knows it by that name, and files the results under it. ``rounds``
    takes the place of what the benchmarks say themselves.
    """
    options = ["--machine", machine, "--record-samples"]
    if rounds is not None:
        options += ["--attribute", f"rounds={rounds}"]
    options += ["--bench", expression]
    if len(commits) == 1:
        return shlex.join(["asv", "run", *options, f"{commits[0]}^!"])
    run = shlex.join(["asv", "run", "--interleave-rounds", *options, "HASHFILE:-"])
    return f"printf '%s\\n' {shlex.join(commits)} | {run}"


def _pattern(value: str) -> str:
    """Fits a parameter's value as asv writes it: a text in quotes, whatever kind, or none."""
    if _NUMBER.fullmatch(value):
        return re.escape(value)
    inner = value.strip("'\"")
    plain = re.escape(inner).replace(r"\ ", " ") if _PLAIN.fullmatch(inner) else ".*"
    return f".?{plain}.?"
