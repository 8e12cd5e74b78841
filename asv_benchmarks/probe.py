"""What a user waits for: first calls, measured in fresh processes with fresh caches.

    python -m asv_benchmarks.probe

20,000 tokens cold, 20,001 in the same bucket, 40,000 in a new one, and the same with a
warm cache on disk: without entropy, with it, and with it for a head that no table of
schedules knows, so that they are searched (``FUSED_LMHEAD_TUNING=search``); of
three pairs of processes, fewer where they take long, the medians. Then the median first
call over shapes of the sweep. The package is the one of this checkout. A table with the
reference PRs' H100 figures beside it comes last, below how many pairs there were.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from asv_benchmarks.device import DeviceError, visible_gpu
from asv_benchmarks.fresh import Call, FreshProcessError, Report, cold_and_warm, first_calls
from asv_benchmarks.workloads import BY_NAME, SMOKE, Device, Head, spread_shapes

Row = tuple[str, float, int | None, int | None]
Pairs = Sequence[tuple[Report, Report]]

TOKENS = 20_000
MODEL = "nemotron-super"
# Near it, and nobody's.
UNKNOWN = Head("unknown", 4224, 130560)
SEARCH = {"FUSED_LMHEAD_TUNING": "search"}

# Of NovaSky-AI/SkyRL #2373 and #2374, on an H100.
REFERENCE = {
    "cold, empty caches": "13.27 s",
    "same bucket": "6.13 ms",
    "new bucket": "4.66 s",
    "median first call over the sweep": "14.9 s",
}


# In the order of the two processes' calls.
FIGURES = (
    "cold, empty caches",
    "same bucket",
    "new bucket",
    "cold, caches on disk",
    "known bucket, caches on disk",
)


def shown(milliseconds: float) -> str:
    """A time in the unit that suits it."""
    return f"{milliseconds / 1000:.2f} s" if milliseconds >= 1000 else f"{milliseconds:.2f} ms"


def rows_of(pairs: Pairs) -> list[Row]:
    """(what, median ms, compilations, candidates) of one variant's pairs of processes.

    The counts are the first pair's.
    """
    calls = [[*cold["calls"], *warm["calls"]] for cold, warm in pairs]
    return [
        (
            name,
            statistics.median(call["ms"] for call in alike),
            alike[0]["compilations"],
            alike[0]["candidates"],
        )
        for name, alike in zip(FIGURES, zip(*calls, strict=True), strict=True)
    ]


def counts(row: Row) -> str:
    """Kernels compiled and schedules tried, such as ``4 + 14``."""
    return " + ".join("-" if count is None else str(count) for count in row[2:])


def heading(device: str, head: Head, other: Head, variants: Sequence[Pairs]) -> str:
    """What the table shows: the lines above it. ``other`` is the head that is searched."""
    without, entropy, searched = map(len, variants)
    return "\n".join(
        [
            f"{device}; H {head.hidden}, V {head.vocab}; {TOKENS:,} tokens,",
            f"{TOKENS + 1:,} in the same bucket, {2 * TOKENS:,} in a new one; searched for",
            f"H {other.hidden}, V {other.vocab}. Medians of pairs of processes:",
            f"{without} without entropy, {entropy} with it, {searched} searched.",
        ]
    )


def table(variants: Sequence[Sequence[Row]], sweep: Sequence[float]) -> str:
    """Markdown: a row a figure, the variants beside each other."""
    lines = [
        "| first call | log-prob | with entropy | compiled + tried | searched | compiled + tried "
        "| reference (H100) |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for logprob, entropy, searched in zip(*variants, strict=True):
        cells = [logprob[0], shown(logprob[1]), shown(entropy[1]), counts(entropy)]
        cells += [shown(searched[1]), counts(searched), REFERENCE.get(logprob[0], "-")]
        lines.append("| " + " | ".join(cells) + " |")
    if sweep:
        name = "median first call over the sweep"
        middle = shown(statistics.median(sweep))
        lines.append(
            f"| {name}, {len(sweep)} shapes | - | {middle} | - | - | - | {REFERENCE[name]} |"
        )
    return "\n".join(lines)


def swept(device: Device, seconds: float) -> list[float]:
    """ms of the first call of each shape, with entropy, each in a process without caches.

    Stops when ``seconds`` are over.
    """
    ends = time.monotonic() + seconds
    shapes = spread_shapes() if device == "gpu" else SMOKE[:1]
    found = []
    for shape in shapes:
        left = ends - time.monotonic()
        if left <= 0:
            break
        call = Call(tokens=shape.m, h=shape.h, v=shape.v, entropy=True)
        with tempfile.TemporaryDirectory(prefix="lmhead-probe-") as folder:
            report = first_calls(Path(folder), Path.cwd(), device, [call], timeout_s=left + 60)
        found.append(float(report["calls"][0]["ms"]))
        print(f"{shape.label}: {shown(found[-1])}", file=sys.stderr)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the probe; exit status 1, with a reason, where a process fails."""
    parser = argparse.ArgumentParser(
        prog="python -m asv_benchmarks.probe", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--minutes", type=float, default=6.0, help="for the shapes of the sweep")
    chosen = parser.parse_args(arguments)
    try:
        gpu = visible_gpu()
        device: Device = "cpu" if gpu is None else "gpu"
        head = BY_NAME[MODEL if gpu else SMOKE[0].model]
        other = UNKNOWN if gpu else head
        asked = ((head, False, None), (head, True, None), (other, True, SEARCH))
        variants = [
            cold_and_warm(
                Path.cwd(),
                device,
                TOKENS,
                wanted.hidden,
                wanted.vocab,
                entropy=entropy,
                variables=variables,
            )
            for wanted, entropy, variables in asked
        ]
        sweep = swept(device, chosen.minutes * 60)
    except (FreshProcessError, DeviceError) as error:
        print(f"probe: {error}", file=sys.stderr)
        return 1
    print(heading(gpu.name if gpu else "CPU", head, other, variants), end="\n\n")
    print(table([rows_of(pairs) for pairs in variants], sweep))
    return 0


if __name__ == "__main__":
    sys.exit(main())
