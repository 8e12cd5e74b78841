"""Sweeps: what a shard holds, what is left out, when it stops; and one under asv itself."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from asv_benchmarks import sweep
from asv_benchmarks.nominal import Work, nominal_ms
from asv_benchmarks.sweep import (
    PROCESS_S,
    Place,
    Series,
    SweepError,
    expected_s,
    in_order,
    in_shard,
    measured,
    piece,
    runnable,
    shard,
)
from asv_benchmarks.tiers import (
    FORWARD,
    FORWARD_BACKWARD,
    TIERS,
    TWO_PASS,
    TWO_PASS_BACKWARD,
    series_of,
)
from asv_benchmarks.timing import gpu_plan
from asv_benchmarks.workloads import Workload

FULL = series_of("full")


def test_shards_are_a_partition_into_whole_shapes() -> None:
    parts = [in_shard(FULL, index, 4) for index in (1, 2, 3, 4)]
    assert Counter(pair for part in parts for pair in part) == Counter(FULL)
    shapes = [{params for _, params in part} for part in parts]
    assert sum(map(len, shapes)) == len(set.union(*shapes)), "a shape lies in one shard only"
    assert max(map(len, shapes)) - min(map(len, shapes)) <= 1


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "a/b", "1/0"])
def test_a_part_of_nothing_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="such as 1/4"):
        shard(text)
    assert shard("4/4") == (4, 4)


def test_a_cpu_is_given_what_it_can_run() -> None:
    assert runnable(FULL, "gpu") == list(FULL)
    left = runnable(FULL, "cpu")
    assert ("bandwidth.Bandwidth.track_rate", "4") in left
    assert all("nemotron" not in params for _, params in left)


def test_longer_work_is_expected_to_take_longer() -> None:
    small, large = "'nemotron-super', 2048, 8", "'kimi-k2', 262144, 1"
    assert expected_s((FORWARD, small)) < 2
    length_ms = nominal_ms(Workload("nemotron-super", 2048, 8), Work())
    plan = gpu_plan(length_ms)
    assert plan.group > 10
    samples = (plan.samples + 1) * (plan.gap_ms + plan.group * length_ms) / 1000
    assert expected_s((FORWARD, small)) >= PROCESS_S + samples
    times = [
        expected_s((name, large))
        for name in (FORWARD, TWO_PASS, FORWARD_BACKWARD, TWO_PASS_BACKWARD)
    ]
    assert times == sorted(times)
    assert 10 < times[0] < times[-1] < 180, "within the benchmarks' own limit"


def shapes_in_turn(series: Sequence[Series]) -> list[str]:
    """The shapes of ``series``, each as often as others lie between its series."""
    return [params for params, _ in itertools.groupby(series, key=lambda pair: pair[1])]


def test_a_tier_is_measured_by_selection_then_by_shape_the_shortest_first() -> None:
    ordered = in_order("full")
    assert Counter(ordered) == Counter(FULL)
    first = [pair for pair in ordered if pair in set(TIERS["full"][0].series())]
    assert ordered[: len(first)] == first
    shapes = shapes_in_turn(first)
    assert len(shapes) == len(set(shapes)) == 104
    whole = [sum(expected_s(p) for p in first if p[1] == shape) for shape in shapes]
    assert whole == sorted(whole)


def test_a_piece_is_the_whole_shapes_that_fit() -> None:
    todo = in_order("full")
    cost = sweep.ASV_START_S + sum(map(expected_s, todo[:8]))
    assert piece(todo, 1, cost + 0.1) == todo[:8]
    assert piece(todo, 1, cost - 0.1) == todo[:4], "no part of a shape that does not fit"
    assert piece(todo, 3, sweep.ASV_START_S + 3 * (cost - sweep.ASV_START_S) + 0.1) == todo[:8]
    assert piece(todo, 1, sweep.ASV_START_S + sum(map(expected_s, todo[:3])) + 0.1) == todo[:3]
    assert piece(todo, 1, sweep.ASV_START_S + 0.1) == piece([], 1, 100) == []
    assert piece(todo, 1, 1e6) == todo


def line(commit: str, status: str = "ok") -> str:
    params = {"model": "smoke", "tokens": 2048, "tp": 1}
    record = {"commit": commit, "benchmark": FORWARD, "params": params, "status": status}
    return json.dumps(record) + "\n"


def test_what_the_rounds_have_is_done_even_after_a_kill(tmp_path: Path) -> None:
    rounds = tmp_path / "rounds.jsonl"
    assert measured(rounds, "a") == Counter()
    rounds.write_text(line("a") + line("b") + line("a", "failed") + line("a")[:20])
    series = (FORWARD, "'smoke', 2048, 1")
    assert measured(rounds, "a")[series] == 2
    assert measured(rounds, "a", frozenset({"failed"}))[series] == 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A synthetic clock: its reading is the list's only value."""
    now = [0.0]
    monkeypatch.setattr(sweep.time, "monotonic", lambda: now[0])
    return now


def test_a_sweep_stops_before_its_time_is_up_and_goes_on_later(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path, "c" * 40, "checkout-py3.12-gpu", "m")
    series = in_order("six")
    pieces: list[list[Series]] = []

    def run_piece(_: Place, chosen: Sequence[Series], *rest: object) -> None:
        pieces.append(list(chosen))
        clock[0] += sweep.ASV_START_S + sum(map(expected_s, chosen))
        place.rounds.parent.mkdir(exist_ok=True)
        with place.rounds.open("a") as file:
            for benchmark, params in chosen:
                model, tokens, tp = params.split(", ")
                values = {"model": model.strip("'"), "tokens": int(tokens), "tp": int(tp)}
                record = {"commit": "c" * 40, "benchmark": benchmark, "params": values}
                file.write(json.dumps({**record, "status": "ok"}) + "\n")

    monkeypatch.setattr(sweep, "run_piece", run_piece)
    left = sweep.sweep(place, series, 1, 60.0, tmp_path / "log")
    assert clock[0] <= 60
    assert 0 < len(left) < 30
    assert pieces[0] + left == series, "in the order given"
    assert sweep.sweep(place, left, 1, 600.0, tmp_path / "log") == []
    assert sorted(pair for chosen in pieces for pair in chosen) == sorted(series)


def test_a_sweep_that_measures_nothing_is_an_error(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "run_piece", lambda *_: None)
    place = Place(tmp_path, "c" * 40, "e", "m")
    with pytest.raises(SweepError, match="measured none of 30 series"):
        sweep.sweep(place, series_of("six"), 1, 600.0, tmp_path / "log")


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
