"""Fresh processes with fresh caches: the caller's half of ``first_calls.py``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from asv_benchmarks.records import LONGEST_REASON
from asv_benchmarks.workloads import Device

SCRIPT = Path(__file__).with_name("first_calls.py")


class Call(TypedDict):
    """One call that the child is to make: M, H, V, and whether with entropy."""

    tokens: int
    h: int
    v: int
    entropy: bool


class FreshProcessError(RuntimeError):
    """A process did not report."""


Report = dict[str, Any]
"""What ``first_calls.py`` says of one process."""

TIMEOUT_S = 260.0
PAIRS = 3
# A commit whose first call searches for a minute is not to make a round of three.
PAIRS_BUDGET_S = 40.0
CACHES = ("TRITON_CACHE_DIR", "XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR", "CUDA_CACHE_PATH")
# A failing process may write without end; the last line of an error is in here.
LAST_BYTES = 16 * 2**20


def inherited(name: str) -> bool:
    """Whether the script gets the caller's variable of that name.

    Not those of this suite's run, of a cache, or that have the package or Triton choose,
    compile or cache in a way of their own; but those by which Triton finds its tools.
    """
    if name.startswith("TRITON_"):
        return name == "TRITON_INTERPRET" or name.endswith("_PATH")
    caches = (*CACHES, "PYTORCH_KERNEL_CACHE_PATH")  # else below XDG_CACHE_HOME
    return not name.startswith(("LMHEAD_BENCH_", "ASV_", "FUSED_LMHEAD_")) and name not in caches


def clean_environ(checkout: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The script's variables: ``fused_lmhead`` from ``checkout``, no cache that exists."""
    kept = {name: value for name, value in environ.items() if inherited(name)}
    return kept | {"PYTHONPATH": str(checkout)}


def cache_variables(caches: Path) -> dict[str, str]:
    """Every cache of a process below ``caches``."""
    return {name: str(caches / name.lower()) for name in CACHES}


def last_words(stderr: Path) -> str:
    """The line of a file that says what happened, cut to a reason's length; "" if it is empty.

    That is the last one; lines that begin with a space are traceback or drawing, and count
    where there are no others. What is not UTF-8 is replaced.
    """
    with stderr.open("rb") as file:
        file.seek(max(0, stderr.stat().st_size - LAST_BYTES))
        text = file.read().decode(errors="replace")
    lines = [line for line in text.splitlines() if line.strip()]
    outermost = [line for line in lines if not line[0].isspace()] or lines or [""]
    return outermost[-1].strip()[:LONGEST_REASON]


def failure(status: int, stderr: Path) -> str:
    """What became of the script's processes, in one line; ``status`` is the script's."""
    killer = -status if status < 0 else status - 128
    if killer in signal.valid_signals():
        return f"a fresh process was killed by signal {killer}"
    return f"a fresh process failed: {last_words(stderr) or f'status {status}'}"


class Process(NamedTuple):
    """One process: the folder of its caches, its calls, and further variables."""

    caches: Path
    calls: Sequence[Call]
    variables: Mapping[str, str]


def run_processes(
    folder: Path,
    checkout: Path,
    device: Device,
    groups: Sequence[Sequence[Process]],
    *,
    budget_s: float,
    timeout_s: float,
) -> list[list[Report]]:
    """The reports of the groups of processes that were begun: the first, others in the budget.

    ``folder`` takes the script's files. ``budget_s``: begin no further group after so many.
    Raises FreshProcessError with the last words of the first process that fails, or after
    ``timeout_s`` altogether.
    """
    folder.mkdir(parents=True, exist_ok=True)
    spec = folder / "spec.json"
    reports = [
        [folder / f"report-{number}-{place}.json" for place in range(len(group))]
        for number, group in enumerate(groups)
    ]
    for path in chain.from_iterable(reports):
        path.unlink(missing_ok=True)
    for process in chain.from_iterable(groups):
        process.caches.mkdir(parents=True, exist_ok=True)
    asked = [
        [
            {
                "device": device,
                "checkout": str(checkout.resolve()),
                "variables": cache_variables(process.caches) | dict(process.variables),
                "calls": list(process.calls),
                "report": str(path),
            }
            for process, path in zip(group, paths, strict=True)
        ]
        for group, paths in zip(groups, reports, strict=True)
    ]
    order = {"parent": os.getpid(), "groups": asked, "budget_s": budget_s}
    spec.write_text(json.dumps(order), encoding="utf-8")
    stderr = folder / "stderr.txt"
    try:
        # A file: a pipe ends only with the last process that was ever given it.
        with stderr.open("wb") as words:
            done = subprocess.run(
                # -P: the script's folder, which is this suite's, stays off the path.
                [sys.executable, "-P", str(SCRIPT), str(spec)],
                cwd=folder,
                env=clean_environ(checkout, os.environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=words,
                timeout=timeout_s,
                check=False,
            )
    except subprocess.TimeoutExpired:
        raise FreshProcessError(f"the fresh processes took more than {timeout_s:.3g} s") from None
    if done.returncode:
        raise FreshProcessError(failure(done.returncode, stderr))
    return [
        [json.loads(path.read_text(encoding="utf-8")) for path in paths]
        for paths in reports
        if paths[0].exists()
    ]


def first_calls(
    caches: Path,
    checkout: Path,
    device: Device,
    calls: Sequence[Call],
    *,
    timeout_s: float = TIMEOUT_S / 2,
    variables: Mapping[str, str] | None = None,
) -> Report:
    """The report of a new process that makes ``calls`` with the caches in that folder.

    ``variables``: further ones of its environment. Raises FreshProcessError with the
    process's last words.
    """
    process = Process(caches, calls, variables or {})
    [[report]] = run_processes(
        caches, checkout, device, [[process]], budget_s=0.0, timeout_s=timeout_s
    )
    return report


def cold_and_warm(
    checkout: Path,
    device: Device,
    tokens: int,
    h: int,
    v: int,
    *,
    entropy: bool,
    pairs: int = PAIRS,
    budget_s: float = PAIRS_BUDGET_S,
    timeout_s: float = TIMEOUT_S,
    variables: Mapping[str, str] | None = None,
) -> list[tuple[Report, Report]]:
    """Pairs of processes, each on one set of caches, new for the first of the pair.

    The first calls with ``tokens``, ``tokens + 1`` (the same bucket) and ``2 * tokens``
    (a new one), the second with ``tokens`` and ``2 * tokens``, both known by then. There is
    one pair at least; no further one is begun after ``budget_s`` seconds. Raises
    FreshProcessError if any process fails, or after ``timeout_s`` altogether.
    """

    def calls(*lengths: int) -> list[Call]:
        return [Call(tokens=length, h=h, v=v, entropy=entropy) for length in lengths]

    def pair(caches: Path) -> list[Process]:
        given = variables or {}
        return [
            Process(caches, calls(tokens, tokens + 1, 2 * tokens), given),
            Process(caches, calls(tokens, 2 * tokens), given),
        ]

    # A process that is killed for the time limit may still be ending.
    with tempfile.TemporaryDirectory(
        prefix="lmhead-first-calls-", ignore_cleanup_errors=True
    ) as name:
        folder = Path(name)
        found = run_processes(
            folder,
            checkout,
            device,
            [pair(folder / f"caches-{number}") for number in range(pairs)],
            budget_s=budget_s,
            timeout_s=timeout_s,
        )
    return [(cold, warm) for cold, warm in found]
