"""The command line ``lmhead-perf``: argument parsing and narration only.

stdout is data, stderr is narration. Heavy modules load inside the commands that need them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dashboard import exits
from dashboard.models import Verdict
from dashboard.narration import say, tell, write_text
from dashboard.store_commands import DEFAULT_STORE, JsonOption, StoreOption, store_app

_LOCAL = "127.0.0.1"

app = typer.Typer(
    cls=exits.Commands,
    help="Did this commit make the fused LM head slower, where, and can one believe it?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(store_app, name="store")

PortOption = Annotated[
    int | None,
    typer.Option("--port", min=1, max=65535, help="Port; else the first free one from 8501."),
]
AcknowledgedOption = Annotated[
    Path | None,
    typer.Option(help="TOML file of accepted regressions; else the one of the settings."),
]
ThresholdOption = Annotated[
    float | None,
    typer.Option(
        help="Minimum effect in percent, for every series but those that the settings call "
        "exact: of these any difference counts."
    ),
]
SettingsOption = Annotated[
    Path | None,
    typer.Option(
        help="TOML file with [tool.lmhead-perf]; else the nearest pyproject.toml that has it."
    ),
]
HostOption = Annotated[str, typer.Option("--host", help="Address to listen at.")]


class ReportFormat(StrEnum):
    """How `check` reports."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"
    JUNIT = "junit"
    GITHUB = "github"


class HeadlinesFormat(StrEnum):
    """How `headlines` reports."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


class HistoryFormat(StrEnum):
    """How `history` reports."""

    TEXT = "text"
    JSON = "json"


@app.command()
def ingest(
    results: Annotated[
        Path | None,
        typer.Argument(help="asv results folder; else results_dir of asv.conf.json."),
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
    source: Annotated[
        str | None,
        typer.Option(help="Name of the results folder, if it moves; else its host and path."),
    ] = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Forget files that are gone from the results folder.")
    ] = False,
) -> None:
    """Load an asv results folder into the store; loading it again changes nothing.

    Exit 0 all went in, 2 a file or some of its lines were rejected; the rest went in.
    """
    from dashboard.commits import Repository
    from dashboard.narration import ingest_json, ingest_line, narrated_ingest
    from dashboard.settings import default_results

    folder = default_results(Path.cwd()) if results is None else results
    repository = Repository.find(folder) or Repository.find(Path.cwd())
    report = narrated_ingest(store, folder, repository, source, prune)
    tell((ingest_json(report) if as_json else ingest_line(report, store)) + "\n")
    raise typer.Exit(exits.CANNOT_TELL if report.rejected else 0)


@app.command()
def check(
    base: Annotated[
        str | None,
        typer.Option(help="Commit to compare with; else the merge base with main, or an ancestor."),
    ] = None,
    head: Annotated[
        str | None, typer.Option(help="Commit to judge; else the newest measured one.")
    ] = None,
    threshold: ThresholdOption = None,
    store: StoreOption = DEFAULT_STORE,
    machine: Annotated[str | None, typer.Option(help="Only this machine's series.")] = None,
    report_format: Annotated[
        ReportFormat, typer.Option("--format", help="How to report.")
    ] = ReportFormat.TEXT,
    output: Annotated[Path | None, typer.Option(help="File for the report; else stdout.")] = None,
    fail_on: Annotated[
        list[Verdict] | None,
        typer.Option(help="A further verdict that exits 1, such as inconclusive; repeatable."),
    ] = None,
    settings: SettingsOption = None,
    acknowledged: AcknowledgedOption = None,
    dashboard_url: Annotated[
        str | None, typer.Option(help="Address of the app, for links to its pages.")
    ] = None,
    charts: Annotated[
        Path | None, typer.Option(help="Folder for an image of each regressed series.")
    ] = None,
    charts_url: Annotated[
        str | None, typer.Option(help="Address at which that folder will be found.")
    ] = None,
) -> None:
    """Judge two commits: exit 0 nothing wrong, 1 something is, 2 cannot tell."""
    from dashboard.check import check as compare_commits
    from dashboard.commits import Repository
    from dashboard.context import context_of
    from dashboard.settings import acknowledgements, origin_of, policy
    from dashboard.store import open_store
    from dashboard.verdicts.reports import exit_code, render

    rules = policy(Path.cwd(), threshold, settings)
    entries = acknowledgements(Path.cwd(), rules, acknowledged)
    with open_store(store) as opened:
        report = compare_commits(
            opened,
            rules,
            base=base,
            head=head,
            machine=machine,
            repository=Repository.find(Path.cwd()),
        )
        report, context = context_of(
            opened,
            report,
            entries,
            settings=origin_of(rules, Path.cwd()),
            dashboard=dashboard_url,
            charts=charts,
            charts_url=charts_url,
        )
    write_text(render(report, report_format.value, context), output)
    raise typer.Exit(exit_code(report, fail_on or (), context))


@app.command()
def history(
    head: Annotated[
        str | None, typer.Option(help="Last commit of the history; else the newest measured one.")
    ] = None,
    threshold: ThresholdOption = None,
    store: StoreOption = DEFAULT_STORE,
    machine: Annotated[str | None, typer.Option(help="Only this machine's series.")] = None,
    report_format: Annotated[
        HistoryFormat, typer.Option("--format", help="How to report.")
    ] = HistoryFormat.TEXT,
    output: Annotated[Path | None, typer.Option(help="File for the report; else stdout.")] = None,
    settings: SettingsOption = None,
    acknowledged: AcknowledgedOption = None,
) -> None:
    """Find where series changed their level, which commits are suspects, what explains it."""
    from dashboard.commits import Repository
    from dashboard.history import history as changes_of
    from dashboard.revisions import naming_machines
    from dashboard.settings import acknowledgements, origin_of, policy, told
    from dashboard.store import open_store
    from dashboard.verdicts.reports.changes import changes_json, changes_text

    rules = policy(Path.cwd(), threshold, settings)
    entries = acknowledgements(Path.cwd(), rules, acknowledged)
    with open_store(store) as opened, naming_machines(opened, machine):
        report = changes_of(
            opened,
            rules,
            head=head,
            machine=machine,
            repository=Repository.find(Path.cwd()),
            acknowledgements=entries,
        )
    report = replace(report, notes=(*report.notes, told(origin_of(rules, Path.cwd()))))
    shown = changes_json if report_format is HistoryFormat.JSON else changes_text
    write_text(shown(report), output)


@app.command()
def headlines(
    commit: Annotated[
        str | None, typer.Option(help="Commit to show; else the newest of those with most series.")
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    machine: Annotated[
        str | None,
        typer.Option(help="Machine to show; else the one measured last, or that has the commit."),
    ] = None,
    report_format: Annotated[
        HeadlinesFormat, typer.Option("--format", help="How to report.")
    ] = HeadlinesFormat.TEXT,
    output: Annotated[Path | None, typer.Option(help="File for the tables; else stdout.")] = None,
) -> None:
    """Compute the reference pull requests' tables for a commit, their figures beside them."""
    from dashboard import headlines as tables
    from dashboard.commits import Repository
    from dashboard.store import open_store

    with open_store(store) as opened:
        found = tables.headlines(
            opened, commit=commit, machine=machine, repository=Repository.find(Path.cwd())
        )
    shown = {
        HeadlinesFormat.TEXT: tables.text,
        HeadlinesFormat.MARKDOWN: tables.markdown,
        HeadlinesFormat.JSON: tables.as_json,
    }[report_format]
    write_text(shown(found), output)


@app.command()
def dashboard(
    store: StoreOption = DEFAULT_STORE, port: PortOption = None, host: HostOption = _LOCAL
) -> None:
    """Serve the Streamlit app on the store until Ctrl-C."""
    from dashboard.serve import serving
    from dashboard.store import open_store

    open_store(store).close()  # a store that cannot be shown is better told now
    with _until_interrupted(), serving(store, port, host) as server:
        server.wait_until_served()
        tell(f"{server.address}\n")
        raise typer.Exit(server.wait())


@app.command()
def demo(port: PortOption = None, host: HostOption = _LOCAL) -> None:
    """Show the measured history that ships with the project, until Ctrl-C."""
    import tempfile

    from dashboard.demo import shipped_results, verdict_of
    from dashboard.serve import serving

    results = shipped_results()
    with (
        _until_interrupted(),
        tempfile.TemporaryDirectory(prefix="lmhead-perf-") as folder,
        serving(str(Path(folder) / "demo.duckdb"), port, host) as server,
    ):
        # the app takes longer to start than the store to build, and needs it only then
        shown = verdict_of(Path(folder) / "demo.duckdb", results)
        tell(shown.text)
        server.wait_until_served()
        tell(f"{server.address}/{shown.query}\n")
        raise typer.Exit(server.wait())


@app.command()
def export(
    output: Annotated[Path, typer.Option(help="File to write: .csv, .parquet or .json.")],
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Write the measurements as one flat table for other tools."""
    from dashboard.export import export as write_rows
    from dashboard.store import open_store

    with open_store(store) as opened:
        count = write_rows(opened, output)
    say(f"{count} measurements written to {output}")


def main() -> None:
    """Entry point: 1 is a verdict's exit code alone, see `dashboard.exits`."""
    exits.run(app)


@contextmanager
def _until_interrupted() -> Iterator[None]:
    """Ctrl-C is how a server is meant to end."""
    try:
        yield
    except KeyboardInterrupt:
        say("stopped")
