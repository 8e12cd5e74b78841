"""Synthetic histories: a repository that is nothing but one, with synthetic rounds."""

from __future__ import annotations

import ast
import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from asv_benchmarks.place import Place
from asv_benchmarks.sweep_plan import Series
from asv_benchmarks.versions import version_of

GPU = "checkout-py3.12-gpu"
ON_H200 = ("--environment", GPU, "--machine", "h200")
KERNEL = "fused_lmhead/kernels/forward.py"


@dataclass
class History:
    """A repository that is nothing but a history, and its results."""

    folder: Path
    commits: dict[str, str] = field(default_factory=dict)
    """Hashes by subject."""

    def git(self, *arguments: str) -> str:
        """Run git in the repository."""
        identity = ("-c", "user.name=Toy", "-c", "user.email=toy@example.org")
        command = ["git", "-C", str(self.folder), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def note(self, subject: str) -> str:
        """Remember HEAD by its subject."""
        self.commits[subject] = self.git("rev-parse", "HEAD")
        return self.commits[subject]

    def commit(self, subject: str, files: Mapping[str, str | None] | None = None) -> str:
        """Commit what the files are to hold, and all other changes; None takes a file away."""
        for name, text in (files or {}).items():
            path = self.folder / name
            if text is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", subject)
        return self.note(subject)

    def measure(
        self,
        commit: str,
        series: Iterable[Series],
        status: str = "ok",
        version: str | None = None,
        environment: str = GPU,
        machine: str = "h200",
    ) -> None:
        """Synthetic rounds, one of each series."""
        place = Place(self.folder / "results", commit, environment, machine)
        place.rounds.parent.mkdir(parents=True, exist_ok=True)
        described = place.results / machine / "machine.json"
        described.parent.mkdir(exist_ok=True)
        described.write_text("{}")
        with place.rounds.open("a") as file:
            for benchmark, params in series:
                values = dict(enumerate(ast.literal_eval(f"({params},)")))
                known = {"version": version or version_of(benchmark), "status": status}
                record = {"commit": commit, "benchmark": benchmark, "params": values, **known}
                file.write(json.dumps(record) + "\n")


def begun(folder: Path) -> History:
    """A repository with the root commit's kernel, of which nothing is measured."""
    made = History(folder)
    made.folder.mkdir()
    made.git("init", "-q", "-b", "main")
    conf = {"version": 1, "project": "toy", "repo": ".", "results_dir": "results"}
    (made.folder / ".gitignore").write_text("results/\n")
    root: dict[str, str | None] = {
        "asv.conf.json": json.dumps(conf),
        KERNEL: "def f(a):\n    a()\n",
    }
    made.commit("root", root)
    made.measure("0" * 40, [])
    return made
