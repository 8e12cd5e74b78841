"""Which Triton this is: some of what is used of it holds for certain releases only."""

from __future__ import annotations

import re
from functools import cache

import triton


@cache
def triton_release() -> tuple[int, int]:
    """Major and minor version of Triton; (0, 0) where it does not tell them."""
    found = re.match(r"(\d+)\.(\d+)", triton.__version__)
    return (0, 0) if found is None else (int(found[1]), int(found[2]))


def speaks_gluon() -> bool:
    """Whether the specialised kernels compile: Gluon is experimental and changes with releases.

    They are written and measured in 3.6; elsewhere the tile kernels serve.
    """
    return triton_release() == (3, 6)
