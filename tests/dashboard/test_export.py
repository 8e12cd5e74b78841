"""Export: the same table whichever way it is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dashboard.errors import InputError
from dashboard.export import export
from dashboard.store import open_store, queries
from dashboard.store.ingest import ingest

COLUMNS = [
    *("benchmark", "family", "model", "tokens", "tp", "cp", "m", "h", "v", "entropy", "schedule"),
    *("params", "machine", "gpu", "gpu_uuid", "environment", "commit", "commit_date"),
    *("started_at", "value", "low", "high", "unit", "rounds", "samples", "status"),
]


def write(store: Path, path: Path) -> int:
    """Export a store."""
    with open_store(store) as opened:
        return export(opened, path)


def test_parquet_gives_back_what_the_store_has(tmp_path: Path, history_store: Path) -> None:
    path = tmp_path / "out.parquet"
    assert write(history_store, path) == 24
    back = pd.read_parquet(path)
    with open_store(history_store) as store:
        own = queries.exported(store)
    assert list(back.columns)[: len(COLUMNS)] == COLUMNS
    assert set(back["gpu_uuid"]) == {"GPU-synthetic"}
    assert [list(samples) for samples in back["samples"]] == list(own["samples"])
    for name in ("value", "low", "high", "commit", "tokens", "commit_date", "status"):
        assert list(back[name]) == list(own[name])


def test_csv_gives_back_what_the_store_has(tmp_path: Path, history_store: Path) -> None:
    path = tmp_path / "out.csv"
    write(history_store, path)
    back = pd.read_csv(path)
    with open_store(history_store) as store:
        own = queries.exported(store)
    assert list(back.columns)[: len(COLUMNS)] == COLUMNS
    assert list(back["value"]) == list(own["value"])
    assert [json.loads(text) for text in back["samples"]] == list(own["samples"])
    assert json.loads(back["params"][0]) == {"model": "nemotron-super", "tokens": "8192", "tp": "1"}


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_every_column_comes_back(tmp_path: Path, history_store: Path, name: str) -> None:
    """Read with the store's own types, the file is the table."""
    write(history_store, tmp_path / name)
    with open_store(history_store) as store:
        own = queries.exported(store)
    if name.endswith(".parquet"):
        back = pd.read_parquet(tmp_path / name)
        back["samples"] = [list(samples) for samples in back["samples"]]
    else:
        texts = {column: "object" for column in own if own[column].dtype in ("object", "str")}
        back = pd.read_csv(tmp_path / name, dtype=texts)
        back["samples"] = [json.loads(samples) for samples in back["samples"]]
    for column in own:
        if isinstance(own[column].dtype, pd.DatetimeTZDtype):
            back[column] = pd.to_datetime(back[column])
        given, wanted = back[column], own[column]
        assert list(given.isna()) == list(wanted.isna()), column
        assert list(given.dropna()) == list(wanted.dropna()), column


def test_json_is_one_object_a_measurement(tmp_path: Path, history_store: Path) -> None:
    path = tmp_path / "out.json"
    write(history_store, path)
    rows = json.loads(path.read_text("utf-8"))
    with open_store(history_store) as store:
        own = queries.exported(store)
    assert list(rows[0])[: len(COLUMNS)] == COLUMNS
    assert [row["value"] for row in rows] == pytest.approx(list(own["value"]), rel=1e-14)
    assert rows[0]["tokens"] == 8192
    assert rows[0]["params"] == {"model": "nemotron-super", "tokens": 8192, "tp": 1}
    assert rows[0]["commit_date"] == "2026-01-01T00:00:00.000Z"


def test_infinity_survives_where_the_format_has_it(tmp_path: Path, make_history: Any) -> None:
    made = make_history(tmp_path / "results")
    document = json.loads(made.result_file(0).read_text("utf-8"))
    document["results"]["control.Control.track_time"][0] = [float("inf"), None]
    document["results"]["control.Control.track_time"][11] = None
    made.result_file(0).write_text(json.dumps(document), "utf-8")
    ingest(tmp_path / "s.duckdb", made.results)
    for name, read in (("o.csv", pd.read_csv), ("o.parquet", pd.read_parquet)):
        write(tmp_path / "s.duckdb", tmp_path / name)
        values = list(read(tmp_path / name)["value"])
        assert values.count(float("inf")) == 1
    write(tmp_path / "s.duckdb", tmp_path / "o.json")
    values = [row["value"] for row in json.loads((tmp_path / "o.json").read_text("utf-8"))]
    assert values.count(None) == 2


def test_mistakes_are_told_and_leave_nothing(tmp_path: Path, history_store: Path) -> None:
    with pytest.raises(InputError, match=r"cannot export to .*\.xlsx: use \.csv"):
        write(history_store, tmp_path / "out.xlsx")
    with pytest.raises(InputError, match="cannot write"):
        write(history_store, tmp_path / "no" / "out.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match="cannot write"):
        write(history_store, tmp_path / "folder.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.csv"]
