"""asv results as they are in the wild: nothing is lost, nothing is guessed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dashboard
from dashboard.store import batch, open_store, queries
from dashboard.store.ingest import ingest

ROOT = Path(dashboard.__file__).parent.parent
COLUMNS = ["result", "params", "version", "started_at", "duration", "profile"]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAN = float("nan")


def write(
    results: Path,
    benchmarks: dict[str, list[Any]],
    machine: str = "m1",
    commit: str = COMMIT,
    **changes: Any,
) -> Path:
    """A synthetic results file; ``benchmarks`` are rows of `COLUMNS`."""
    path = results / machine / f"{commit[:8]}-env.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "commit_hash": commit, "env_name": "env", "date": 1_700_000_000_000,
        "params": {"machine": machine}, "python": "3.12", "requirements": {}, "env_vars": {},
        "result_columns": COLUMNS, "results": benchmarks, "durations": {}, "version": 2, **changes,
    }  # fmt: skip
    path.write_text(json.dumps(document), "utf-8")
    return path


def loaded(results: Path, store: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Measurements and series after an ingest that rejects nothing."""
    assert ingest(store, results).rejected == ()
    with open_store(store) as opened:
        return queries.measurements(opened), queries.series(opened)


def test_without_definitions_parameters_are_numbered_and_units_unknown(tmp_path: Path) -> None:
    write(tmp_path / "r", {"suite.time_it": [[0.25, 0.5], [["'a'", "None"]], "v"]})
    values, series = loaded(tmp_path / "r", tmp_path / "s.duckdb")
    assert sorted(values["value"]) == [0.25, 0.5]
    assert [row["param1"] for row in series["params"]] == ["None", "a"]
    assert series["unit"].isna().all()
    assert series[["family", "model", "tokens", "tp", "m", "h", "v"]].isna().all(axis=None)


def test_parameters_of_any_kind_keep_their_text_and_are_never_guessed(tmp_path: Path) -> None:
    odd = ["<function f>", "{'a': 1}", "(1, 2)", "1e5", "'1024'", "b'x'", "''", "'ä \"q\"'"]
    write(tmp_path / "r", {"b": [[float(i) for i in range(len(odd))], [odd]]})
    definition = {"b": {"name": "b", "param_names": ["tokens"], "unit": "seconds", "type": "time"}}
    (tmp_path / "r" / "benchmarks.json").write_text(json.dumps({**definition, "version": 2}))
    values, series = loaded(tmp_path / "r", tmp_path / "s.duckdb")
    assert len(values) == len(series) == len(odd)
    assert series["tokens"].isna().all()  # none of them is an integer
    with open_store(tmp_path / "s.duckdb") as store:
        stored = store.connection.execute("SELECT param_values FROM series").fetchall()
    assert sorted(row[0] for row in stored) == sorted([text] for text in odd)


def test_a_profile_is_noted_and_its_benchmark_read_like_others(tmp_path: Path) -> None:
    write(tmp_path / "r", {"b": [[1.5], [], "v", 1_700_000_000_000, 2.0, "eJxLTAQAASUAxA=="]})
    values, _ = loaded(tmp_path / "r", tmp_path / "s.duckdb")
    assert values["value"].tolist() == [1.5]
    with open_store(tmp_path / "s.duckdb") as store:
        rows = store.connection.execute("SELECT profiled, duration_s FROM measurement").fetchall()
    assert rows == [(True, 2.0)]


def test_the_results_name_their_machine_not_the_folder(tmp_path: Path) -> None:
    write(tmp_path / "r", {"b": [[1.0]]}, params={"machine": "real", "gpu": "synthetic"})
    machine = {"machine": "another", "ram": "1 TB", "rack": {"row": 7}, "version": 1}
    (tmp_path / "r" / "m1" / "machine.json").write_text(json.dumps(machine))
    values, series = loaded(tmp_path / "r", tmp_path / "s.duckdb")
    assert series["machine"].tolist() == ["real"]
    assert values["gpu"].tolist() == ["synthetic"]
    with open_store(tmp_path / "s.duckdb") as store:
        rows = store.connection.execute("SELECT folder, machine, fields FROM machine").fetchall()
    assert [row[:2] for row in rows] == [("m1", "another")]
    assert json.loads(rows[0][2]) == machine


def test_an_environment_may_have_a_path_in_its_name(tmp_path: Path) -> None:
    name = "existing-py_opt_python 3.12_bin_python"
    write(tmp_path / "r", {"b": [[1.0]]}, env_name=f"{name}/../x")
    _, series = loaded(tmp_path / "r", tmp_path / "s.duckdb")
    assert series["environment"].tolist() == [f"{name}/../x"]


def test_a_benchmark_of_a_new_version_stays_one_series_that_says_so(tmp_path: Path) -> None:
    write(tmp_path / "r", {"b": [[1.0], [], "1"]})
    later = "f" * 40
    write(tmp_path / "r", {"b": [[2.0], [], "2"]}, commit=later, date=1_700_000_100_000)
    values, series = loaded(tmp_path / "r", tmp_path / "s.duckdb")
    assert len(series) == 1
    assert dict(zip(values["commit"], values["version"], strict=True)) == {COMMIT: "1", later: "2"}


@pytest.mark.parametrize(
    "size", [150, pytest.param(1100, marks=pytest.mark.slow)], ids=["22500", "1210000"]
)
def test_very_many_combinations_of_which_few_were_measured(tmp_path: Path, size: int) -> None:
    axis = [str(index) for index in range(size)]
    results: list[float | None] = [NAN] * size**2
    results[7], results[-1] = 0.5, None
    write(tmp_path / "r", {"b": [results, [axis, axis], "v"]})
    report = ingest(tmp_path / "s.duckdb", tmp_path / "r")
    assert (report.rejected, report.measurements) == ((), size**2)
    with open_store(tmp_path / "s.duckdb") as store:
        counts = store.connection.execute(
            "SELECT status, count(*), max(value) FROM measurement GROUP BY status ORDER BY status"
        ).fetchall()
    assert counts == [("failed", 1, None), ("ok", 1, 0.5), ("skipped", size**2 - 2, None)]


def test_how_files_are_batched_makes_no_difference(
    tmp_path: Path, make_history: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    history = make_history(tmp_path / "results")
    ingest(tmp_path / "one.duckdb", history.results)
    monkeypatch.setattr(batch, "_GROUPS", 1)
    told: list[tuple[int, int]] = []
    ingest(tmp_path / "many.duckdb", history.results, progress=lambda *a: told.append(a))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    with open_store(tmp_path / "one.duckdb") as one, open_store(tmp_path / "many.duckdb") as many:
        assert queries.contents(one) == queries.contents(many)
        assert queries.series(one).equals(queries.series(many))


def test_one_more_commit_loads_neither_pandas_nor_scipy(
    tmp_path: Path, make_history: Callable[..., Any]
) -> None:
    """They take longer to load than one more commit takes to ingest."""
    history = make_history(tmp_path / "results")
    hidden = {history.result_file(3): tmp_path / "r", history.rounds_file(3): tmp_path / "l"}
    for path, aside in hidden.items():
        path.rename(aside)
    ingest(tmp_path / "s.duckdb", history.results)
    for path, aside in hidden.items():
        aside.rename(path)
    program = (
        "import sys\nfrom pathlib import Path\nfrom dashboard.store.ingest import ingest\n"
        "report = ingest(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "print(report.read, {'pandas', 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "s.duckdb", history.results],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("2 set()\n", "")
