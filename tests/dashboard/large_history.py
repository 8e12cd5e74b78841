"""A large synthetic results folder: asv's files and the rounds beside them.

Nothing in it was measured: machine, GPU and authors are called ``synthetic``. The same numbers
give the same bytes. Its shape is that of the suite: five families of local shapes, several
rounds a commit, five samples a round with all their digits.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import orjson

MACHINE = "synthetic"
ENVIRONMENT = "existing-py3.12-gpu"
SAMPLES = 5
EPOCH = datetime(2020, 1, 1, tzinfo=UTC)
FAMILIES = {
    "forward.Forward.track_time": ("forward", "off"),
    "entropy.ForwardEntropy.track_time": ("forward_entropy", "metric"),
    "backward.ForwardBackward.track_time": ("forward_backward", "off"),
    "entropy.TwoPass.track_time": ("two_pass", "metric"),
    "control.Control.track_time": ("control", "off"),
}
COLUMNS = [
    "result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b",
    "stats_q_25", "stats_q_75", "stats_number", "stats_repeat", "samples", "profile",
]  # fmt: skip


def commit_hash(index: int) -> str:
    """The hash of a synthetic commit."""
    return hashlib.sha1(f"synthetic {index}".encode()).hexdigest()


def write_large_history(
    results: Path, commits: int = 2000, series: int = 1000, rounds: int = 3, first: int = 0
) -> None:
    """Write ``commits`` commits from number ``first`` on, each with so many series and rounds.

    ``series`` is a multiple of 5. With ``first`` above 0 the files are added to those there.
    """
    (results / "rounds").mkdir(parents=True, exist_ok=True)
    (results / MACHINE).mkdir(exist_ok=True)
    axes = _axes(series // len(FAMILIES))
    definitions = {
        name: {"name": name, "param_names": ["model", "tokens", "tp"], "params": axes,
               "type": "track", "unit": "ms", "version": "1"}
        for name in FAMILIES
    }  # fmt: skip
    (results / "benchmarks.json").write_text(json.dumps({**definitions, "version": 2}))
    machine = {"machine": MACHINE, "gpu": "synthetic GPU", "version": 1}
    (results / MACHINE / "machine.json").write_text(json.dumps(machine))
    with (results / "commits.jsonl").open("a" if first else "w", encoding="utf-8") as handle:
        for index in range(first, first + commits):
            handle.write(json.dumps(_commit(index)) + "\n")
            _write_commit(results, index, axes, rounds)


def _axes(shapes: int) -> list[list[str]]:
    """Models, token counts and tensor-parallel sizes, of which there are so many combinations."""
    models = next(count for count in (10, 5, 4, 2, 1) if shapes % count == 0)
    tokens = shapes // models
    return [
        [repr(f"model-{index}") for index in range(models)],
        [str(1024 * (index + 1)) for index in range(tokens)],
        ["1"],
    ]


def _write_commit(results: Path, index: int, axes: list[list[str]], rounds: int) -> None:
    chance = np.random.default_rng(index)
    commit, day = commit_hash(index), EPOCH + timedelta(hours=index)
    rows: dict[str, Any] = {}
    lines: list[bytes] = []
    for place, (benchmark, (family, entropy)) in enumerate(FAMILIES.items()):
        shapes = [(model, tokens) for model in axes[0] for tokens in axes[1]]
        level = 1 + 0.01 * np.arange(len(shapes)) + place
        noise = chance.normal(1, 0.002, (len(shapes), rounds, 1))
        spread = chance.normal(1, 0.001, (len(shapes), rounds, SAMPLES))
        samples = level[:, None, None] * noise * spread
        values = np.median(samples, axis=2)
        pooled = samples.reshape(len(shapes), -1)
        low, high = pooled.min(axis=1).round(5), pooled.max(axis=1).round(5)
        milliseconds = int((day + timedelta(minutes=30)).timestamp() * 1000)
        rows[benchmark] = [
            np.median(pooled, axis=1).tolist(), axes, "1", milliseconds, 600.0,
            low.tolist(), high.tolist(), low.tolist(), high.tolist(),
            [1] * len(shapes), [SAMPLES] * len(shapes), pooled.tolist(),
        ]  # fmt: skip
        for number, (model, tokens) in enumerate(shapes):
            for count in range(rounds):
                second = timedelta(seconds=(place * len(shapes) + number) * rounds + count)
                line = _line(commit, benchmark, family, entropy, model, tokens, count)
                line["run"] = f"synthetic-{index}"
                line["started_at"] = (day + timedelta(minutes=30) + second).isoformat()
                line["samples"] = samples[number, count].tolist()
                line["value"] = float(values[number, count])
                lines.append(orjson.dumps(line))
    document = {
        "commit_hash": commit, "env_name": ENVIRONMENT, "date": int(day.timestamp() * 1000),
        "params": {"machine": MACHINE, "gpu": "synthetic GPU", "torch": "2.0"}, "python": "3.12",
        "requirements": {}, "env_vars": {}, "result_columns": COLUMNS, "results": rows,
        "durations": {}, "version": 2,
    }  # fmt: skip
    (results / MACHINE / f"{commit[:8]}-{ENVIRONMENT}.json").write_bytes(orjson.dumps(document))
    name = f"{commit[:8]}-{ENVIRONMENT}-{MACHINE}.jsonl"
    (results / "rounds" / name).write_bytes(b"\n".join(lines) + b"\n")


def _line(
    commit: str, benchmark: str, family: str, entropy: str, model: str, tokens: str, count: int
) -> dict[str, Any]:
    return {
        "schema": 1, "run": "", "machine": MACHINE, "environment": ENVIRONMENT, "commit": commit,
        "benchmark": benchmark,
        "params": {"model": model.strip("'"), "tokens": int(tokens), "tp": 1}, "family": family,
        "unit": "ms", "higher_is_better": False, "version": "1", "round": count, "started_at": "",
        "status": "ok", "reason": None, "samples": [], "value": 0.0, "statistic": "median",
        "protocol": "graph-paced", "gap_ms": 20.0, "gpu": "synthetic GPU",
        "gpu_uuid": "GPU-00000000-0000-0000-0000-000000000000", "driver": "1.0", "torch": "2.0",
        "triton": "3.0", "python": "3.12", "sm_clock_mhz": 1980.0 - 15 * count,
        "power_w": 500.25, "temperature_c": 40.0 + count,
        "clock_event_reasons": [] if count else ["sw_power_cap"], "other_gpu_processes": 0,
        "m": int(tokens), "h": 4096, "v": 131072, "entropy": entropy,
        "schedule": {"tile": [128, 256, 64], "stages": 3},
        "fused_lmhead_file": "fused_lmhead/__init__.py",
    }  # fmt: skip


def _commit(index: int) -> dict[str, Any]:
    date = (EPOCH + timedelta(hours=index)).isoformat()
    return {
        "hash": commit_hash(index), "tree": hashlib.sha1(f"tree {index}".encode()).hexdigest(),
        "parents": [commit_hash(index - 1)] if index else [], "author": "synthetic author",
        "author_email": "synthetic@example.invalid", "author_date": date, "date": date,
        "subject": f"Synthetic change {index}", "tags": [],
    }  # fmt: skip
