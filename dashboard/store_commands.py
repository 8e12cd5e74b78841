"""``lmhead-perf store``: argument parsing and narration only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dashboard.narration import say, tell

if TYPE_CHECKING:
    from dashboard.store.integrity import Integrity

store_app = typer.Typer(help="Make, describe, tidy and check a store.", no_args_is_help=True)

DEFAULT_STORE = str(Path(".asv") / "history.duckdb")
StoreOption = Annotated[
    str,
    typer.Option(
        "--store", envvar="LMHEAD_PERF_STORE", help="DuckDB file or ducklake: URI of the history."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Report as JSON on stdout.")]


@store_app.command()
def init(
    store: StoreOption = DEFAULT_STORE,
    data: Annotated[
        str | None,
        typer.Option(help="Where a ducklake: store keeps its files: a folder or s3:// prefix."),
    ] = None,
) -> None:
    """Make an empty store; one that is there already stays as it is."""
    from dashboard.store.maintenance import initialize

    say(f"{store} is ready" if initialize(store, data) else f"{store} is there already")


@store_app.command()
def info(store: StoreOption = DEFAULT_STORE, as_json: JsonOption = False) -> None:
    """Tell a store's kind, schema, size and what it holds."""
    from dashboard.store import open_store
    from dashboard.store.maintenance import describe

    with open_store(store) as opened:
        facts = describe(opened)
    if as_json:
        tell(json.dumps(facts, indent=2, default=str) + "\n")
        return
    for name, value in facts.items():
        shown = ", ".join(value) if isinstance(value, list) else value
        tell(f"{name.replace('_', ' '):>14}  {'-' if shown is None else shown}\n")


@store_app.command()
def compact(store: StoreOption = DEFAULT_STORE) -> None:
    """Sort a store's rows by series and drop what is no longer of use."""
    from dashboard.store.maintenance import compact as compact_store

    change = compact_store(store)
    say(f"{store}: {change.before:,} bytes before, {change.after:,} after")


@store_app.command()
def migrate(store: StoreOption = DEFAULT_STORE) -> None:
    """Bring a store to the schema of this version."""
    from dashboard.store.maintenance import migrate as migrate_store

    change = migrate_store(store)
    if change.before == change.after:
        say(f"{store} has schema {change.after} already")
    else:
        say(f"{store}: schema {change.before} became {change.after}")


@store_app.command()
def check(
    results: Annotated[
        Path | None,
        typer.Argument(help="asv results folder that the store should hold; else by itself."),
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
    source: Annotated[
        str | None, typer.Option(help="Name that the folder was ingested by, if it has one.")
    ] = None,
) -> None:
    """Compare a store with its results folder, value by value: exit 0 equal, 1 not."""
    from dashboard.store import open_store
    from dashboard.store.integrity import examine

    with open_store(store) as opened:
        found = examine(opened, results, source)
    tell((_json(found) if as_json else _text(found, store)) + "\n")
    raise typer.Exit(1 if found.findings else 0)


def _json(found: Integrity) -> str:
    findings = [{"path": entry.path, "problem": entry.problem} for entry in found.findings]
    counts = {"runs": found.runs, "measurements": found.measurements, "rounds": found.rounds}
    return json.dumps({**counts, "findings": findings}, indent=2)


def _text(found: Integrity, store: str) -> str:
    lines = [f"{entry.path or store}: {entry.problem}" for entry in found.findings]
    lines.append(
        f"{len(found.findings)} problems in {found.runs} runs, {found.measurements} measurements, "
        f"{found.rounds} rounds"
    )
    return "\n".join(lines)
