"""A run that measured both commits in turn, beside a later one of one of them. Invented values."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from verdict_sides import side

from dashboard.check import check
from dashboard.models import Pair, Round, Series, Side, Verdict
from dashboard.store import open_store
from dashboard.store.ingest import ingest
from dashboard.verdicts import Policy, compare
from dashboard.verdicts.turns import taken_in_turn

SERIES = Series("forward.Forward.track_time", (), "h200", "py-gpu", "ms", "forward")


def of_run(run: str, values: Sequence[float], first: float, card: str = "card-1") -> Side:
    """Rounds of one run, from ``first`` minutes after START, every two."""
    made = side(values, first, card=card)
    return replace(made, rounds=tuple(replace(r, run=run) for r in made.rounds))


def measured_again(side: Side, again: Side) -> Side:
    """A commit whose value is now ``again``'s, as asv keeps one."""
    return replace(again, others=side.rounds)


TURNS = of_run("turns", [10.0, 10.02, 10.01], 0), of_run("turns", [10.3, 10.32, 10.31], 1)
LATER = of_run("later", [9.7, 9.71, 9.72], 1440, card="card-2")


@pytest.mark.parametrize("again", [0, 1])
def test_the_run_that_measured_both_is_compared(again: int) -> None:
    sides = list(TURNS)
    sides[again] = measured_again(sides[again], replace(LATER, protocol="other"))
    (found,) = compare([Pair(SERIES, *sides)], Policy())
    assert found.verdict is Verdict.REGRESSED
    (whole,) = compare([Pair(SERIES, *TURNS)], Policy())
    assert found.head == pytest.approx(10.31, rel=1e-4)
    seen, alone = ([v.base, v.head, v.low, v.high] for v in (found, whole))
    assert seen == alone
    names = ("base", "head") if again == 0 else ("head", "base")
    assert f"{names[0]} by its rounds of the run that measured {names[1]} too" in found.reason


def test_where_the_values_are_of_one_run_the_others_are_left_out() -> None:
    base, head = (replace(one, others=LATER.rounds) for one in TURNS)
    assert taken_in_turn(base, head) == (base, head, "")


def test_the_latest_of_such_runs_counts() -> None:
    newer = of_run("newer", [11.0, 11.02], 100), of_run("newer", [11.3, 11.32], 101)
    base = replace(TURNS[0], rounds=TURNS[0].rounds + newer[0].rounds)
    head = replace(LATER, others=TURNS[1].rounds + newer[1].rounds)
    before, after, _ = taken_in_turn(base, head)
    assert (before.rounds, before.value) == (newer[0].rounds, 11.01)
    assert (after.rounds, after.value) == (newer[1].rounds, 11.31)


def failed(rounds: tuple[Round, ...], count: int) -> tuple[Round, ...]:
    return tuple(replace(r, value=None) if i < count else r for i, r in enumerate(rounds))


@pytest.mark.parametrize("count", [2, 3])
def test_a_run_with_a_single_round_there_is_not_taken(count: int) -> None:
    head = replace(LATER, others=failed(TURNS[1].rounds, count))
    assert taken_in_turn(TURNS[0], head) == (TURNS[0], head, "")
    both = replace(LATER, others=failed(TURNS[1].rounds, 1))
    _, after, remark = taken_in_turn(TURNS[0], both)
    assert remark
    assert after.value == pytest.approx(10.315)


def test_runs_of_unknown_name_are_not_taken_for_one() -> None:
    base = replace(TURNS[0], rounds=tuple(replace(r, run=None) for r in TURNS[0].rounds))
    head = replace(LATER, others=tuple(replace(r, run=None) for r in TURNS[1].rounds))
    assert taken_in_turn(base, head) == (base, head, "")


def test_a_store_keeps_the_rounds_that_stand_behind_no_value(
    tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    made = make_history(tmp_path / "results", recipe(commits=2))
    base, head = (made.rounds_file(index) for index in (0, 1))
    lines = [json.loads(line) for line in base.read_text("utf-8").splitlines()]
    start = datetime.fromisoformat(
        json.loads(head.read_text("utf-8").splitlines()[0])["started_at"]
    )
    for number, line in enumerate(lines):
        # The run that measured head measured base too; what asv has of base is another's.
        line["run"], line["value"] = "synthetic-1", line["value"] * 2
        line["samples"] = [sample * 2 for sample in line["samples"]]
        line["started_at"] = (start + timedelta(seconds=5 + number)).isoformat()
    with base.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    ingest(tmp_path / "s.duckdb", made.results)
    with open_store(tmp_path / "s.duckdb") as store:
        report = check(store, Policy())
    assert {found.verdict for found in report.verdicts} == {Verdict.IMPROVED}
    assert all("base by its rounds of the run" in found.reason for found in report.verdicts)
