"""The command line ``lmhead-perf``: argument parsing and narration only.

stdout is data, stderr is narration. Heavy modules load inside the commands that need them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dashboard.errors import InputError
from dashboard.models import Verdict
from dashboard.narration import say, write_text

DEFAULT_STORE = str(Path(".asv") / "history.duckdb")
_LOCAL = "127.0.0.1"

app = typer.Typer(
    help="Did this commit make the fused LM head slower, where, and can one believe it?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

StoreOption = Annotated[
    str,
    typer.Option("--store", envvar="LMHEAD_PERF_STORE", help="DuckDB file of the history."),
]
PortOption = Annotated[
    int | None,
    typer.Option("--port", min=1, max=65535, help="Port; else the first free one from 8501."),
]
HostOption = Annotated[str, typer.Option("--host", help="Address to listen at.")]


class ReportFormat(StrEnum):
    """How `check` reports."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"
    JUNIT = "junit"


@app.command()
def ingest(
    results: Annotated[
        Path | None,
        typer.Argument(help="asv results folder; else results_dir of asv.conf.json."),
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: Annotated[bool, typer.Option("--json", help="Report as JSON on stdout.")] = False,
) -> None:
    """Load an asv results folder into the store; loading it again changes nothing."""
    from dashboard.commits import Repository
    from dashboard.narration import ingest_json, ingest_line, narrated_ingest
    from dashboard.settings import default_results

    folder = default_results(Path.cwd()) if results is None else results
    repository = Repository.find(folder) or Repository.find(Path.cwd())
    report = narrated_ingest(store, folder, repository)
    typer.echo(ingest_json(report) if as_json else ingest_line(report, store))


@app.command()
def check(
    base: Annotated[
        str | None,
        typer.Option(help="Commit to compare with; else head's merge base with the main branch."),
    ] = None,
    head: Annotated[
        str | None, typer.Option(help="Commit to judge; else the newest measured one.")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Minimum effect in percent, for every series.")
    ] = None,
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
) -> None:
    """Judge two commits: exit 0 nothing wrong, 1 something is, 2 cannot tell."""
    from dashboard.check import check as compare_commits
    from dashboard.commits import Repository
    from dashboard.settings import policy
    from dashboard.store import open_store
    from dashboard.verdicts.reports import exit_code, render

    rules = policy(Path.cwd(), threshold)
    with open_store(store) as opened:
        report = compare_commits(
            opened,
            rules,
            base=base,
            head=head,
            machine=machine,
            repository=Repository.find(Path.cwd()),
        )
    write_text(render(report, report_format.value), output)
    raise typer.Exit(exit_code(report, fail_on or ()))


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
        typer.echo(server.address)
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
        typer.echo(verdict_of(Path(folder) / "demo.duckdb", results), nl=False)
        server.wait_until_served()
        typer.echo(server.address)
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
    """Entry point: a user's mistake is one line on stderr and exit code 2."""
    try:
        app()
    except InputError as error:
        say(f"lmhead-perf: {' '.join(str(error).split())}")
        sys.exit(2)


@contextmanager
def _until_interrupted() -> Iterator[None]:
    """Ctrl-C is how a server is meant to end."""
    try:
        yield
    except KeyboardInterrupt:
        say("stopped")
