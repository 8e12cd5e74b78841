"""Sweeps: what is left out, when they stop; and one under asv itself."""

from __future__ import annotations

import argparse
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
from asv_benchmarks.sweep import Place, SweepError, measured, shard
from asv_benchmarks.sweep_plan import ASV_START_S, Series, expected_s, in_order
from asv_benchmarks.tiers import FORWARD, series_of


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "a/b", "1/0"])
def test_a_part_of_nothing_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="such as 1/4"):
        shard(text)
    assert shard("4/4") == (4, 4)


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
        clock[0] += ASV_START_S + sum(map(expected_s, chosen))
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
