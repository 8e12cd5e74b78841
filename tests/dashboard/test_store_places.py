"""A folder that is no results folder is told, before and after. All numbers are synthetic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dashboard.errors import InputError
from dashboard.store import open_store
from dashboard.store.ingest import ingest
from dashboard.store.integrity import examine


@pytest.fixture
def own(tmp_path: Path, make_history: Callable[..., Any]) -> Any:
    """A synthetic history that the test may change."""
    return make_history(tmp_path / "suite" / "results")


def test_a_store_of_a_folder_around_the_results_says_what_names_its_series(
    tmp_path: Path, own: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As earlier versions made it, which took any folder."""
    store = tmp_path / "s.duckdb"
    monkeypatch.setattr("dashboard.store.discover._refuse_wrong_folder", lambda *given: None)
    ingest(store, own.results.parent)
    with open_store(store) as opened:
        (found,) = examine(opened, None).findings
    assert "parameters have no names: ingest the results folder itself" in found.problem


@pytest.mark.parametrize("inside", ["..", "../..", "synthetic"])
def test_a_folder_that_is_no_results_folder_names_the_one_that_is(
    tmp_path: Path, own: Any, inside: str
) -> None:
    folder = (own.results / inside).resolve()
    with pytest.raises(InputError) as told:
        ingest(tmp_path / "s.duckdb", folder)
    assert str(folder) in str(told.value)
    assert f"{own.results}" in str(told.value).replace(f"{own.results}/synthetic", "", 1)
    assert str(told.value).endswith("ingest that")
    assert not (tmp_path / "s.duckdb").exists()


def test_several_results_folders_in_one_are_counted(
    tmp_path: Path, own: Any, make_history: Callable[..., Any], recipe: Any
) -> None:
    make_history(tmp_path / "suite" / "second", recipe(seed=1))
    with pytest.raises(InputError, match=r"suite/results \(and 1 more\) in it is: ingest that"):
        ingest(tmp_path / "s.duckdb", tmp_path / "suite")


def test_machine_folders_that_lost_their_definitions_are_read_and_told(
    tmp_path: Path, own: Any
) -> None:
    (own.results / "benchmarks.json").unlink()
    report = ingest(tmp_path / "s.duckdb", own.results)
    ((path, note),) = report.notes
    assert (path, report.runs) == ("benchmarks.json", 4)
    assert note.startswith("is not there: parameters and units have names only where")
