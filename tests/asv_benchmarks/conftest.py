"""A toy repository that asv measures with this suite's frame and plugin.

Its commits are synthetic: ``fused_lmhead`` sleeps for a known time, and the
suite is the real one with its torch families replaced by one that calls it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What the frame and the plugin are made of; the families would import torch.
FRAME = (
    *("__init__", "asv_hooks", "calls", "checkout", "commits", "conditions", "device"),
    *("environment", "frame", "handover", "harness", "lock", "merge", "nominal", "place"),
    *("planted", "records", "recover", "server", "sweep", "sweep_plan", "tiers", "timing"),
    *("versions", "watchdog", "workloads"),
)

FAMILY = """
from asv_benchmarks.harness import Family


class Toy(Family):
    family = "forward"
    rounds = 2
    timeout = 20.0

    def prepare(self, fused_lmhead, workload, device):
        if not hasattr(fused_lmhead, "work"):
            raise NotImplementedError("this commit has no work")
        return fused_lmhead.work
"""


@dataclass
class ToyRepository:
    """The repository's folder, its commits oldest first, and asv to run in it."""

    folder: Path
    home: Path
    commits: list[str] = field(default_factory=list)

    def git(self, *arguments: str) -> str:
        """Run git in the repository."""
        identity = ("-c", "user.name=Toy", "-c", "user.email=toy@example.org")
        command = ["git", "-C", str(self.folder), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, source: str | None, subject: str) -> str:
        """Commit ``source`` as the package, or a tree without it."""
        package = self.folder / "fused_lmhead"
        shutil.rmtree(package, ignore_errors=True)
        if source is not None:
            package.mkdir()
            (package / "__init__.py").write_text(source)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", subject)
        self.commits.append(self.git("rev-parse", "HEAD"))
        return self.commits[-1]

    def rename(self, module: str, name: str) -> None:
        """Call the toy benchmark ``module.name``, as one that a tier knows."""
        toy = self.folder / "asv_benchmarks" / "toy.py"
        toy.with_name(f"{module}.py").write_text(toy.read_text().replace("Toy", name))
        toy.unlink()

    def sleeping(self, milliseconds: float, subject: str) -> str:
        """Commit a package whose work takes about ``milliseconds``."""
        source = f"import time\n\n\ndef work():\n    time.sleep({milliseconds / 1000})\n"
        return self.commit(source, subject)

    def asv(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run asv there, without a GPU and without this process's path."""
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("ASV", "LMHEAD"))}
        environ.pop("PYTHONPATH", None)
        environ |= {"HOME": str(self.home), "CUDA_VISIBLE_DEVICES": "", **variables}
        return subprocess.run(
            [sys.executable, "-m", "asv", *arguments],
            cwd=self.folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    @property
    def results(self) -> Path:
        """The results folder."""
        return self.folder / "asv_benchmarks" / "results"

    def result(self, commit: str) -> dict[str, Any]:
        """asv's stored columns of the toy benchmark, for the smoke workload."""
        (path,) = self.results.glob(f"toy-machine/{commit[:8]}-checkout-py*-cpu.json")
        stored = json.loads(path.read_text())
        row = dict(
            zip(stored["result_columns"], stored["results"]["toy.Toy.track_time"], strict=False)
        )
        models, tokens, tps = row["params"]
        index = (models.index("'smoke'") * len(tokens) + tokens.index("2048")) * len(tps)
        index += tps.index("1")
        picked = {key: row[key][index] for key in ("result", "samples") if row.get(key)}
        return {**picked, "machine": stored["params"], "environment": stored["env_name"]}

    def rounds(self, commit: str) -> list[dict[str, Any]]:
        """The lines that the benchmark processes left."""
        paths = list(self.results.glob(f"rounds/{commit[:8]}-*.jsonl"))
        return [json.loads(line) for path in paths for line in path.read_text().splitlines()]

    def pooled(self, commit: str) -> list[float]:
        """The rounds' samples in order: what asv is to have stored."""
        return [sample for line in self.rounds(commit) for sample in line["samples"]]


@pytest.fixture
def toy(tmp_path: Path) -> ToyRepository:
    """A repository with the suite and no commit yet."""
    repository = ToyRepository(tmp_path / "toy", tmp_path / "home")
    suite = repository.folder / "asv_benchmarks"
    suite.mkdir(parents=True)
    for name in FRAME:
        shutil.copy(ROOT / "asv_benchmarks" / f"{name}.py", suite)
    (suite / "toy.py").write_text(FAMILY)
    shutil.copy(ROOT / "asv.conf.json", repository.folder)
    (repository.folder / ".gitignore").write_text(".asv/\n__pycache__/\nasv_benchmarks/results/\n")
    repository.home.mkdir()
    machine = {"machine": "toy-machine", "os": "", "arch": "", "cpu": "", "num_cpu": "", "ram": ""}
    (repository.home / ".asv-machine.json").write_text(
        json.dumps({"toy-machine": machine, "version": 1})
    )
    repository.git("init", "-q", "-b", "main")
    return repository


@pytest.fixture
def handed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Path]:
    """Set the variables of a benchmark process; returns its results folder."""
    from asv_benchmarks.handover import Handover

    def set_variables(**changes: Any) -> Path:
        results = tmp_path / "results"
        values: dict[str, Any] = {
            "run": "run-1",
            "machine": "m",
            "environment": "checkout-py3.12-cpu",
            "commit": "c" * 40,
            "checkout": tmp_path / "checkout",
            "device": "cpu",
            "results": results,
        }
        monkeypatch.delenv("ASV_COMMIT", raising=False)
        for name, value in Handover(**(values | changes)).to_environ().items():
            monkeypatch.setenv(name, value)
        return results

    return set_variables


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A synthetic checkout at the commit of forty c whose package has a name of its own."""
    from asv_benchmarks import checkout

    root = tmp_path / "checkout"
    package = root / "toy_lmhead"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("def work():\n    return ()\n")
    (root / ".git").mkdir()
    (root / ".git" / "HEAD").write_text("c" * 40 + "\n")
    monkeypatch.setattr(checkout, "PACKAGE", "toy_lmhead")
    monkeypatch.syspath_prepend(str(root))
    yield root
    sys.modules.pop("toy_lmhead", None)
    sys.modules.pop("toy_lmhead.late", None)
