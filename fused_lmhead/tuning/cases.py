"""One case of tuning, and where its schedule comes from: the mode, the shipped table."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal, get_args

import torch

from fused_lmhead.schedules import Gpu, Schedule, token_bucket

Kernel = Literal["forward", "backward"]
Mode = Literal["off", "table", "search"]

VARIABLE = "FUSED_LMHEAD_TUNING"
TABLE = "table.json"
MOST_TOKENS = 16_384
"""A search runs on no more tokens than this, so the table has no bucket above it either."""


@dataclass(frozen=True, slots=True)
class Case:
    """What a schedule is chosen for: everything that changes code or its best tiles."""

    kernel: Kernel
    gpu: str
    bucket: int
    """Tokens, a power of two, see :func:`fused_lmhead.schedules.token_bucket`."""
    h: int
    v: int
    dtype: torch.dtype
    entropy: bool
    """The forward pass computes it, the backward pass differentiates it."""
    tma: bool
    """Rows are aligned for bulk copies, and the GPU has them."""

    @classmethod
    def of(
        cls, kernel: Kernel, gpu: Gpu, m: int, h: int, v: int, dtype: torch.dtype, entropy: bool
    ) -> Case:
        """The case of ``m`` tokens."""
        tma = gpu.tma and h * dtype.itemsize % 16 == 0
        return cls(kernel, gpu.name, token_bucket(m), h, v, dtype, entropy, tma)


def mode() -> Mode:
    """What ``FUSED_LMHEAD_TUNING`` says; looked at where a case is first met.

    Raises:
        ValueError: it says something else.
    """
    value = os.environ.get(VARIABLE, "table")
    for known in get_args(Mode):
        if value == known:
            return known  # type: ignore[no-any-return]
    raise ValueError(f"{VARIABLE} must be off, table or search, got {value!r}")


Table = dict[tuple[str, str, int, int, int], list[tuple[bool, int, Schedule]]]
"""(kernel, gpu, h, v, element size) -> measured (entropy, bucket, schedule)."""


def read_table(rows: list[dict[str, Any]]) -> Table:
    """The table of rows as ``table.json`` has them."""
    table: Table = {}
    for row in rows:
        key = (row["kernel"], row["gpu"], row["h"], row["v"], row["element_size"])
        entry = (row["entropy"], row["tokens"], Schedule(**row["schedule"]))
        table.setdefault(key, []).append(entry)
    return table


@cache
def shipped_table() -> Table:
    """The measured schedules that come with the package."""
    text = resources.files(__package__).joinpath(TABLE).read_text(encoding="utf-8")
    return read_table(json.loads(text)["rows"])


def look_up(case: Case, table: Table) -> Schedule | None:
    """The measured schedule of the case; None for an unknown GPU or head.

    The nearest measured bucket stands for the others, and one entropy flag for the other.
    """
    key = (case.kernel, case.gpu, case.h, case.v, case.dtype.itemsize)
    if not case.tma or key not in table:
        return None

    def distance(entry: tuple[bool, int, Schedule]) -> tuple[bool, int]:
        entropy, tokens, _ = entry
        wanted = min(case.bucket, MOST_TOKENS)
        return entropy != case.entropy, abs(tokens.bit_length() - wanted.bit_length())

    return min(table[key], key=distance)[2]
