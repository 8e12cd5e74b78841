"""The steps of the workflows, run as a runner would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PUBLISH = ROOT / ".github" / "publish.sh"


def documents() -> dict[str, Any]:
    return {path.name: yaml.safe_load(path.read_text("utf-8")) for path in WORKFLOWS}


def step(job: str, name: str, workflow: str = "performance.yml") -> str:
    """The script of a workflow's step."""
    steps = documents()[workflow]["jobs"][job]["steps"]
    (script,) = [one["run"] for one in steps if one.get("name") == name]
    return str(script)


def run(script: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script as GitHub does, with this checkout's lmhead-perf on the path."""
    tools = folder.parent / "tools"
    tools.mkdir(exist_ok=True)
    main = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from dashboard.cli import main; main()"
    for name, arguments in (("lmhead-perf", f'-c "{main}"'), ("python", "")):
        (tools / name).write_text(f'#!/bin/sh\nexec {sys.executable} {arguments} "$@"\n')
        (tools / name).chmod(0o755)
    files = {name: str(folder.parent / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    environ = {**os.environ, **files, "GITHUB_REPOSITORY": "o/r", "HISTORY": "performance-history"}
    environ |= {"PATH": f"{tools}:{os.environ['PATH']}", **variables}
    environ.pop("LMHEAD_PERF_STORE", None)
    return subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
