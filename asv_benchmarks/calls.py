"""How a measured commit's ``fused_lmhead`` is called; what it lacks is a skip."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from asv_benchmarks.workloads import Device, Workload

BACKEND: dict[Device, str] = {"gpu": "triton", "cpu": "torch"}
FUNCTION = "fused_linear_logprob"


def fused_function(fused_lmhead: ModuleType, device: Device, *options: str) -> Callable[..., Any]:
    """``fused_linear_logprob`` of the measured commit.

    Raises NotImplementedError where the commit lacks it, one of ``options``
    (keyword names) or, on a GPU, the Triton backend.
    """
    function: Callable[..., Any] | None = getattr(fused_lmhead, FUNCTION, None)
    if function is None:
        raise NotImplementedError(f"this commit has no {FUNCTION}")
    names = inspect.signature(function).parameters
    for option in ("backend", *options):
        if option not in names:
            raise NotImplementedError(f"{FUNCTION} of this commit takes no {option}")
    if device == "gpu" and importlib.util.find_spec(f"{fused_lmhead.__name__}.launch") is None:
        raise NotImplementedError("this commit has no Triton backend")
    return function


def describe_schedule(
    fused_lmhead: ModuleType, workload: Workload, device: Device
) -> dict[str, Any] | None:
    """What the commit says of the schedule it chooses; None where it does not tell."""
    describe = getattr(fused_lmhead, "describe_schedule", None)
    if describe is None or device == "cpu":
        return None
    from asv_benchmarks.inputs import dtype_of  # the frame itself works without torch

    return dict(describe(workload.m, workload.h, workload.v, dtype_of(device), "cuda"))
