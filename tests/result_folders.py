"""Synthetic folders of results: one benchmark, commit and machine, and a round of it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

NAME = "forward.Forward.track_time"
ROUNDS = "rounds/abcd1234-env-m.jsonl"
RESULTS = "m/abcd1234-env.json"
FIRST, SECOND = (json.dumps({"round": number}) for number in range(2))


def stored(
    values: list[float | None],
    version: str | None = "1",
    params: list[list[str]] | None = None,
    started_at: object = 1000,
    samples: list[list[float] | None] | None = None,
) -> str:
    """asv's result file of one benchmark; one value a parameter, ``started_at`` in ms."""
    params = [[str(index) for index in range(len(values))]] if params is None else params
    columns = ["result", "params", "version", "started_at", "duration"]
    row: list[object] = [values, params, version, started_at, 1.0]
    if samples is not None:
        columns += ["stats_number", "samples"]
        row += [[many and 1 for many in samples], samples]
    return json.dumps(
        {
            "commit_hash": "abcd1234",
            "env_name": "env",
            "date": 0,
            "params": {"machine": "m"},
            "python": "3.12",
            "requirements": {},
            "result_columns": columns,
            "results": {NAME: row},
            "version": 2,
        }
    )


def described(version: str = "1", code: str = "") -> str:
    return json.dumps({NAME: {"version": version, "code": code}, "version": 2})


def folder(path: Path, **files: str) -> Path:
    """Results of one benchmark with one round; ``files`` have other text."""
    whole = {
        "benchmarks.json": described(),
        "commits.jsonl": '{"hash": "abcd1234"}\n',
        ROUNDS: f"{FIRST}\n",
        "m/machine.json": json.dumps({"machine": "m", "version": 1}),
        RESULTS: stored([1.0, math.nan]),
        **files,
    }
    for name, text in whole.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text, encoding="utf-8")
    return path


def content(path: Path) -> dict[Path, bytes]:
    return {one: one.read_bytes() for one in path.rglob("*") if one.is_file()}


def values_in(path: Path) -> dict[str, Any]:
    found = json.loads((path / RESULTS).read_text())
    return dict(zip(found["result_columns"], found["results"][NAME], strict=False))
