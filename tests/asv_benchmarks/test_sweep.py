"""Sweeps: what is left out, when they stop; and one under asv itself."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from asv_benchmarks import sweep
from asv_benchmarks.sweep import Place, SweepError, measured, remaining, shard
from asv_benchmarks.sweep_plan import ASV_START_S, Series, expected_s, in_order
from asv_benchmarks.tiers import CONTROL, FORWARD, MEMORY, TWO_PASS, series_of


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "a/b", "1/0"])
def test_a_part_of_nothing_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="such as 1/4"):
        shard(text)
    assert shard("4/4") == (4, 4)


COMMIT = "c" * 40


def line(series: Series, commit: str = COMMIT, status: str = "ok", card: str | None = None) -> str:
    benchmark, params = series
    model, tokens, tp = params.split(", ")
    values = {"model": model.strip("'"), "tokens": int(tokens), "tp": int(tp)}
    record = {"commit": commit, "benchmark": benchmark, "params": values, "status": status}
    return json.dumps({**record, "gpu_uuid": card}) + "\n"


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


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A synthetic clock: its reading is the list's only value."""
    now = [0.0]
    monkeypatch.setattr(sweep.time, "monotonic", lambda: now[0])
    return now


def test_a_sweep_stops_before_its_time_is_up_and_goes_on_later(
    place: Place, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    series = in_order("six")
    pieces: list[list[Series]] = []

    def run_piece(_: Place, chosen: Sequence[Series], *rest: object) -> None:
        pieces.append(list(chosen))
        clock[0] += ASV_START_S + sum(map(expected_s, chosen))
        noted(place, chosen, place.card)

    monkeypatch.setattr(sweep, "run_piece", run_piece)
    log = place.results / "log"
    left = sweep.sweep(place, series, 1, 60.0, log)
    assert clock[0] <= 60
    assert 0 < len(left) < 30
    assert pieces[0] + left == series, "in the order given"
    assert sweep.sweep(place, series, 1, 600.0, log) == []
    assert sorted(pair for chosen in pieces for pair in chosen) == sorted(series)


def test_rounds_that_an_interrupted_asv_did_not_come_to_remain(
    place: Place, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """asv goes round by round: interrupted in the last, each series has the others."""
    series = in_order("six")

    def run_piece(
        _: Place, chosen: Sequence[Series], rounds: int, limit_s: float, *rest: object
    ) -> None:
        for _ in range(rounds - 1):
            noted(place, chosen, place.card)
        noted(place, chosen[:4], place.card)
        clock[0] += limit_s

    monkeypatch.setattr(sweep, "run_piece", run_piece)
    assert sweep.sweep(place, series, 3, 600.0, place.results / "log") == series[4:]


def test_a_sweep_whose_time_ends_before_its_first_round_is_no_error(
    place: Place, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_piece(
        _: Place, chosen: Sequence[Series], rounds: int, limit_s: float, log: Path
    ) -> None:
        clock[0] += limit_s

    monkeypatch.setattr(sweep, "run_piece", run_piece)
    series = in_order("six")
    assert sweep.sweep(place, series, 1, 60.0, place.results / "log") == series


def test_what_failed_before_is_tried_once_more_and_not_for_ever(
    place: Place, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    series = in_order("six")
    pieces: list[list[Series]] = []

    def run_piece(_: Place, chosen: Sequence[Series], *rest: object) -> None:
        pieces.append(list(chosen))
        with place.rounds.open("a") as file:
            file.writelines(line(pair, status="failed") for pair in chosen)

    noted(place, series[1:], place.card)
    with place.rounds.open("a") as file:
        file.write(line(series[0], status="failed"))
    monkeypatch.setattr(sweep, "run_piece", run_piece)
    log = place.results / "log"
    assert sweep.sweep(place, series, 1, 600.0, log) == []
    assert pieces == []
    assert sweep.sweep(place, series, 1, 600.0, log, frozenset({"failed"})) == []
    assert pieces == [[series[0]]]


def test_a_sweep_that_measures_nothing_is_an_error(
    place: Place, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "run_piece", lambda *_: None)
    with pytest.raises(SweepError, match="measured none of 30 series"):
        sweep.sweep(place, series_of("six"), 1, 600.0, place.results / "log")


def test_what_remains_is_listed_in_its_order(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sweep, "locate", lambda *_: (place, "gpu"))
    ordered = [f"{benchmark}({params})" for benchmark, params in in_order("six")]
    assert sweep.main(["--tier", "six", "--list"]) == sweep.REMAINS
    assert capsys.readouterr().out.splitlines() == ordered
    assert ordered != sorted(ordered)


def test_asv_is_ended_as_by_hand_even_in_the_background(tmp_path: Path) -> None:
    """A synthetic asv, started where interrupts are ignored, tells what reached it."""
    script = (
        "import pathlib, time\n"
        "try:\n    pathlib.Path('up').touch()\n    time.sleep(60)\n"
        "except KeyboardInterrupt:\n    pathlib.Path('interrupted').touch()\n"
    )
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        command = [sys.executable, "-c", script]
        process = subprocess.Popen(command, cwd=tmp_path, preexec_fn=sweep.heed_interrupts)
    finally:
        signal.signal(signal.SIGINT, before)
    while not (tmp_path / "up").exists():
        time.sleep(0.02)
    sweep.interrupt(process)
    assert (tmp_path / "interrupted").exists()
    assert process.returncode == 0


def test_a_sweep_under_asv_resumes_and_then_has_nothing_to_do(toy) -> None:
    toy.rename("forward", "Forward")
    commit = toy.sleeping(1, "only")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("ASV", "LMHEAD"))}
        environ |= {"HOME": str(toy.home), "CUDA_VISIBLE_DEVICES": ""}
        command = [sys.executable, "-m", "asv_benchmarks.sweep", "--tier", "smoke"]
        command += ["--benchmarks", "forward", "--machine", "toy-machine", *arguments]
        return subprocess.run(
            command, cwd=toy.folder, env=environ, capture_output=True, text=True, check=False
        )

    early = run("--minutes", "0.1")
    assert early.returncode == sweep.REMAINS, early.stderr
    assert "2 of 2 series remain" in early.stderr
    whole = run("--minutes", "2")
    assert whole.returncode == 0, whole.stderr
    assert [line["round"] for line in toy.rounds(commit)] == [0, 0]
    again = run("--minutes", "2")
    assert again.returncode == 0
    assert len(toy.rounds(commit)) == 2
    unknown = run("--commit", "nothing")
    assert unknown.returncode == 1
    assert unknown.stderr.startswith("sweep: no commit 'nothing'")
    assert "Traceback" not in unknown.stderr
