"""A run that measured both commits in turn, beside a later one of one of them. Invented values."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from math import nan
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from verdict_sides import side

from dashboard.acknowledged import Acknowledgements
from dashboard.check import check
from dashboard.context import context_of
from dashboard.models import CheckReport, Pair, Round, Series, SeriesVerdict, Side, Status, Verdict
from dashboard.store import open_store, queries
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


KNOWN = {
    **{"version": "1", "gpu": "H200", "driver": "580", "torch": "2.11", "triton": "3.6"},
    **{"statistic": "median", "protocol": "graph-paced"},
}
LATELY = {
    **{"version": "2", "gpu": "H300", "driver": "600", "torch": "2.12", "triton": "3.7"},
    **{"statistic": "minimum", "protocol": "graph-bursts"},
}


def turns(run: str = "turns", first: float = 0, level: float = 10.0) -> tuple[Side, Side]:
    """A run of both commits, head 3 % slower."""
    values = [level, level + 0.02, level + 0.01]
    both = of_run(run, values, first), of_run(run, [1.03 * v for v in values], first + 1)
    return replace(both[0], **KNOWN), replace(both[1], **KNOWN)


TURNS = turns()
LATER = replace(of_run("later", [9.7, 9.71, 9.72], 1440, card="card-2"), **LATELY)


def numbers(found: SeriesVerdict) -> list[float | None]:
    return [found.base, found.head, found.low, found.high]


@pytest.mark.parametrize("again", [0, 1])
@pytest.mark.parametrize("name", list(KNOWN))
def test_the_run_that_measured_both_is_compared(again: int, name: str) -> None:
    sides = list(TURNS)
    later = replace(LATER, **{**KNOWN, name: LATELY[name]})
    sides[again] = measured_again(sides[again], later)
    (found,) = compare([Pair(SERIES, *sides)], Policy())
    (whole,) = compare([Pair(SERIES, *TURNS)], Policy())
    assert found.verdict is Verdict.REGRESSED
    assert numbers(found) == numbers(whole)
    assert (found.run, whole.run) == ("turns", None)
    names = ("base", "head") if again == 0 else ("head", "base")
    assert f"{names[0]} by its rounds of the run that measured {names[1]} too" in found.reason


def test_where_the_values_are_of_one_run_the_others_are_left_out() -> None:
    base, head = (replace(one, others=LATER.rounds) for one in TURNS)
    assert taken_in_turn(base, head) is None


def test_the_latest_of_such_runs_counts() -> None:
    newer = turns("newer", first=100, level=11.0)
    base = replace(TURNS[0], rounds=TURNS[0].rounds + newer[0].rounds)
    head = replace(LATER, others=TURNS[1].rounds + newer[1].rounds)
    found = taken_in_turn(base, head)
    assert found is not None
    assert (found.base.rounds, found.base.value) == (newer[0].rounds, 11.01)
    assert (found.head.rounds, found.head.value) == (newer[1].rounds, newer[1].value)
    assert found.run == "newer"


def test_rounds_that_were_read_twice_count_once() -> None:
    head = replace(LATER, others=TURNS[1].rounds * 3 + LATER.rounds)
    found = taken_in_turn(TURNS[0], head)
    assert found is not None
    assert found.head.rounds == TURNS[1].rounds
    # Nor is a round of the one commit that lies beside the other's taken for the other's.
    assert taken_in_turn(TURNS[0], replace(LATER, others=TURNS[0].rounds)) is None


def test_both_remarks_are_told() -> None:
    # One side valued by the least of its samples, the other by the middle one.
    base = replace(TURNS[0], rounds=sampled(TURNS[0].rounds, (1.0, 1.2, 1.3)))
    head = replace(TURNS[1], rounds=sampled(TURNS[1].rounds, (0.9, 1.0, 1.2)))
    (found,) = compare([Pair(SERIES, base, measured_again(head, LATER))], Policy())
    assert "compared by the minimum" in found.reason
    assert "of the run that measured base too" in found.reason


def sampled(rounds: tuple[Round, ...], factors: Sequence[float]) -> tuple[Round, ...]:
    """The rounds with other samples of the same value."""
    return tuple(replace(r, samples=tuple((r.value or 0) * f for f in factors)) for r in rounds)


@pytest.mark.parametrize("lost", [{"value": None}, {"value": nan}, {"status": Status.FAILED}])
def test_a_run_with_a_single_round_there_is_not_taken(lost: dict[str, Any]) -> None:
    first, second, third = TURNS[1].rounds
    broken = replace(first, **lost), replace(second, **lost)
    assert taken_in_turn(TURNS[0], replace(LATER, others=(*broken, third))) is None
    failed = replace(LATER, status=Status.FAILED, others=(broken[0], second, third))
    found = taken_in_turn(TURNS[0], failed)
    assert found is not None
    assert found.head.value == median([second.value, third.value])
    assert found.head.status is Status.OK


def test_runs_of_unknown_name_are_not_taken_for_one() -> None:
    base = replace(TURNS[0], rounds=tuple(replace(r, run=None) for r in TURNS[0].rounds))
    head = replace(LATER, others=tuple(replace(r, run=None) for r in TURNS[1].rounds))
    assert taken_in_turn(base, head) is None


def rewritten(path: Path, start: datetime, **changes: Any) -> list[str]:
    """The lines of a rounds file as of another run that is twice as slow, from ``start`` on."""
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for number, line in enumerate(lines):
        line["value"] *= 2
        line["samples"] = [sample * 2 for sample in line["samples"]]
        line["started_at"] = (start + timedelta(seconds=5 + number)).isoformat()
        line |= changes
    return [json.dumps(line) + "\n" for line in lines]


def started(path: Path) -> datetime:
    return datetime.fromisoformat(json.loads(path.read_text("utf-8").splitlines()[0])["started_at"])


def checked(store: Path, *results: Path) -> CheckReport:
    for folder in results:
        ingest(store, folder)
    with open_store(store) as opened:
        return check(opened, Policy())


def test_a_store_keeps_the_rounds_that_stand_behind_no_value(
    tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    made = make_history(tmp_path / "results", recipe(commits=2))
    base, head = (made.rounds_file(index) for index in (0, 1))
    # The run that measured head measured base too; what asv has of base is another's.
    with base.open("a", encoding="utf-8") as file:
        file.writelines(rewritten(base, started(head), run="synthetic-1"))
    report = checked(tmp_path / "s.duckdb", made.results)
    assert {found.verdict for found in report.verdicts} == {Verdict.IMPROVED}
    assert {found.run for found in report.verdicts} == {"synthetic-1"}
    number, taken = report.verdicts[0], tmp_path / "s.duckdb"
    with open_store(taken) as store:
        ids = queries.series(store).set_index("label")["series_id"]
        series_id = int(ids[number.series.label])
        latest = queries.rounds(store, series_id, made.commits[0])
        compared = queries.rounds(store, series_id, made.commits[0], "synthetic-1")
    assert len(latest) == len(compared) == 3
    assert compared["value"].median() == pytest.approx(2 * latest["value"].median())


def test_a_chart_shows_the_values_that_were_compared(
    tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    made = make_history(tmp_path / "results", recipe(commits=2))
    base, head = (made.rounds_file(index) for index in (0, 1))
    with head.open("a", encoding="utf-8") as file:  # asv has head of another, quicker run
        slow = rewritten(head, started(base), run="synthetic-0")
        file.writelines(line for line in slow if "forward.Forward" in line)
    ingest(tmp_path / "s.duckdb", made.results)
    with open_store(tmp_path / "s.duckdb") as store:
        report, context = context_of(store, check(store, Policy()), Acknowledgements())
    regressed = [found for found in report.verdicts if found.verdict is Verdict.REGRESSED]
    assert {found.series.family for found in regressed} == {"forward"}
    for found in regressed:
        assert [value for _, value in context.recent[found.series]] == [found.base, found.head]


def test_lines_of_another_commit_are_nobody_s(
    tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    made = make_history(tmp_path / "results", recipe(commits=3))
    base, head, third = (made.rounds_file(index) for index in (0, 1, 2))
    # The third commit's lines of the run that measured head, in base's file.
    with base.open("a", encoding="utf-8") as file:
        file.writelines(rewritten(third, started(head), run="synthetic-1"))
    ingest(tmp_path / "s.duckdb", made.results)
    with open_store(tmp_path / "s.duckdb") as store:
        report = check(store, Policy(), base=made.commits[0], head=made.commits[1])
    assert {found.run for found in report.verdicts} == {None}


def test_the_run_of_both_may_be_another_folder_s(
    tmp_path: Path, make_history: Callable[..., Any], recipe: Any
) -> None:
    both = make_history(tmp_path / "both", recipe(commits=2))
    for index in (0, 1):
        file = both.rounds_file(index)
        file.write_text(file.read_text("utf-8").replace("synthetic-1", "synthetic-0"), "utf-8")
    later = make_history(tmp_path / "later", recipe(commits=2, seed=7, hashes=both.commits))
    later.result_file(0).unlink()
    later.rounds_file(0).unlink()
    head = later.rounds_file(1)
    document = json.loads(later.result_file(1).read_text("utf-8"))
    head.write_text("".join(rewritten(head, started(head) + timedelta(days=1), run="later")))
    for row in document["results"].values():
        row[0] = [2 * value for value in row[0]]
        row[3] += 86_400_000
        row[11] = [[2 * sample for sample in samples] for samples in row[11]]
    later.result_file(1).write_text(json.dumps(document), "utf-8")
    report = checked(tmp_path / "s.duckdb", both.results, later.results)
    assert {found.run for found in report.verdicts} == {"synthetic-0"}
    assert Verdict.REGRESSED not in {found.verdict for found in report.verdicts}
