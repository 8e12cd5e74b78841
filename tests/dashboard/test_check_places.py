"""Base and head have a machine and environment in common, where there are several in a store.

The histories are synthetic, see conftest: a GPU machine that measured four commits, and a
laptop with a CPU environment that measured some of these and of the two that follow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dashboard.check import check
from dashboard.cli import app
from dashboard.errors import InputError
from dashboard.headlines import headlines
from dashboard.models import CheckReport
from dashboard.store import open_store
from dashboard.store.ingest import ingest
from dashboard.verdicts import Policy

HASHES = tuple(hashlib.sha1(f"place {n}".encode()).hexdigest() for n in range(6))
LAPTOP = "laptop (synthetic-py3.12-cpu)"
GPU = "synthetic (synthetic-py3.12-gpu)"

Store = Callable[[Sequence[int]], Path]


@pytest.fixture
def store(tmp_path: Path, make_history: Callable[..., Any], recipe: Any) -> Store:
    """Makes a store in which the laptop measured the commits of these indices."""

    def make(measured: Sequence[int]) -> Path:
        gpu = make_history(tmp_path / "gpu", recipe(hashes=HASHES[:4]))
        environment = "synthetic-py3.12-cpu"
        laptop = make_history(
            tmp_path / "laptop", recipe(hashes=HASHES, machine="laptop", environment=environment)
        )
        for index in set(range(6)) - set(measured):
            laptop.result_file(index).unlink()
            laptop.rounds_file(index).unlink()
        for made in (gpu, laptop):
            ingest(tmp_path / "s.duckdb", made.results)
        return tmp_path / "s.duckdb"

    return make


def run(path: Path, **wishes: Any) -> CheckReport:
    with open_store(path) as opened:
        return check(opened, Policy(), **wishes)


def chosen(report: CheckReport) -> tuple[int, int]:
    return HASHES.index(report.base.hash), HASHES.index(report.head.hash)


def machines(report: CheckReport) -> set[str]:
    return {v.series.machine for v in report.verdicts}


def test_two_commits_of_a_laptop_beside_the_history_of_a_gpu(store: Store) -> None:
    report = run(store([4, 5]))
    assert chosen(report) == (4, 5)
    assert machines(report) == {"laptop"}
    assert report.notes == (f"base is {HASHES[4][:8]}, the nearest measured ancestor of head",)


def test_a_nearer_ancestor_of_another_machine_is_passed_over_and_named(store: Store) -> None:
    report = run(store([1, 5]))
    assert chosen(report) == (1, 5)
    assert machines(report) == {"laptop"}
    assert report.notes[0] == (
        f"base is {HASHES[1][:8]}, the nearest measured ancestor of head that was measured on "
        f"{LAPTOP} as head was; {HASHES[3][:8]} was not"
    )


def test_a_newest_commit_with_nothing_to_compare_it_with_is_passed_over(store: Store) -> None:
    report = run(store([5]))
    assert chosen(report) == (2, 3)
    assert machines(report) == {"synthetic"}
    assert report.notes[0] == (
        f"head is {HASHES[3][:8]}: no commit before the newest, {HASHES[5][:8]}, was measured "
        f"on {LAPTOP}"
    )


def test_a_named_head_stays_and_says_what_is_lacking(store: Store) -> None:
    with pytest.raises(InputError, match=r"to compare with on laptop \(synthetic-py3.12-cpu\)"):
        run(store([5]), head=HASHES[5])


def test_a_named_base_gets_the_newest_head_of_its_machine(store: Store) -> None:
    path = store([4, 5])
    report = run(path, base=HASHES[1])
    assert chosen(report) == (1, 3)
    assert report.notes == (f"head is {HASHES[3][:8]}, the newest commit measured on {GPU}",)
    assert chosen(run(path, base=HASHES[4])) == (4, 5)
    with pytest.raises(InputError, match="no measured commit after base"):
        run(path, base=HASHES[5])


def test_commits_of_different_machines_are_refused_by_name(store: Store) -> None:
    with pytest.raises(InputError, match="never measured on the same machine and environment"):
        run(store([4, 5]), base=HASHES[3], head=HASHES[4])


def test_a_machine_of_choice_decides_alone(store: Store) -> None:
    path = store([0, 5])
    assert chosen(run(path, machine="laptop")) == (0, 5)
    assert chosen(run(path, machine="synthetic")) == (2, 3)


def test_a_commit_against_itself_is_refused(store: Store) -> None:
    path = store([4, 5])
    for head in (HASHES[3], HASHES[3][:8]):
        arguments = ["check", "--store", str(path), "--base", HASHES[3], "--head", head]
        found = CliRunner().invoke(app, arguments)
        assert isinstance(found.exception, InputError)
        assert str(found.exception).startswith(f"base and head are one commit, {HASHES[3][:8]}")
        assert found.stdout == ""


@pytest.mark.parametrize("name", ["--base", "--head"])
@pytest.mark.parametrize("digits", [40, 7])
def test_a_commit_of_another_machine_is_not_called_unmeasured(
    store: Store, name: str, digits: int
) -> None:
    wishes = (name, HASHES[2][:digits], "--machine", "laptop", "--store", str(store((0, 4, 5))))
    done = CliRunner().invoke(app, ["check", *wishes])
    assert isinstance(done.exception, InputError)
    told = str(done.exception)
    assert HASHES[2][:7] in told
    assert "has no results of machine 'laptop', but of synthetic: name one with --machine" in told
    assert "measure and ingest it first" not in told


def test_the_history_names_the_machine_too(store: Store) -> None:
    wishes = ("--head", HASHES[2], "--machine", "laptop", "--store", str(store((0, 4))))
    done = CliRunner().invoke(app, ["history", *wishes])
    assert "has no results of machine 'laptop', but of synthetic" in str(done.exception)


def test_a_machine_without_any_results_is_told_with_those_that_have_some(store: Store) -> None:
    path = store((0, 4))
    with pytest.raises(InputError, match="on machine 'nobody', but on laptop, synthetic"):
        run(path, machine="nobody")
    with pytest.raises(InputError, match="has no results in the store: measure and ingest it"):
        run(path, head=HASHES[5], machine="laptop")


@pytest.mark.parametrize(
    ("measured", "commit", "machine"),
    [((0, 4, 5), 2, "synthetic"), ((4, 5), 5, "laptop"), ((0, 5), 0, "laptop")],
)
def test_headlines_are_of_the_machine_that_has_the_commit(
    store: Store, measured: Sequence[int], commit: int, machine: str
) -> None:
    """The laptop was the last to measure anything: of what both have, its results are meant."""
    with open_store(store(measured)) as opened:
        found = headlines(opened, commit=HASHES[commit][:7])
        assert (found.commit.hash, found.machine) == (HASHES[commit], machine)
        with pytest.raises(InputError, match="machine 'laptop', but of synthetic"):
            headlines(opened, commit=HASHES[1], machine="laptop")


def test_headlines_of_a_commit_of_several_machines_ask_for_one(
    store: Store, tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    path = store((0, 4))
    third = make_history(tmp_path / "third", recipe(commits=40, seed=3, machine="third"))
    ingest(path, third.results)
    with (
        open_store(path) as opened,
        pytest.raises(InputError, match="was measured on laptop, synthetic: name one"),
    ):
        headlines(opened, commit=HASHES[0])
