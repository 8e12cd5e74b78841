"""A synthetic history: files of the suite's shape with invented numbers, for tests only.

Nothing here was measured. The machine is called ``synthetic``, and so is every commit's
author, so that these numbers cannot be taken for real ones.
"""

from __future__ import annotations

import hashlib
import json
import random
import statistics
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from app_pages import script
from app_stores import foreign_store, open_page, store_of, two_machines
from command_line import lmhead_perf

__all__ = [  # fixtures for all
    "foreign_store",
    "lmhead_perf",
    "open_page",
    "store_of",
    "two_machines",
]

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
FAMILIES = {
    "forward.Forward.track_time": ("forward", "off"),
    "entropy.ForwardEntropy.track_time": ("forward_entropy", "metric"),
    "control.Control.track_time": ("control", "off"),
}
SHAPES = {  # model -> hidden, vocabulary, milliseconds of its series
    "nemotron-super": (4096, 131072, 13.0),
    "qwen3.6-35b": (2048, 248320, 12.5),
}
TOKENS = 8192
SAMPLES = 6


@dataclass(frozen=True)
class SyntheticHistory:
    """A results folder and the commits in it, first to last."""

    results: Path
    commits: tuple[str, ...]
    machine: str
    environment: str

    def result_file(self, index: int) -> Path:
        """asv's file of one commit."""
        return self.results / self.machine / f"{self.commits[index][:8]}-{self.environment}.json"

    def rounds_file(self, index: int) -> Path:
        """The rounds beside it."""
        name = f"{self.commits[index][:8]}-{self.environment}-{self.machine}.jsonl"
        return self.results / "rounds" / name

    def rounds(self, index: int) -> list[dict[str, Any]]:
        """The lines of that file."""
        return [
            json.loads(line) for line in self.rounds_file(index).read_text("utf-8").splitlines()
        ]

    def write_rounds(self, index: int, lines: Iterable[dict[str, Any]]) -> None:
        """Other lines for that file."""
        text = "".join(json.dumps(line) + "\n" for line in lines)
        self.rounds_file(index).write_text(text, "utf-8")

    def measured_by(self, index: int, run: str) -> None:
        """Say that this invocation of asv took the rounds of a commit."""
        self.write_rounds(index, [line | {"run": run} for line in self.rounds(index)])

    def keep_only(self, index: int, benchmarks: Collection[str]) -> None:
        """As if asv had been asked for these benchmarks of a commit alone."""
        self.write_rounds(index, [r for r in self.rounds(index) if r["benchmark"] in benchmarks])
        path = self.result_file(index)
        document = json.loads(path.read_text("utf-8"))
        document["results"] = {n: v for n, v in document["results"].items() if n in benchmarks}
        _write_json(path, document)


@dataclass(frozen=True)
class Recipe:
    """What to invent. ``factors`` multiplies a benchmark's time from a commit on; ``outcomes``
    makes a benchmark ``failed`` or ``skipped`` at a commit. ``noise`` is one round's sigma."""

    commits: int = 4
    rounds: int = 3
    noise: float = 0.001
    machine: str = "synthetic"
    environment: str = "synthetic-py3.12-gpu"
    seed: int = 0
    factors: Mapping[tuple[str, int], float] = field(default_factory=dict)
    outcomes: Mapping[tuple[str, int], str] = field(default_factory=dict)
    hashes: tuple[str, ...] = ()
    commits_file: bool = True


def write_history(results: Path, recipe: Recipe | None = None) -> SyntheticHistory:
    """Write the files of a synthetic history; the same recipe gives the same bytes."""
    recipe = recipe or Recipe()
    chance = random.Random(recipe.seed)
    hashes = recipe.hashes or tuple(
        hashlib.sha1(f"synthetic {recipe.seed} {index}".encode()).hexdigest()
        for index in range(recipe.commits)
    )
    history = SyntheticHistory(results, hashes, recipe.machine, recipe.environment)
    (results / "rounds").mkdir(parents=True, exist_ok=True)
    (results / recipe.machine).mkdir(exist_ok=True)
    _write_json(results / "benchmarks.json", _definitions())
    machine = {"machine": recipe.machine, "gpu": "synthetic GPU", "driver": "1.0", "version": 1}
    _write_json(results / recipe.machine / "machine.json", machine)
    for index in range(len(hashes)):
        _write_commit(history, recipe, index, chance)
    if recipe.commits_file:
        lines = [_commit_line(hashes, index) for index in range(len(hashes))]
        (results / "commits.jsonl").write_text("".join(lines), "utf-8")
    return history


def _definitions() -> dict[str, Any]:
    entries: dict[str, Any] = {
        name: {
            "name": name,
            "param_names": ["model", "tokens", "tp"],
            "params": [[repr(model) for model in SHAPES], [str(TOKENS)], ["1"]],
            "type": "track",
            "unit": "ms",
            "version": "1",
        }
        for name in FAMILIES
    }
    return {**entries, "version": 2}


def _write_commit(
    history: SyntheticHistory, recipe: Recipe, index: int, chance: random.Random
) -> None:
    rows: dict[str, Any] = {}
    lines: list[dict[str, Any]] = []
    started = EPOCH + timedelta(days=index, hours=1)
    for benchmark in FAMILIES:
        outcome = recipe.outcomes.get((benchmark, index), "ok")
        pooled, values = [], []
        for model in SHAPES:
            rounds = [
                _round(history, recipe, index, benchmark, model, number, outcome, chance)
                for number in range(recipe.rounds)
            ]
            lines += rounds
            samples = [sample for line in rounds for sample in line["samples"]]
            pooled.append(samples or None)
            missing = float("nan") if outcome == "skipped" else None
            values.append(statistics.median(samples) if samples else missing)
        params = [[repr(model) for model in SHAPES], [str(TOKENS)], ["1"]]
        milliseconds = int(started.timestamp() * 1000)
        if outcome == "failed":
            rows[benchmark] = [None, params, "1", milliseconds, 1.5]
        else:
            ends = [None if s is None else (min(s), max(s)) for s in pooled]
            low, high = ([e and e[side] for e in ends] for side in (0, 1))
            rows[benchmark] = [
                values, params, "1", milliseconds, 1.5, low, high, low, high,
                [1] * len(values), [SAMPLES] * len(values), pooled,
            ]  # fmt: skip
    document = {
        "commit_hash": history.commits[index],
        "env_name": history.environment,
        "date": int((EPOCH + timedelta(days=index)).timestamp() * 1000),
        "params": {"machine": history.machine, "gpu": "synthetic GPU", "torch": "2.0"},
        "python": "3.12",
        "requirements": {},
        "env_vars": {},
        "result_columns": [
            "result", "params", "version", "started_at", "duration", "stats_ci_99_a",
            "stats_ci_99_b", "stats_q_25", "stats_q_75", "stats_number", "stats_repeat",
            "samples", "profile",
        ],
        "results": rows,
        "durations": {},
        "version": 2,
    }  # fmt: skip
    _write_json(history.result_file(index), document)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    history.rounds_file(index).write_text(text, "utf-8")


def _round(
    history: SyntheticHistory,
    recipe: Recipe,
    index: int,
    benchmark: str,
    model: str,
    number: int,
    outcome: str,
    chance: random.Random,
) -> dict[str, Any]:
    family, entropy = FAMILIES[benchmark]
    hidden, vocabulary, milliseconds = SHAPES[model]
    for (name, start), factor in recipe.factors.items():
        if name == benchmark and index >= start:
            milliseconds *= factor
    level = milliseconds * chance.gauss(1, recipe.noise)
    samples = [level * chance.gauss(1, recipe.noise / 2) for _ in range(SAMPLES)]
    started = EPOCH + timedelta(days=index, hours=1, seconds=10 * number)
    is_ok = outcome == "ok"
    return {
        "schema": 1,
        "run": f"synthetic-{index}",
        "machine": history.machine,
        "environment": history.environment,
        "commit": history.commits[index],
        "benchmark": benchmark,
        "params": {"model": model, "tokens": TOKENS, "tp": 1},
        "family": family,
        "unit": "ms",
        "higher_is_better": False,
        "version": "1",
        "round": number,
        "started_at": started.isoformat(),
        "status": outcome,
        "reason": None if is_ok else f"synthetic: {outcome}",
        "samples": samples if is_ok else [],
        "value": statistics.median(samples) if is_ok else None,
        "statistic": "median",
        "protocol": "graph-paced",
        "gap_ms": 20.0,
        "gpu": "synthetic GPU",
        "gpu_uuid": "GPU-synthetic",
        "driver": "1.0",
        "torch": "2.0",
        "triton": "3.0",
        "python": "3.12",
        "sm_clock_mhz": 1980.0,
        "power_w": 500.0,
        "temperature_c": 40.0 + number,
        "clock_event_reasons": ["sw_power_cap"] if number == 0 else [],
        "m": TOKENS,
        "h": hidden,
        "v": vocabulary,
        "entropy": entropy,
        "schedule": {"tile": [128, 256, 64], "stages": 3},
        "fused_lmhead_file": "fused_lmhead/__init__.py",
    }


def _commit_line(hashes: tuple[str, ...], index: int) -> str:
    day = (EPOCH + timedelta(days=index)).isoformat()
    line = {
        "hash": hashes[index],
        "tree": hashlib.sha1(f"tree of {hashes[index]}".encode()).hexdigest(),
        "parents": [hashes[index - 1]] if index else [],
        "author": "synthetic author",
        "author_email": "synthetic@example.invalid",
        "author_date": day,
        "date": day,
        "subject": f"Synthetic change {index}",
        "tags": ["v0.1"] if index == 0 else [],
    }
    return json.dumps(line) + "\n"


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document), "utf-8")


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of the tests' own, not the user's."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="session")
def recipe() -> type[Recipe]:
    """What `make_history` can be asked for."""
    return Recipe


@pytest.fixture(scope="session")
def make_history() -> Callable[..., SyntheticHistory]:
    """`write_history`: writes a synthetic results folder."""
    return write_history


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> SyntheticHistory:
    """A default synthetic history; not to be changed by a test."""
    return write_history(tmp_path_factory.mktemp("synthetic") / "results")


@pytest.fixture(scope="session")
def rich() -> ModuleType:
    """``rich_store.py``, a script beside this file."""
    return script("rich_store")


@pytest.fixture(scope="session")
def rich_store(rich: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A synthetic store with everything that the pages show; not to be changed by a test."""
    path: Path = tmp_path_factory.mktemp("rich") / "rich.duckdb"
    rich.write_rich_store(path)
    return path


@pytest.fixture(scope="session")
def history_store(tmp_path_factory: pytest.TempPathFactory, history: SyntheticHistory) -> Path:
    """A store of the default synthetic history; not to be changed by a test."""
    from dashboard.store.ingest import ingest

    path = tmp_path_factory.mktemp("store") / "history.duckdb"
    ingest(path, history.results)
    return path
