"""Functions that torch.compile calls instead of tracing them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


def untraced(function: Callable[P, R]) -> Callable[P, R]:
    """``function``, at which torch.compile breaks the graph and goes on behind it.

    What makes collective calls, reads a layout on the host or launches Triton's kernels gains
    nothing from being traced, and packed batches of ever other lengths would be compiled anew
    until torch gives up. As the decorator of ``torch.compiler`` does, but the second that
    importing the compiler takes is only paid where something is compiled.
    """

    # A list, since functools.cache is traced through, and one object, since another each time
    # would be compiled for each time.
    disabled: list[Callable[P, R]] = []

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if not torch.compiler.is_compiling():
            return function(*args, **kwargs)
        if not disabled:
            disabled.append(torch.compiler.disable(function))  # type: ignore[no-untyped-call]
        return disabled[0](*args, **kwargs)

    return call
