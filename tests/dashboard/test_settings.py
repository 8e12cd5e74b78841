"""Which settings a command takes, from which folder, and that its reports say so."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dashboard.errors import InputError
from dashboard.settings import acknowledgements, origin_of, policy, told

DEFAULTS = "settings are the defaults: no pyproject.toml here or above has [tool.lmhead-perf]"
SETTINGS = "[tool.lmhead-perf]\nminimum_effect = 0.05\n"


@pytest.fixture
def run(lmhead_perf: Callable[..., tuple[int, str, str]]) -> Callable[..., tuple[int, str, str]]:
    """Runs `lmhead-perf` in a folder: exit code, stdout, stderr."""
    return lambda folder, *arguments: lmhead_perf(*arguments, folder=folder)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with settings, and one inside it."""
    (tmp_path / "project" / "inside").mkdir(parents=True)
    (tmp_path / "project" / "pyproject.toml").write_text(SETTINGS)
    return tmp_path / "project"


@pytest.mark.parametrize("name", ["text", "markdown", "json", "junit", "github"])
def test_every_report_says_whose_settings_it_used(
    run: Any, history_store: Path, project: Path, tmp_path: Path, name: str
) -> None:
    wishes = ("check", "--store", history_store, "--format", name)
    shown = {"pyproject.toml": project, str(project / "pyproject.toml"): project / "inside"}
    for origin, folder in shown.items():
        out = run(folder, *wishes)[1].replace("&#95;", "_")
        assert f"settings are those of {origin}" in out
    out = run(tmp_path, *wishes)[1]
    for sign in "[]:":
        out = out.replace(f"&#{ord(sign)};", sign)
    assert DEFAULTS in out


def test_tools_find_the_file_of_the_settings_in_the_report(
    run: Any, history_store: Path, project: Path, tmp_path: Path
) -> None:
    wishes = ("check", "--store", history_store, "--format", "json")
    chosen = ("--settings", "project/pyproject.toml")
    assert json.loads(run(project, *wishes)[1])["settings"] == "pyproject.toml"
    assert json.loads(run(tmp_path, *wishes)[1])["settings"] is None
    document = json.loads(run(tmp_path, *wishes, *chosen)[1])
    assert document["settings"] == "project/pyproject.toml"
    assert {series["threshold"] for series in document["series"]} == {0.05}


def test_the_history_says_it_too(run: Any, history_store: Path, project: Path) -> None:
    wishes = ("history", "--store", history_store)
    assert f"note: {DEFAULTS}" in run(project.parent, *wishes)[1]
    chosen = ("--settings", project / "pyproject.toml", "--format", "json")
    notes = json.loads(run(project.parent, *wishes, *chosen)[1])["notes"]
    assert "settings are those of project/pyproject.toml" in notes


def test_a_project_without_such_settings_leaves_those_above(project: Path) -> None:
    """As the tools do whose settings these files hold, too."""
    (project / "inside" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    found = policy(project / "inside")
    assert (found.minimum_effect, found.origin) == (0.05, project / "pyproject.toml")


def test_acknowledgements_lie_beside_the_settings_that_name_them(project: Path) -> None:
    (project / "pyproject.toml").write_text(SETTINGS + 'acknowledged = "none.toml"\n')
    for start in (project, project / "inside", project.parent):
        rules = policy(start, chosen=project / "pyproject.toml")
        with pytest.raises(InputError, match=str(project / "none.toml")):
            acknowledgements(start, rules)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "cannot read .*: No such file or directory"),
        ("[", "not valid TOML"),
        ("[tool.other]", r"has no \[tool.lmhead-perf\]"),
        ("[tool.lmhead-perf]\nx = 1", "unknown key 'x'"),
    ],
)
def test_an_error_in_chosen_settings_names_the_option_and_the_file(
    tmp_path: Path, text: str | None, problem: str
) -> None:
    file = tmp_path / "own.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InputError, match=problem) as told_of:
        policy(tmp_path, chosen=file)
    assert str(told_of.value).startswith("--settings: ")
    assert "own.toml" in str(told_of.value)


def test_defaults_name_the_option(tmp_path: Path) -> None:
    assert told(origin_of(policy(tmp_path), tmp_path)).endswith("; --settings names one elsewhere")
