"""What a caller may pass, and the errors that name what not."""

from __future__ import annotations

from numbers import Integral, Real

import torch
from torch.autograd import forward_ad

# Beyond these the fp32 logits overflow or are all alike.
_TEMPERATURES = (1e-6, 1e6)
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def _is_integer(value: object) -> bool:
    # An abstract class alone is slow to ask.
    return type(value) is int or isinstance(value, Integral)


def check_options(temperature: float, ignore_index: int | None, chunk_size: int) -> None:
    """Raises TypeError or ValueError, naming the option."""
    low, high = _TEMPERATURES
    if type(temperature) is not float and not isinstance(temperature, Real):
        raise TypeError(f"temperature must be a number, got {temperature!r}")
    if not low <= temperature <= high:  # NaN neither
        raise ValueError(f"temperature must be from {low:g} to {high:g}, got {temperature!r:.40}")
    for name, value in (("ignore_index", ignore_index), ("chunk_size", chunk_size)):
        if not ((value is None and name == "ignore_index") or _is_integer(value)):
            raise TypeError(f"{name} must be an integer, got {value!r}")
    if ignore_index is not None and not -(2**63) <= ignore_index < 2**63:
        raise ValueError(f"ignore_index must fit 64 bits, got {ignore_index}")
    if chunk_size < 1:
        raise ValueError(f"chunk_size must be at least 1, got {chunk_size}")


def check_budgets(backward_budget: int, keep_logits_budget: int) -> None:
    """Bytes; raises TypeError or ValueError, naming the budget."""
    budgets = (
        ("backward_budget", backward_budget, 1),
        ("keep_logits_budget", keep_logits_budget, 0),
    )
    for name, value, least in budgets:
        if not _is_integer(value):
            raise TypeError(f"{name} must be an integer, got {value!r}")
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")


def refuse_transforms() -> None:
    """Raises RuntimeError under a transform of torch.func."""
    # What autograd.Function itself asks before it fails with an error of its own.
    if torch._C._are_functorch_transforms_active():
        raise RuntimeError(
            "fused_linear_logprob works under no torch.func transform (grad, vmap, jvp, ...): "
            "use torch.autograd and leading dimensions, or backend='reference'"
        )


def has_tangent(tensor: torch.Tensor) -> bool:
    """Of forward-mode differentiation, which the autograd Function refuses."""
    if forward_ad._current_level < 0:  # as unpack_dual asks first, in less time than its call
        return False
    dual = forward_ad.unpack_dual(tensor)  # type: ignore[no-untyped-call]
    return dual.tangent is not None


def check_tensors(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> None:
    """hidden [..., H], weight [V, H], target [...].

    Raises TypeError or ValueError, naming what is wrong.
    """
    for name, tensor in (("hidden", hidden), ("weight", weight), ("target", target)):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} must be a torch.Tensor, got {type(tensor).__name__}")
    for name, dtype in (("hidden", hidden.dtype), ("weight", weight.dtype)):
        if dtype not in _FLOATS:
            raise TypeError(f"{name} must be float32, float16 or bfloat16, got {dtype}")
    kind = target.dtype
    if kind is not torch.int64 and (
        kind.is_floating_point or kind.is_complex or kind is torch.bool
    ):
        raise TypeError(f"target must have an integer dtype, got {kind}")
    # Read once: each makes a new object.
    shape, matrix, device = hidden.shape, weight.shape, weight.device
    if len(matrix) != 2 or 0 in matrix:
        raise ValueError(f"weight must be [V, H] and not empty, got shape {tuple(matrix)}")
    if not shape or shape[-1] != matrix[1]:
        raise ValueError(
            f"hidden {tuple(shape)} must end in weight's hidden size "
            f"{matrix[1]} (weight {tuple(matrix)})"
        )
    if shape[:-1] != target.shape:
        raise ValueError(
            f"target {tuple(target.shape)} must have hidden's leading shape {tuple(shape[:-1])}"
        )
    if not hidden.device == device == target.device:
        raise ValueError(
            "hidden, weight and target must be on one device, got "
            f"{hidden.device}, {device}, {target.device}"
        )
