"""Files that are gone, copied or moved: nothing is forgotten unasked, nothing counts twice."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dashboard.check import check
from dashboard.store import open_store, queries
from dashboard.store.ingest import IngestReport, ingest
from dashboard.store.integrity import examine
from dashboard.verdicts import Policy

FRAMES = (
    queries.series, queries.commits, queries.measurements, queries.runs, queries.exported,
)  # fmt: skip


@pytest.fixture
def own(tmp_path: Path, make_history: Callable[..., Any]) -> Any:
    """A synthetic history that the test may change."""
    return make_history(tmp_path / "results")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Where the test's store is."""
    return tmp_path / "s.duckdb"


def verdicts(store: Path) -> list[Any]:
    """What `check` says of the last two commits."""
    with open_store(store) as opened:
        return list(check(opened, Policy()).verdicts)


def assert_as_rebuilt(store: Path, results: Path) -> None:
    """The store is what a new one of the same folder is, and says so itself."""
    fresh = store.with_name("fresh.duckdb")
    ingest(fresh, results)
    with open_store(store) as opened, open_store(fresh) as rebuilt:
        assert examine(opened, results).findings == ()
        for frame in FRAMES:
            assert frame(opened).equals(frame(rebuilt)), frame.__name__
    fresh.unlink()


def problems(store: Path, results: Path) -> set[tuple[str | None, str]]:
    """What `store check` finds."""
    with open_store(store) as opened:
        return {(entry.path, entry.problem) for entry in examine(opened, results).findings}


def remove(own: Any, index: int) -> set[str]:
    """Delete a commit's files; their paths."""
    files = (own.result_file(index), own.rounds_file(index))
    for path in files:
        path.unlink()
    return {path.relative_to(own.results).as_posix() for path in files}


def test_a_removed_file_stays_until_it_is_pruned(store: Path, own: Any) -> None:
    ingest(store, own.results)
    gone = remove(own, 1)
    kept = ingest(store, own.results)
    assert (set(kept.gone), kept.pruned, kept.runs, kept.read) == (gone, (), 4, 0)
    problem = "is gone from the results folder: ingest --prune forgets it"
    assert problems(store, own.results) == {(path, problem) for path in gone}
    pruned = ingest(store, own.results, prune=True)
    assert (pruned.gone, set(pruned.pruned), pruned.runs) == ((), gone, 3)
    assert_as_rebuilt(store, own.results)
    again = ingest(store, own.results, prune=True)
    assert (again.gone, again.pruned, again.read) == ((), (), 0)


def test_what_was_pruned_is_in_the_log(store: Path, own: Any) -> None:
    ingest(store, own.results)
    gone = remove(own, 1)
    ingest(store, own.results, prune=True)
    with open_store(store) as opened:
        log = queries.ingest_log(opened)
        assert set(log[log["status"] == "pruned"]["path"]) == gone
        values = queries.replaced(opened)
    assert len(values) == 6
    assert set(values["commit"]) == {own.commits[1]}
    assert values["value"].notna().all()


def test_a_pruned_run_may_come_back(store: Path, own: Any, tmp_path: Path) -> None:
    shutil.copytree(own.results, tmp_path / "aside")
    ingest(store, own.results)
    remove(own, 1)
    ingest(store, own.results, prune=True)
    shutil.copytree(tmp_path / "aside", own.results, dirs_exist_ok=True)
    assert ingest(store, own.results).runs == 4
    assert_as_rebuilt(store, own.results)


@pytest.mark.parametrize("which", ["result_file", "rounds_file"])
def test_half_a_run_is_read_again_when_the_other_half_is_pruned(
    store: Path, own: Any, which: str
) -> None:
    ingest(store, own.results)
    getattr(own, which)(1).unlink()
    kept = ingest(store, own.results)
    assert (len(kept.gone), kept.runs) == (1, 4)
    assert {path for path, _ in problems(store, own.results)} == set(kept.gone)
    with open_store(store) as opened:
        assert set(queries.measurements(opened)["rounds"]) == {3}
    ingest(store, own.results, prune=True)
    assert_as_rebuilt(store, own.results)


def test_pruning_leaves_other_sources_alone(store: Path, own: Any, tmp_path: Path) -> None:
    twin = tmp_path / "twin"
    shutil.copytree(own.results, twin)
    ingest(store, own.results, source="first")
    changed = twin / own.result_file(1).relative_to(own.results)
    changed.write_text(changed.read_text("utf-8") + "\n", "utf-8")
    assert ingest(store, twin, source="second").runs == 5
    remove(own, 1)
    assert ingest(store, own.results, source="first", prune=True).runs == 4
    with open_store(store) as opened:
        assert own.commits[1] in queries.run_commits(opened)
    assert ingest(store, twin, source="second").read == 0


def test_a_commit_known_by_its_results_alone_goes_with_them(
    store: Path, tmp_path: Path, make_history: Any, recipe: Any
) -> None:
    own = make_history(tmp_path / "results", recipe(commits_file=False))
    ingest(store, own.results)
    remove(own, 3)
    ingest(store, own.results, prune=True)
    assert_as_rebuilt(store, own.results)


def test_a_machine_that_is_gone_goes_too(
    store: Path, own: Any, make_history: Any, recipe: Any
) -> None:
    make_history(own.results, recipe(machine="second", commits_file=False))
    ingest(store, own.results)
    shutil.rmtree(own.results / "second")
    for path in (own.results / "rounds").glob("*-second.jsonl"):
        path.unlink()
    ingest(store, own.results, prune=True)
    with open_store(store) as opened:
        assert opened.connection.execute("SELECT machine FROM machine").fetchall() == [
            ("synthetic",)
        ]
    assert_as_rebuilt(store, own.results)


def copied(own: Any, name: str) -> IngestReport:
    """Copy the machine's folder, and ingest."""
    shutil.copytree(own.results / own.machine, own.results / name)
    return ingest(own.results.parent / "s.duckdb", own.results)


@pytest.mark.parametrize("name", ["synthetic-copy", "a-copy"])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_copied_machine_folder_changes_no_verdict(
    store: Path, own: Any, tmp_path: Path, name: str, at_once: bool
) -> None:
    ingest(tmp_path / "plain.duckdb", own.results)
    if not at_once:
        ingest(store, own.results)
    report = copied(own, name)
    assert (report.runs, report.measurements) == (4, 24)
    assert sorted(report.notes) == sorted(
        (
            f"{name}/{own.result_file(index).name}",
            f"a copy of synthetic/{own.result_file(index).name}: counted once",
        )
        for index in range(4)
    )
    assert verdicts(store) == verdicts(tmp_path / "plain.duckdb")
    assert verdicts(store)[0].low is not None  # its rounds are there
    assert ingest(store, own.results).read == 0
    assert_as_rebuilt(store, own.results)


def test_a_copy_becomes_the_run_when_its_original_is_pruned(store: Path, own: Any) -> None:
    copied(own, "synthetic-copy")
    shutil.rmtree(own.results / own.machine)
    kept = ingest(store, own.results)
    assert (kept.runs, kept.read) == (4, 0)
    assert {path for path, _ in problems(store, own.results)} == set(kept.gone)
    assert verdicts(store)[0].low is not None
    pruned = ingest(store, own.results, prune=True)
    assert len(pruned.pruned) == 5
    assert pruned.measurements == 24
    assert_as_rebuilt(store, own.results)


def test_a_copy_without_rounds_gives_way_to_one_with_them(store: Path, own: Any) -> None:
    """Without rounds the first by path counts, until rounds say whose they are."""
    rounds = own.results.parent / "rounds"
    shutil.move(own.results / "rounds", rounds)
    copied(own, "a-copy")
    with open_store(store) as opened:
        assert set(queries.runs(opened)["path"].str.split("/").str[0]) == {"a-copy"}
    shutil.move(rounds, own.results / "rounds")
    assert ingest(store, own.results).runs == 4
    with open_store(store) as opened:
        assert set(queries.runs(opened)["path"].str.split("/").str[0]) == {"synthetic"}
    assert_as_rebuilt(store, own.results)


def test_a_copy_of_a_bad_file_is_bad_too(store: Path, own: Any) -> None:
    for name in ("a.json", "b.json"):
        (own.results / own.machine / name).write_text("{")
    for _ in range(2):
        report = ingest(store, own.results)
        assert {path for path, _ in report.rejected} == {"synthetic/a.json", "synthetic/b.json"}


def test_the_command_line_prunes_only_when_asked(
    own: Any, lmhead_perf: Callable[..., tuple[int, str, str]]
) -> None:
    def run(*arguments: str) -> tuple[int, str, str]:
        return lmhead_perf(*arguments, "--store", "s.duckdb")

    run("ingest", "results", "--source", "runner")
    gone = remove(own, 1)
    code, out, err = run("ingest", "results", "--source", "runner", "--json")
    assert (code, set(json.loads(out)["gone"]), json.loads(out)["pruned"]) == (0, gone, [])
    assert f"{min(gone)} and 1 more: gone from results, kept in s.duckdb" in err
    assert run("store", "check", "results")[0] == 0  # another source's
    assert run("store", "check", "results", "--source", "runner")[0] == 1
    code, out, err = run("ingest", "results", "--source", "runner", "--json", "--prune")
    assert (code, set(json.loads(out)["pruned"])) == (0, gone)
    assert all(f"forgot {path}: it is gone from results" in err for path in gone)
    assert run("store", "check", "results", "--source", "runner")[0] == 0
