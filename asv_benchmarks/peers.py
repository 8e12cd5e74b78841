"""Other projects' fused heads beside ours, on the same tensors, as ratios to the product.

    python -m asv_benchmarks.peers
    python -m asv_benchmarks.peers --shapes nemotron-super:16384:4 kimi-k2:8192:1 --rounds 3

Runs whichever of Liger's SM90 CuTe op, Liger's Triton op and cut-cross-entropy is
installed, torch.compile with the logits in memory, and ours (``peer_calls.py``). Values are
checked against ours before anything is timed. A sample of each is taken in turn, by the
protocol of ``timing.py``: a replayed graph, or CUDA events around plain calls where an op
waits for the GPU on the host. What fails is a cell with the reason. A Markdown table of
each pass comes last. Without a GPU the smoke shapes are timed by the wall clock.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from asv_benchmarks.conditions import (
    Conditions,
    Monitor,
    NoMonitor,
    NvmlMonitor,
    Reading,
    summarise,
)
from asv_benchmarks.device import DeviceError, Gpu, package_version, visible_gpu
from asv_benchmarks.inputs import make_inputs
from asv_benchmarks.lock import gpu_lock
from asv_benchmarks.peer_calls import PEERS, PRODUCT, Peer
from asv_benchmarks.peer_table import Column, Row, table
from asv_benchmarks.peer_turns import enter, take_turns, truth_of
from asv_benchmarks.workloads import BY_NAME, SIX, SMOKE, Device, Workload, runs_on

VERSIONS = ("torch", "triton", "liger-kernel", "nvidia-cutlass-dsl", "cut-cross-entropy")


def column(peer: Peer) -> Column:
    """Where the table says it."""
    return Column(peer.part, peer.name, peer.note)


def compare(
    workload: Workload, peers: Sequence[Peer], device: Device, rounds: int, monitor: Monitor
) -> tuple[Row, list[Reading]]:
    """All peers on one shape; their memory is the allocator's again afterwards."""
    shape = f"{workload.m}, {workload.h}, {workload.v}"
    print(f"{shape} ({workload.label})", file=sys.stderr)
    inputs = make_inputs(workload, device)
    truth = truth_of(inputs, device, any(peer.part != "forward" for peer in peers))
    # Others' last: theirs are the captures that may fail, and disturb those after them.
    in_order = sorted(peers, key=lambda peer: bool(peer.needs))
    made = {peer: enter(peer, workload, inputs, truth, device) for peer in in_order}
    entrants = [made[peer] for peer in peers]
    readings = [reading for _ in range(rounds) for reading in take_turns(entrants, monitor)]
    cells = {column(one.peer): one.cell() for one in entrants}
    unit_ms = cells.pop(column(PRODUCT)).ms
    del inputs, truth, made, entrants
    torch.compiler.reset()  # beyond some eight shapes it would run uncompiled
    gc.collect()
    return Row(shape, unit_ms, cells), readings


def chosen_peers(wanted: Sequence[str] | None, peers: Sequence[Peer] = PEERS) -> list[Peer]:
    """The product and those whose names hold one of ``wanted``, all without it."""
    return [
        peer
        for peer in peers
        if peer is PRODUCT or not wanted or any(w.lower() in peer.name.lower() for w in wanted)
    ]


def shape(text: str) -> Workload:
    """``model:tokens:tp``. Raises ArgumentTypeError, in one line, for anything else."""
    model, *numbers = text.split(":")
    if model not in BY_NAME or len(numbers) != 2 or not all(n.isdigit() for n in numbers):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not model:tokens:tp, such as nemotron-super:8192:1; "
            f"models: {', '.join(BY_NAME)}"
        )
    tokens, tp = map(int, numbers)
    if not tokens or not tp or BY_NAME[model].vocab % tp:
        raise argparse.ArgumentTypeError(f"{text!r}: no {tp} equal shards, or no tokens")
    return Workload(model, tokens, tp)


def commit_of(checkout: Path) -> str:
    """The checked-out commit, and whether files differ from it; ``unknown`` without git.

    What was measured there, in a ``results`` folder, does not count.
    """

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(checkout), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        measured = (":(top)", ":(exclude,top,glob)**/results/**")
        status = git("status", "--porcelain", "--untracked-files=no", "--", *measured)
        changed = " with changes" if status else ""
        return git("rev-parse", "--short=12", "HEAD") + changed
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def machine(gpu: Gpu | None, conditions: Conditions) -> str:
    """One line: the GPU, its driver and how it ran."""
    if gpu is None:
        return "CPU"
    words = [gpu.name, f"driver {gpu.driver}", f"CUDA {torch.version.cuda}"]
    if conditions.sm_clock_mhz is not None:
        words.append(f"{conditions.sm_clock_mhz:.0f} MHz after a sample (median)")
    words.append(f"clock events: {', '.join(conditions.clock_event_reasons) or 'none'}")
    words += [f"DISTURBED by {what}" for what in conditions.disturbed_by]
    return "; ".join(words)


def report(
    rows: Sequence[Row], peers: Iterable[Peer], left: Sequence[Workload], last: Sequence[str]
) -> str:
    """The tables, what was left out, and the ``last`` lines."""
    columns = [column(peer) for peer in peers if peer is not PRODUCT]
    lines = [table(rows, columns, PRODUCT.name), ""]
    if left:
        names = " ".join(f"{one.model}:{one.tokens}:{one.tp}" for one in left)
        lines.append(f"Not measured: --shapes {names}")
    return "\n".join([*lines, *last])


def main(arguments: Sequence[str] | None = None, peers: Sequence[Peer] = PEERS) -> int:
    """Print the tables. Exit status 1 where nothing could be measured."""
    parser = argparse.ArgumentParser(
        prog="python -m asv_benchmarks.peers", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--shapes", type=shape, nargs="+", metavar="MODEL:TOKENS:TP")
    parser.add_argument("--peers", nargs="+", metavar="NAME", help="parts of names; default all")
    parser.add_argument("--rounds", type=int, default=1, help="default 1")
    parser.add_argument("--seconds", type=float, help="begin no shape that would pass them")
    parser.add_argument("--commit", help="what to call this tree where git cannot tell")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    try:
        gpu = visible_gpu()
    except DeviceError as error:
        print(f"peers: {error}", file=sys.stderr)
        return 1
    device: Device = "gpu" if gpu else "cpu"
    shapes: Sequence[Workload] = options.shapes or (SIX if gpu else SMOKE)
    for workload in shapes:
        if not gpu and not runs_on(workload, device):
            parser.error(f"{workload.label} takes a GPU")
    asked = chosen_peers(options.peers, peers)
    present = [peer for peer in asked if not peer.missing]
    if len(present) < 2:
        parser.error("no peer that is installed has such a name")
    absent = sorted({name for peer in asked for name in peer.missing})
    if gpu:
        gpu_lock(gpu.uuid, "run").acquire(on_wait=lambda text: print(text, file=sys.stderr))
    monitor: Monitor = NvmlMonitor(gpu.index) if gpu else NoMonitor()
    rows, readings = [], []
    started, longest = time.monotonic(), 0.0
    for workload in shapes:
        begun = time.monotonic()
        if options.seconds is not None and begun - started + longest > options.seconds:
            break
        try:
            row, seen = compare(workload, present, device, options.rounds, monitor)
        except Exception as error:  # noqa: BLE001 - the rows that were taken are shown
            # Out of memory, or a context that a peer has broken.
            print(f"peers: {workload.label}: {error}", file=sys.stderr)
            break
        rows.append(row)
        readings += seen
        longest = max(longest, time.monotonic() - begun)
        ratios = [f"{c.name} {value:.3f}" for c in row.cells if (value := row.ratio(c))]
        print(f"  {row.unit_ms} ms; {', '.join(ratios)}; {longest:.0f} s", file=sys.stderr)
    versions = [f"{name} {found}" for name in VERSIONS if (found := package_version(name))]
    last = [
        f"Machine: {machine(gpu, summarise(readings))}.",
        f"Commit: {options.commit or commit_of(Path(__file__).parent)}; "
        f"rounds: {options.rounds}; versions: {', '.join(versions)}"
        + (f"; not installed: {', '.join(absent)}." if absent else "."),
    ]
    print(report(rows, present, shapes[len(rows) :], last))
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
