"""Which series a tier measures, as asv's ``--bench``: ``python -m asv_benchmarks.tiers core``.

asv matches the expression against ``name(params)`` and starts no process for what does
not match. A tier selects among constant parameters; it never changes them, nor anything
else of a series. No torch here: asv itself imports this module.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from asv_benchmarks.workloads import (
    SIX,
    SMOKE,
    Device,
    Workload,
    local_shapes,
    pair_layouts,
    spread_shapes,
)

FORWARD = "forward.Forward.track_time"
FORWARD_ENTROPY = "entropy.ForwardEntropy.track_time"
FORWARD_BACKWARD = "backward.ForwardBackward.track_time"
FORWARD_BACKWARD_ENTROPY = "entropy_backward.ForwardBackwardEntropy.track_time"
TWO_PASS = "entropy.TwoPass.track_time"
TWO_PASS_BACKWARD = "entropy_backward.TwoPassBackward.track_time"
FIVE_STAGES = "fixed.FiveStages.track_time"
THREE_STAGES = "fixed.ThreeStages.track_time"
CHUNKED = "chunked.Chunked.track_time"
MATERIALISED = "materialised.Materialised.track_time"
MATERIALISED_BACKWARD = "materialised.MaterialisedBackward.track_time"
CONTROL = "control.Control.track_time"
BANDWIDTH = "bandwidth.Bandwidth.track_rate"
ACTIVE = "activity.ForwardBackwardEntropyActive.track_time"
ACTIVE_TWO_PASS = "activity.TwoPassBackwardActive.track_time"
HOST = "host.Host.track_time"
MEMORY = ("memory.Forward.track_bytes", "memory.ForwardBackward.track_bytes")
ACCURACY = tuple(
    f"accuracy.{name}.track_error"
    for name in ("LogProb", "Entropy", "HiddenGradient", "WeightGradient")
)
COMPILE = tuple(
    f"compile.{name}"
    for name in (
        "Cold.track_time",
        "WarmDisk.track_time",
        "KnownBucket.track_time",
        "SameBucket.track_time",
        "NewBucket.track_time",
        "Compilations.track_count",
        "Candidates.track_count",
        "Registers.track_count",
        "Spills.track_count",
        "SharedMemory.track_bytes",
    )
)
PARALLEL = (
    "parallel.Forward.track_time",
    "parallel.ForwardBackward.track_time",
    "parallel.CollectiveShare.track_share",
)

# Those of the shipped history, and those that came after it.
FIRST = (FORWARD, FORWARD_ENTROPY, FORWARD_BACKWARD, TWO_PASS, CONTROL)
FURTHER = (
    FORWARD_BACKWARD_ENTROPY,
    TWO_PASS_BACKWARD,
    FIVE_STAGES,
    THREE_STAGES,
    CHUNKED,
    MATERIALISED,
    MATERIALISED_BACKWARD,
)

SMALL = Workload("nemotron-super", 2048, 8)
SUPER = Workload("nemotron-super", 8192, 1)
SUPER_TP4 = Workload("nemotron-super", 8192, 4)
QWEN = Workload("qwen3.6-35b-a3b", 8192, 1)
PROBE = Workload("nemotron-super", 20000, 1)
TINY = SMOKE[0]
ACTIVITIES = (100, 95, 73, 64, 23)


@dataclass(frozen=True, slots=True)
class Selection:
    """Benchmarks by name, and what asv prints between the parentheses for their parameters."""

    benchmarks: tuple[str, ...]
    params: tuple[str, ...]

    def series(self) -> Iterator[tuple[str, str]]:
        """(benchmark, params) of each series."""
        for benchmark in self.benchmarks:
            for params in self.params:
                yield benchmark, params


def select(workloads: Iterable[Workload], *benchmarks: str) -> Selection:
    """Benchmarks on shapes."""
    return Selection(benchmarks, tuple(workload.label for workload in workloads))


def active(workload: Workload, shares: Iterable[int], *benchmarks: str) -> Selection:
    """Benchmarks of activity on a shape, at these shares in percent."""
    return Selection(benchmarks, tuple(f"{workload.label}, {share}" for share in shares))


BANDWIDTH_OF_4_GIB = Selection((BANDWIDTH,), ("4",))
_PAIRED = tuple(dict.fromkeys(layout.local for layout in pair_layouts()))

TIERS: dict[str, tuple[Selection, ...]] = {
    # Runs anywhere, within two minutes on a CPU.
    "smoke": (
        select(SMOKE, *FIRST),
        select((TINY,), *FURTHER, HOST, *MEMORY, *ACCURACY, *COMPILE),
        active(TINY, (100, 23), ACTIVE, ACTIVE_TWO_PASS),
        Selection((BANDWIDTH,), ("0.0625",)),
    ),
    "six": (select(SIX, *FIRST),),
    # Every commit: six minutes on one H200 at three rounds.
    "core": (
        select(SIX, *FIRST),
        select((SUPER_TP4, QWEN), FORWARD_BACKWARD_ENTROPY, FIVE_STAGES),
        select((SUPER_TP4,), TWO_PASS_BACKWARD, CHUNKED, MATERIALISED),
        active(SUPER_TP4, (23,), ACTIVE),
        select((SMALL,), HOST, *ACCURACY),
        select((SUPER,), *MEMORY),
        select((PROBE,), *COMPILE),
        BANDWIDTH_OF_4_GIB,
    ),
    "full": (
        select(local_shapes(), CONTROL, FORWARD_ENTROPY, FIVE_STAGES, TWO_PASS),
        active(SUPER_TP4, ACTIVITIES, ACTIVE, ACTIVE_TWO_PASS),
        select((PROBE,), *COMPILE),
        select((SMALL, TINY), HOST),
        select((SMALL, SUPER_TP4), *ACCURACY),
        BANDWIDTH_OF_4_GIB,
        select(SIX, FORWARD, FORWARD_BACKWARD),
        select(spread_shapes(), FORWARD, FORWARD_BACKWARD, *FURTHER),
        select(spread_shapes(), *MEMORY),
    ),
    # Combined against two passes, and nothing else.
    "pairs": (select(_PAIRED, FORWARD_ENTROPY, TWO_PASS),),
    # Two GPUs of one host, one vocabulary.
    "parallel": (select((replace(SUPER, tp=2), replace(QWEN, tp=2)), *PARALLEL),),
}

# What a run without --bench measures.
DEFAULT_TIER: dict[Device, str] = {"gpu": "core", "cpu": "smoke"}


def series_of(tier: str) -> tuple[tuple[str, str], ...]:
    """(benchmark, params) of every series of a tier, each once, in the tier's order."""
    return tuple(dict.fromkeys(pair for part in TIERS[tier] for pair in part.series()))


def expression_of(series: Iterable[tuple[str, str]]) -> str:
    """The regular expression that selects exactly these (benchmark, params)."""
    benchmarks: dict[str, list[str]] = {}
    for benchmark, params in series:
        benchmarks.setdefault(benchmark, []).append(params)
    alike: dict[tuple[str, ...], list[str]] = {}
    for benchmark, listed in benchmarks.items():
        alike.setdefault(tuple(listed), []).append(benchmark)
    parts = [
        rf"(?:{'|'.join(map(re.escape, names))})\((?:{'|'.join(map(re.escape, listed))})\)"
        for listed, names in alike.items()
    ]
    return f"^(?:{'|'.join(parts)})$"


def expression(tier: str, benchmarks: str | None = None) -> str:
    """The regular expression that selects a tier.

    ``benchmarks``: only benchmarks whose name the expression matches, from its
    beginning; for example ``forward`` or ``entropy|control``. Raises ValueError where
    none does.
    """
    chosen = [
        pair for pair in series_of(tier) if benchmarks is None or re.match(benchmarks, pair[0])
    ]
    if not chosen:
        raise ValueError(f"the tier {tier!r} has no benchmark named like {benchmarks!r}")
    return expression_of(chosen)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the expression."""
    parser = argparse.ArgumentParser(
        prog="python -m asv_benchmarks.tiers",
        description='asv run --bench "$(python -m asv_benchmarks.tiers smoke)"',
    )
    parser.add_argument("tier", choices=sorted(TIERS))
    parser.add_argument("--benchmarks", metavar="REGEX", help="only benchmarks named like this")
    parser.add_argument("--list", action="store_true", help="print the series instead, one a line")
    chosen = parser.parse_args(arguments)
    if chosen.list:
        for benchmark, params in series_of(chosen.tier):
            print(f"{benchmark}({params})")
        return
    try:
        print(expression(chosen.tier, chosen.benchmarks))
    except ValueError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
