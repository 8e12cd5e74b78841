"""Flat measurements for other tools: CSV, Parquet or JSON by the file's name."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dashboard.errors import InputError
from dashboard.models import Series
from dashboard.store import Store, queries
from dashboard.verdicts.reports.machine import params_document

if TYPE_CHECKING:
    import pandas as pd


def export(store: Store, output: Path) -> int:
    """Write one row a measurement; returns how many.

    CSV holds lists (``samples``) and ``params`` as JSON text, Parquet ``params``. JSON has an
    object of values for these, and null for what it cannot say (±Infinity).

    Raises InputError for another suffix or a file that cannot be written.
    """
    writer = _WRITERS.get(output.suffix.lower())
    if writer is None:
        raise InputError(f"cannot export to {output}: use {', '.join(_WRITERS)}")
    frame = queries.exported(store)
    side = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        writer(frame, side)
        side.replace(output)
    except OSError as error:
        raise InputError(f"cannot write {output}: {error.strerror or error}") from error
    finally:
        side.unlink(missing_ok=True)
    return len(frame)


def _csv(frame: pd.DataFrame, path: Path) -> None:
    flat = frame.assign(samples=frame["samples"].map(json.dumps))
    flat.to_csv(path, index=False)


def _parquet(frame: pd.DataFrame, path: Path) -> None:
    frame.to_parquet(path, index=False)


def _json(frame: pd.DataFrame, path: Path) -> None:
    flat = frame.assign(params=frame["params"].map(_params))
    flat.to_json(path, orient="records", date_format="iso", double_precision=15, lines=False)


def _params(text: str) -> dict[str, object]:
    """The parameters by name, with the values that `check` reports."""
    shown = tuple(json.loads(text).items())
    return params_document(Series("", shown, machine="", environment="", unit=""))


_WRITERS: dict[str, Callable[[pd.DataFrame, Path], None]] = {
    ".csv": _csv,
    ".parquet": _parquet,
    ".json": _json,
}
