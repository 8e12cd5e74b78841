"""What is measured: LM heads, token counts and layouts. Append-only.

Legend: M tokens on this rank, H hidden, V vocabulary of this rank's shard,
TP tensor (vocabulary) parallel ranks, CP context (token) parallel ranks.

A series is a *local shape*: a layout of total tokens over TP x CP ranks is
measured as the one rank's ``Workload(model, tokens=total / CP, tp=TP)``, so
200 logical cases share 104 series. The parameters asv sees are constants: they
never depend on hardware or on a tier, since a shorter list would erase stored
values. No torch here: asv itself imports this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Device = Literal["gpu", "cpu"]


@dataclass(frozen=True, slots=True)
class Head:
    """A model's LM head: ``weight [vocab, hidden]``."""

    name: str
    hidden: int
    vocab: int
    smoke: bool = False


HEADS: tuple[Head, ...] = (
    Head("nemotron-ultra", 8192, 131072),
    Head("nemotron-super", 4096, 131072),
    Head("qwen3.6-35b-a3b", 2048, 248320),
    Head("kimi-k2", 7168, 163840),
    # Models of their own, so that no laptop number enters a real head's series. The
    # second divides by no tile: it takes every kernel's remainder paths.
    Head("smoke", 64, 1000, smoke=True),
    Head("smoke-odd", 96, 4099, smoke=True),
)
BY_NAME = {head.name: head for head in HEADS}

MODELS: tuple[str, ...] = tuple(head.name for head in HEADS)
TOKENS: tuple[int, ...] = (2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144)
TENSOR_PARALLEL: tuple[int, ...] = (1, 2, 4, 8)

SMOKE_TOKENS = 2048

# Of what `inputs.py` makes; every record says so.
SEED = 20250607
DISTRIBUTION = (
    f"hidden N(0, 1), weight N(0, 1/H), targets uniform, upstream gradients N(0, 1), seed {SEED}"
)


@dataclass(frozen=True, slots=True)
class Workload:
    """One rank's share: the parameters of a series."""

    model: str
    tokens: int
    tp: int

    @property
    def m(self) -> int:
        """Tokens on this rank."""
        return self.tokens

    @property
    def h(self) -> int:
        """Hidden size."""
        return BY_NAME[self.model].hidden

    @property
    def v(self) -> int:
        """Rows of this rank's weight shard."""
        return BY_NAME[self.model].vocab // self.tp

    @property
    def label(self) -> str:
        """As asv prints the parameters: ``'nemotron-super', 8192, 1``."""
        return f"{self.model!r}, {self.tokens!r}, {self.tp!r}"


@dataclass(frozen=True, slots=True)
class Layout:
    """A logical case: ``tokens`` in all, over ``tp`` x ``cp`` ranks."""

    model: str
    tokens: int
    tp: int
    cp: int

    @property
    def local(self) -> Workload:
        """The series that measures it."""
        return Workload(self.model, self.tokens // self.cp, self.tp)


SWEEP_MODELS = ("nemotron-ultra", "nemotron-super", "qwen3.6-35b-a3b", "kimi-k2")
SWEEP_TOKENS = (16384, 32768, 65536, 131072, 262144)
SWEEP_SPLITS = tuple((tp, cp) for tp in (1, 2, 4, 8) for cp in (1, 2, 4, 8) if tp * cp <= 8)


def sweep() -> Iterator[Layout]:
    """The 200 logical cases."""
    for model in SWEEP_MODELS:
        for tokens in SWEEP_TOKENS:
            for tp, cp in SWEEP_SPLITS:
                yield Layout(model, tokens, tp, cp)


def local_shapes() -> tuple[Workload, ...]:
    """The 104 distinct local shapes of the sweep, in parameter order."""
    distinct = {layout.local for layout in sweep()}
    return tuple(
        sorted(distinct, key=lambda w: (MODELS.index(w.model), w.tokens, w.tp)),
    )


PAIR_SPLITS = ((1, 1), (2, 1), (4, 1), (8, 1), (4, 2), (1, 8))


def pair_layouts() -> tuple[Layout, ...]:
    """The 120 points at which a combined pass is held against two passes."""
    return tuple(
        Layout(model, tokens, tp, cp)
        for model in SWEEP_MODELS
        for tokens in SWEEP_TOKENS
        for tp, cp in PAIR_SPLITS
    )


SPREAD_POINTS = ((2048, 1), (8192, 1), (8192, 4), (16384, 1), (16384, 8), (65536, 2), (262144, 8))


def spread_shapes() -> tuple[Workload, ...]:
    """28 of the 104: seven (tokens, TP) a head, from the smallest to the longest."""
    return tuple(
        Workload(model, tokens, tp) for model in SWEEP_MODELS for tokens, tp in SPREAD_POINTS
    )


SMOKE: tuple[Workload, ...] = (
    Workload("smoke", SMOKE_TOKENS, 1),
    Workload("smoke-odd", SMOKE_TOKENS, 1),
)

# The shapes whose ceilings are published.
SIX: tuple[Workload, ...] = (
    Workload("nemotron-ultra", 8192, 1),
    Workload("nemotron-super", 8192, 1),
    Workload("qwen3.6-35b-a3b", 8192, 1),
    Workload("kimi-k2", 8192, 1),
    Workload("nemotron-super", 16384, 4),
    Workload("qwen3.6-35b-a3b", 32768, 4),
)


def runs_on(workload: Workload, device: Device) -> bool:
    """Whether the combination exists and is within this device's means.

    Parameters are a full product, so most combinations of a smoke model are
    void; a real head would take a CPU minutes a call.
    """
    head = BY_NAME[workload.model]
    if head.smoke:
        return (workload.tokens, workload.tp) == (SMOKE_TOKENS, 1)
    return device == "gpu" and head.vocab % workload.tp == 0
