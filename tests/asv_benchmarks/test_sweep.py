"""Sweeps under asv: started, interrupted, resumed; and their options."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from asv_benchmarks import sweep
from asv_benchmarks.sweep import positive, shard


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "x"])
def test_no_rounds_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="not a number of at least 1"):
        positive(text)
    assert positive("3") == 3


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "a/b", "1/0"])
def test_a_part_of_nothing_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="such as 1/4"):
        shard(text)
    assert shard("4/4") == (4, 4)


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


def servers_of(folder: Path) -> list[int]:
    """The fork servers that serve the suite in ``folder``."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().decode().split("\0")
            if "run_server" in words and str(folder / "asv_benchmarks") in words:
                found.append(int(process.name))
    return found


def test_a_terminals_interrupt_leaves_no_server(toy) -> None:
    """Ctrl-C reaches all processes of the group at once."""
    toy.rename("forward", "Forward")
    toy.sleeping(2000, "slow")
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("ASV", "LMHEAD"))}
    environ |= {"HOME": str(toy.home), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "asv_benchmarks.sweep", "--tier", "smoke"]
    command += ["--benchmarks", "forward", "--machine", "toy-machine", "--minutes", "2"]
    process = subprocess.Popen(
        command, cwd=toy.folder, env=environ, stderr=subprocess.PIPE, text=True,
        process_group=0,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    patience = time.monotonic() + 60
    while not servers_of(toy.folder) and time.monotonic() < patience:
        time.sleep(0.05)
    assert servers_of(toy.folder)
    time.sleep(1.0)
    os.killpg(process.pid, signal.SIGINT)
    _, words = process.communicate(timeout=40)
    assert process.returncode == sweep.INTERRUPTED, words
    assert "sweep: interrupted; the same command goes on from here" in words
    assert "Traceback" not in words
    assert servers_of(toy.folder) == []


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
    stranger = run("--minutes", "2", "--machine", "nobody")
    assert stranger.returncode == 1
    assert "'nobody': asv machine --yes --machine nobody" in stranger.stderr
    unknown = run("--commit", "nothing")
    assert unknown.returncode == 1
    assert unknown.stderr.startswith("sweep: no commit 'nothing'")
    assert "Traceback" not in unknown.stderr
