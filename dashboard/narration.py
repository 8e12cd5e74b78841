"""What the command line tells: progress and remarks on stderr, reports as text."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from dashboard.errors import InputError

if TYPE_CHECKING:
    from dashboard.commits import Repository
    from dashboard.store.ingest_report import IngestReport


def say(text: str) -> None:
    """A remark on stderr. One that cannot be written is lost, and changes no exit code."""
    if sys.stderr is None:  # closed by the caller
        return
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        discard(sys.stderr)


def tell(text: str) -> None:
    """Data on stdout, at once. InputError where it cannot be written, as to a closed pipe."""
    if sys.stdout is None:
        raise InputError("cannot write to stdout: it is closed")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        discard(sys.stdout)
        raise InputError(f"cannot write to stdout: {error.strerror or error}") from error


def discard(stream: TextIO) -> None:
    """Drop what the stream still holds, and all that follows: it could not be written."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    finally:
        os.close(nowhere)


def write_text(text: str, output: Path | None) -> None:
    """Write to a file, or to stdout. InputError where it cannot be written."""
    if output is None:
        tell(text)
        return
    try:
        output.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"cannot write {output}: {error.strerror}") from error


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Shows ``done`` of ``total`` files, to people: in a log every refresh would be a line."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    # Imported here: a scripted ingest of one file is done before this is loaded.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("reading"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def narrated_ingest(
    store: Path | str,
    results: Path,
    repository: Repository | None,
    source: str | None = None,
    prune: bool = False,
) -> IngestReport:
    """Ingest with a progress bar, and every rejected file and note said."""
    from dashboard.store.ingest import ingest

    with _progress() as progress:
        report = ingest(
            store,
            results,
            repository,
            progress=progress,
            waiting=lambda: say(f"waiting for another ingest into {store}"),
            source=source,
            prune=prune,
        )
    for path, reason in report.rejected:
        say(f"rejected {path}: {reason}")
    for path, note in report.notes:
        say(f"{path}: {note}")
    for path in report.pruned:
        say(f"forgot {path}: it is gone from {results}")
    if report.gone:
        more = f" and {len(report.gone) - 1} more" if len(report.gone) > 1 else ""
        say(f"{report.gone[0]}{more}: gone from {results}, kept in {store}; ingest --prune forgets")
    return report


def ingest_line(report: IngestReport, store: Path | str) -> str:
    """An ingest's report for people."""
    return (
        f"{report.read} files read, {report.unchanged} unchanged, "
        f"{len(report.rejected)} rejected; {store} holds {report.runs} runs, "
        f"{report.series} series, {report.measurements} measurements"
    )


def ingest_json(report: IngestReport) -> str:
    """An ingest's report for tools; the counts are those of the whole store."""
    document = {
        "files": {
            "read": report.read,
            "unchanged": report.unchanged,
            "rejected": len(report.rejected),
        },
        "runs": report.runs,
        "series": report.series,
        "measurements": report.measurements,
        "rejected": [{"path": path, "reason": reason} for path, reason in report.rejected],
        "notes": [{"path": path, "note": note} for path, note in report.notes],
        "gone": list(report.gone),
        "pruned": list(report.pruned),
        "seconds": report.seconds,
    }
    return json.dumps(document, indent=2)
