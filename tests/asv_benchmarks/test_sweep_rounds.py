"""What of a sweep is left to measure, by the rounds that are there, and when it stops."""

from __future__ import annotations

import ast
import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from asv_benchmarks import sweep
from asv_benchmarks.place import Place
from asv_benchmarks.sweep_plan import (
    ASV_START_S,
    Series,
    SweepError,
    expected_s,
    in_order,
    is_time_of_shape,
    measured,
    remaining,
)
from asv_benchmarks.tiers import (
    COMPILE,
    CONTROL,
    FORWARD,
    HOST,
    MEMORY,
    TWO_PASS,
    series_of,
)
from asv_benchmarks.versions import version_of

COMMIT = "c" * 40


def line(
    series: Series,
    commit: str = COMMIT,
    status: str = "ok",
    card: str | None = None,
    version: str | None = None,
) -> str:
    """A synthetic round, of the benchmark's present version where no other is given."""
    benchmark, params = series
    values = {f"{place}": value for place, value in enumerate(ast.literal_eval(f"({params},)"))}
    record = {"commit": commit, "benchmark": benchmark, "params": values, "status": status}
    version = version or version_of(benchmark)
    return json.dumps({**record, "version": version, "gpu_uuid": card}) + "\n"


def noted(place: Place, series: Iterable[Series], card: str | None = None) -> None:
    """Synthetic rounds, one of each."""
    place.rounds.parent.mkdir(exist_ok=True)
    with place.rounds.open("a") as file:
        file.writelines(line(pair, card=card) for pair in series)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, COMMIT, "checkout-py3.12-gpu", "m", "this card")


def test_what_the_rounds_have_is_done_even_after_a_kill(tmp_path: Path) -> None:
    rounds = tmp_path / "rounds.jsonl"
    assert measured(rounds, "a") == {}
    series = (FORWARD, "'smoke', 2048, 1")
    own, failed = line(series, "a"), line(series, "a", "failed")
    rounds.write_text(own + line(series, "b") + failed + own[:20])
    assert measured(rounds, "a")[series].total() == 2
    assert measured(rounds, "a", frozenset({"failed"}))[series].total() == 1


@pytest.mark.parametrize("status", ["ok", "skipped", "failed"])
def test_rounds_of_another_version_do_not_count(status: str, place: Place) -> None:
    series = (HOST, "'kimi-k2', 2048, 1")
    present = version_of(HOST)
    assert present not in (None, "1"), "a version of its own, not the frame's"
    noted(place, [])
    place.rounds.write_text("".join(line(series, COMMIT, status, version=v) for v in ("1", "x")))
    assert measured(place.rounds, COMMIT) == {}
    assert remaining(place, [series], 1) == [series]
    with place.rounds.open("a") as file:
        file.write(line(series, COMMIT, status, version=present))
    assert measured(place.rounds, COMMIT)[series].total() == 1
    assert remaining(place, [series], 1) == []


def test_times_of_a_shape_are_of_one_card(place: Place) -> None:
    one, two = "'kimi-k2', 2048, 1", "'kimi-k2', 8192, 1"
    times = [(name, params) for params in (one, two) for name in (CONTROL, FORWARD, TWO_PASS)]
    series = [*times, (MEMORY[0], one), (MEMORY[0], two)]
    assert remaining(place, series, 1) == series
    noted(place, [*times[:5], (MEMORY[0], one)], "another card")
    # The first shape is whole elsewhere; the second lacks a time, the memory needs no card.
    assert remaining(place, series, 1) == [*times[3:], (MEMORY[0], two)]
    noted(place, [times[5]], "this card")
    assert remaining(place, series, 1) == [*times[3:5], (MEMORY[0], two)]
    noted(place, [times[3]], "this card")
    noted(place, [times[4], (MEMORY[0], two)])  # failed before there was a card
    assert remaining(place, series, 1) == []
    assert remaining(place, times[:3], 2) == times[:3]


def test_what_is_no_time_of_a_shape_needs_no_card_of_its_own(place: Place) -> None:
    shape = "'kimi-k2', 2048, 1"
    others = [(name, shape) for name in (HOST, MEMORY[0], COMPILE[0])]
    noted(place, others, "another card")
    noted(place, [(CONTROL, shape)], "this card")
    assert remaining(place, [(CONTROL, shape), (FORWARD, shape), *others], 1) == [(FORWARD, shape)]


@pytest.mark.parametrize("text", ["null", "3", "[]", "{}", json.dumps({"commit": COMMIT})])
def test_a_line_that_is_no_round_is_named(text: str, place: Place) -> None:
    noted(place, [(FORWARD, "'kimi-k2', 2048, 1")])
    with place.rounds.open("a") as file:
        file.write(text + "\n")
    with pytest.raises(SweepError, match=r"line 2 of .*\.jsonl is no round"):
        measured(place.rounds, COMMIT)


def test_a_new_card_begins_with_what_is_missing(place: Place) -> None:
    """The tier's selections share shapes: those that are whole stay, the others are done whole."""
    ordered = in_order("full")
    noted(place, ordered[:416], "another card")
    left = remaining(place, ordered, 1)
    assert left[0] == ordered[416]
    of_shape = [pair for pair in ordered if pair[1] == "'nemotron-super', 2048, 1"]
    times = [pair for pair in of_shape if is_time_of_shape(pair)]
    at = left.index(times[0])
    assert left[at : at + len(times)] == times, "a shape at once"
    assert len(left) == len(set(left)) < len(ordered)


@pytest.mark.parametrize("rounds", [1, 3])
def test_sittings_on_one_card_each_come_to_an_end(
    rounds: int, place: Place, clock: list[float], asv
) -> None:
    ordered = in_order("full")
    whole = rounds * sum(map(expected_s, ordered))

    def measuring(at: Place, chosen: Sequence[Series], rounds: int, limit_s: float) -> None:
        clock[0] += ASV_START_S + rounds * sum(map(expected_s, chosen))
        noted(at, list(chosen) * rounds, at.card)

    asv(measuring)
    most = 2 * whole / 540 + 1
    for sitting in itertools.count(1):
        here = replace(place, card=f"card {sitting}")
        if not sweep.sweep(here, ordered, rounds, 540.0, place.results / "log"):
            break
        assert sitting < most
    done = measured(place.rounds, COMMIT)
    for params in {params for _, params in filter(is_time_of_shape, ordered)}:
        times = [done[pair] for pair in ordered if pair[1] == params and is_time_of_shape(pair)]
        assert any(all(of[card] >= rounds for of in times) for card in times[0])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A synthetic clock: its reading is the list's only value."""
    now = [0.0]
    monkeypatch.setattr(sweep.time, "monotonic", lambda: now[0])
    return now


Piece = Callable[[Place, Sequence[Series], int, float], None]
Given = list[list[Series]]


@pytest.fixture
def asv(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> Callable[[Piece], Given]:
    """Let asv be a function of place, series, rounds and seconds; returns what that is given."""
    given: Given = []

    def be(piece: Piece) -> Given:
        def run_piece(
            place: Place, chosen: Sequence[Series], rounds: int, limit_s: float, _: Path
        ) -> None:
            given.append(list(chosen))
            piece(place, chosen, rounds, limit_s)

        monkeypatch.setattr(sweep, "run_piece", run_piece)
        return given

    return be


def test_a_sweep_stops_before_its_time_is_up_and_goes_on_later(
    place: Place, clock: list[float], asv
) -> None:
    series, log = in_order("six"), place.results / "log"

    def measuring(_: Place, chosen: Sequence[Series], *rest: object) -> None:
        clock[0] += ASV_START_S + sum(map(expected_s, chosen))
        noted(place, chosen, place.card)

    pieces = asv(measuring)
    left = sweep.sweep(place, series, 1, 60.0, log)
    assert clock[0] <= 60
    assert 0 < len(left) < 30
    assert pieces[0] + left == series, "in the order given"
    assert sweep.sweep(place, series, 1, 600.0, log) == []
    assert sorted(pair for chosen in pieces for pair in chosen) == sorted(series)


def test_rounds_that_an_interrupted_asv_did_not_come_to_remain(
    place: Place, clock: list[float], asv
) -> None:
    """asv goes round by round: interrupted in the last, each series has the others."""
    series = in_order("six")

    def interrupted(_: Place, chosen: Sequence[Series], rounds: int, limit_s: float) -> None:
        for _ in range(rounds - 1):
            noted(place, chosen, place.card)
        noted(place, chosen[:4], place.card)
        clock[0] += limit_s

    asv(interrupted)
    assert sweep.sweep(place, series, 3, 600.0, place.results / "log") == series[4:]


def test_a_round_lost_with_its_process_remains(place: Place, asv) -> None:
    series = in_order("six")
    asv(lambda _, chosen, *rest: noted(place, [*chosen, *chosen[1:]], place.card))
    assert sweep.sweep(place, series, 2, 600.0, place.results / "log") == series[:1]


def test_a_sweep_whose_time_ends_before_its_first_round_is_no_error(
    place: Place, clock: list[float], asv
) -> None:
    def late(place: Place, chosen: Sequence[Series], rounds: int, limit_s: float) -> None:
        clock[0] += limit_s

    asv(late)
    series = in_order("six")
    assert sweep.sweep(place, series, 1, 60.0, place.results / "log") == series


def test_what_failed_before_is_tried_once_more_and_not_for_ever(place: Place, asv) -> None:
    series, log = in_order("six"), place.results / "log"

    def failing(_: Place, chosen: Sequence[Series], *rest: object) -> None:
        with place.rounds.open("a") as file:
            file.writelines(line(pair, status="failed") for pair in chosen)

    noted(place, series[1:], place.card)
    failing(place, series[:1])
    pieces = asv(failing)
    assert sweep.sweep(place, series, 1, 600.0, log) == []
    assert pieces == []
    assert sweep.sweep(place, series, 1, 600.0, log, frozenset({"failed"})) == []
    assert pieces == [[series[0]]]


def test_a_sweep_that_measures_nothing_is_an_error(
    place: Place, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "run_piece", lambda *_: None)
    six, log = series_of("six"), place.results / "log"
    with pytest.raises(SweepError, match=r"measured none of 30 series \(forward\.Forward"):
        sweep.sweep(place, six, 1, 600.0, log)
    noted(place, six[1:], place.card)
    with pytest.raises(SweepError, match=r"left no round of forward\.Forward\.track_time\("):
        sweep.sweep(place, six, 1, 600.0, log)


def test_what_remains_is_listed_in_its_order(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sweep, "locate", lambda *_: (place, "gpu"))
    ordered = [f"{benchmark}({params})" for benchmark, params in in_order("six")]
    assert sweep.main(["--tier", "six", "--list"]) == sweep.REMAINS
    assert capsys.readouterr().out.splitlines() == ordered
    assert ordered != sorted(ordered)
