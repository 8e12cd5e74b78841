"""The line each benchmark process leaves beside asv's results.

asv keeps neither the rounds apart nor the reason of a failure nor the state of
the GPU. ``results/rounds/<commit8>-<environment>-<machine>.jsonl`` does; it is
appended to by one write a line, so that a killed run keeps what it had.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from asv_benchmarks.handover import Handover

SCHEMA = 1
LONGEST_REASON = 500

Status = Literal["ok", "failed", "skipped"]


@dataclass(slots=True, kw_only=True)
class RoundRecord:
    """One process of one benchmark. Field names and order are the file's.

    ``samples`` and ``value`` are in ``unit``, ``gap_ms`` in ms, ``started_at``
    ISO 8601 UTC. Unknown is None. ``round`` counts from 0 within (run, commit,
    benchmark, params). ``disturbed_by`` says why a measurement is not to be believed:
    a clock held down by heat or hardware, another process on the GPU.
    ``measured_tokens`` is less than ``m`` where a slice was timed and the samples
    scaled to the whole. ``planted`` is the fraction of extra work put in on purpose,
    ``inputs`` the distribution of what was computed with.
    ``seconds`` is what the process spent: up to the end of its first call in ``setup``,
    on the ``capture`` of a graph, and on the ``whole``.
    """

    schema: int = SCHEMA
    run: str
    machine: str
    environment: str
    commit: str
    benchmark: str
    params: dict[str, Any]
    family: str
    unit: str
    higher_is_better: bool
    version: str
    round: int
    started_at: str
    status: Status = "ok"
    reason: str | None = None
    samples: list[float] = field(default_factory=list)
    value: float | None = None
    statistic: Literal["median", "minimum"] | None = None
    protocol: str | None = None
    gap_ms: float | None = None
    gpu: str | None = None
    gpu_uuid: str | None = None
    driver: str | None = None
    torch: str | None = None
    triton: str | None = None
    python: str | None = None
    sm_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    clock_event_reasons: tuple[str, ...] = ()
    other_gpu_processes: int | None = None
    disturbed_by: tuple[str, ...] = ()
    m: int | None
    h: int | None
    v: int | None
    measured_tokens: int | None = None
    planted: float | None = None
    inputs: str | None = None
    entropy: Literal["off", "metric", "grad"]
    schedule: dict[str, Any] | None = None
    fused_lmhead_file: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    def to_line(self) -> str:
        """One line of JSON with its newline. ValueError if a number is not finite."""
        return json.dumps(asdict(self), allow_nan=False, ensure_ascii=False) + "\n"


def rounds_path(results: Path, handover: Handover) -> Path:
    """The file that this process appends to."""
    name = f"{handover.commit[:8]}-{handover.environment}-{handover.machine}.jsonl"
    return results / "rounds" / name.replace("/", "_")


def append_line(path: Path, line: str) -> None:
    """Append ``line`` by one write, so that concurrent writers cannot mix lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def earlier_rounds(
    path: Path, run: str, benchmark: str, params: dict[str, Any]
) -> list[dict[str, Any]]:
    """This run's lines of the same series so far, oldest first.

    A line cut short by a full disk or a kill is passed over: it was no round.
    """
    if not path.exists():
        return []
    found = []
    # Not splitlines: a reason may hold one of the other characters that end a line.
    for line in path.read_text(encoding="utf-8").split("\n"):
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        if (record.get("run"), record.get("benchmark"), record.get("params")) == (
            run,
            benchmark,
            params,
        ):
            found.append(record)
    return found


def reason_of(error: BaseException) -> str:
    """A failure in one line: its type and the first line of its message."""
    message = str(error).strip()
    first = message.splitlines()[0] if message else ""
    whole = f"{type(error).__name__}: {first}" if first else type(error).__name__
    return whole[:LONGEST_REASON]
