"""What is held against the product, and how each of it is called.

Legend: M tokens, H hidden, V vocabulary. Forward calls see the tensors without
``requires_grad``, backward calls the same storage with it. A package that is compared is
imported only when its call is prepared.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch

from asv_benchmarks.calls import BACKEND, fused_function
from asv_benchmarks.graph import Outputs
from asv_benchmarks.inputs import Inputs
from asv_benchmarks.nominal import Work
from asv_benchmarks.workloads import Device

Call = Callable[[], Outputs]
Pass = Literal["forward", "forward + backward"]

# Enough for the logits of every shape that is compared.
KEPT_BYTES = 64 * 2**30


@dataclass(frozen=True, slots=True)
class Peer:
    """A column of the table.

    ``first`` says what a call's first output is; of a backward call the gradients of hidden
    and weight follow. ``needs`` are importable names of other projects' packages.
    """

    name: str
    part: Pass
    work: Work
    first: Literal["logits", "logprob", "nll", "mean nll"]
    prepare: Callable[[Inputs, Device], Call]
    needs: tuple[str, ...] = ()
    note: str = ""

    @property
    def missing(self) -> tuple[str, ...]:
        """Those of ``needs`` that are not installed."""
        return tuple(name for name in self.needs if importlib.util.find_spec(name) is None)


def leaves(inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
    """Hidden and weight, in the storage of ``inputs``, as leaves that take gradients."""
    return inputs.hidden.detach().requires_grad_(), inputs.weight.detach().requires_grad_()


def forward(
    function: Callable[..., torch.Tensor | tuple[torch.Tensor, ...]], inputs: Inputs
) -> Call:
    """``function(hidden, weight, target)`` without gradients."""
    hidden_MH, weight_VH = inputs.hidden.detach(), inputs.weight.detach()

    def call() -> Outputs:
        with torch.no_grad():
            found = function(hidden_MH, weight_VH, inputs.target)
        return found if isinstance(found, tuple) else (found,)

    return call


def backward(
    function: Callable[..., torch.Tensor], inputs: Inputs, upstream: torch.Tensor | None
) -> Call:
    """``function(hidden, weight, target)`` and the gradients of hidden and weight.

    ``upstream``: the result's gradient ``[M]``; None for a scalar result.
    """
    hidden_MH, weight_VH = leaves(inputs)

    def call() -> Outputs:
        found = function(hidden_MH, weight_VH, inputs.target)
        gradients = torch.autograd.grad(found, (hidden_MH, weight_VH), upstream)
        return found.detach(), *gradients

    return call


def product(inputs: Inputs, device: Device) -> Call:
    """The library's product with its logits written: the unit of the table."""
    del device
    hidden_MH, weight_VH = inputs.hidden.detach(), inputs.weight.detach()
    logits_MV = hidden_MH.new_empty(hidden_MH.shape[0], weight_VH.shape[0])

    def call() -> Outputs:
        torch.matmul(hidden_MH, weight_VH.T, out=logits_MV)
        return (logits_MV,)

    return call


def _ours(device: Device, **options: Any) -> Callable[..., Any]:
    """Our function with keyword ``options``; NotImplementedError where it lacks one."""
    function = fused_function(importlib.import_module("fused_lmhead"), device, *options)

    def call(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> Any:
        return function(hidden, weight, target, backend=BACKEND[device], **options)

    return call


def ours_forward(inputs: Inputs, device: Device) -> Call:
    """Log-probs and entropy."""
    return forward(_ours(device, return_entropy=True), inputs)


def ours_backward(inputs: Inputs, device: Device) -> Call:
    """Log-probs, and gradients from recomputed logits."""
    return backward(_ours(device), inputs, inputs.upstream)


def _liger_cute(entropy: bool) -> Callable[..., Any]:
    # Its range check of the targets waits for the GPU; nothing could capture it.
    os.environ["LIGER_SCALED_CE_SM90_VALIDATE_TARGETS"] = "0"
    name = "liger_kernel.ops.cutedsl.ops.fused_scaled_cross_entropy_sm90"
    module: Any = importlib.import_module(name)
    apply: Callable[..., Any] = module.LigerFusedScaledCrossEntropySM90Function.apply

    def call(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> Any:
        # temperature, ignore_index, m_tiles_per_cluster, return_entropy
        return apply(hidden, weight, target, 1.0, -100, 1, entropy)

    return call


def _liger_triton(reduction: str) -> Callable[..., torch.Tensor]:
    module: Any = importlib.import_module("liger_kernel.ops.fused_linear_cross_entropy")
    apply: Callable[..., Any] = module.LigerFusedLinearCrossEntropyFunction.apply

    def call(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        # bias, ce_weight, ignore_index, lse_square_scale, label_smoothing, reduction
        loss: torch.Tensor = apply(hidden, weight, target, None, None, -100, 0.0, 0.0, reduction)[0]
        return loss

    return call


def _cce() -> Callable[..., torch.Tensor]:
    module: Any = importlib.import_module("cut_cross_entropy")

    def call(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        # By default it leaves out small gradients; with random inputs, nearly all of them.
        loss: torch.Tensor = module.linear_cross_entropy(
            hidden, weight, target, reduction="none", filter_eps=None
        )
        return loss

    return call


def _plain(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    logits_MV = torch.matmul(hidden, weight.T).float()
    return torch.nn.functional.cross_entropy(logits_MV, target, reduction="none")


def _compiled() -> Callable[..., torch.Tensor]:
    compiled: Callable[..., torch.Tensor] = torch.compile(_plain, fullgraph=True, dynamic=False)
    return compiled


_CUTE = ("liger_kernel", "cutlass")
_TRITON = ("liger_kernel", "triton")
_CCE = ("cut_cross_entropy", "triton")
_BOTH: Pass = "forward + backward"
_ONE, _THREE, _FOUR = Work(products=1), Work(products=3), Work(products=4)

PRODUCT = Peer("cuBLAS product", "forward", _ONE, "logits", product)
# Forward first: a long call heats the GPU for the next one only once a turn.
PEERS = (
    PRODUCT,
    Peer("ours", "forward", _ONE, "logprob", ours_forward, note="log-prob and entropy"),
    Peer(
        *("Liger SM90 CuTe", "forward", _ONE, "nll"),
        lambda inputs, device: forward(_liger_cute(entropy=False), inputs),
        needs=_CUTE,
        note="log-prob, targets unvalidated",
    ),
    Peer(
        *("Liger SM90 CuTe, entropy", "forward", _ONE, "nll"),
        lambda inputs, device: forward(_liger_cute(entropy=True), inputs),
        needs=_CUTE,
        note="log-prob and bf16 entropy, targets unvalidated",
    ),
    Peer(
        *("Liger Triton", "forward", _ONE, "nll"),
        lambda inputs, device: forward(_liger_triton("none"), inputs),
        needs=_TRITON,
        note="log-prob, logits of a chunk in memory",
    ),
    Peer(
        *("CCE", "forward", _ONE, "nll"),
        lambda inputs, device: forward(_cce(), inputs),
        needs=_CCE,
        note="log-prob",
    ),
    Peer(
        *("torch.compile", "forward", _ONE, "nll"),
        lambda inputs, device: forward(_compiled(), inputs),
        note="log-prob, logits in memory",
    ),
    Peer("ours", _BOTH, _FOUR, "logprob", ours_backward, note="recomputes logits"),
    Peer(
        *("ours, logits kept", _BOTH, _THREE, "logprob"),
        lambda inputs, device: backward(
            _ours(device, keep_logits_budget=KEPT_BYTES), inputs, inputs.upstream
        ),
        note="keep_logits_budget of 64 GiB",
    ),
    Peer(
        *("Liger SM90 CuTe", _BOTH, _FOUR, "nll"),
        lambda inputs, device: backward(_liger_cute(entropy=False), inputs, -inputs.upstream),
        needs=_CUTE,
        note="recomputes logits, targets unvalidated",
    ),
    Peer(
        *("Liger Triton, mean loss", _BOTH, _THREE, "mean nll"),
        lambda inputs, device: backward(_liger_triton("mean"), inputs, None),
        needs=_TRITON,
        note="one upstream gradient for all tokens: less than the others do",
    ),
    Peer(
        *("Liger Triton", _BOTH, _FOUR, "nll"),
        lambda inputs, device: backward(_liger_triton("none"), inputs, -inputs.upstream),
        needs=_TRITON,
        note="recomputes logits, those of a chunk in memory",
    ),
    Peer(
        *("CCE", _BOTH, _FOUR, "nll"),
        lambda inputs, device: backward(_cce(), inputs, -inputs.upstream),
        needs=_CCE,
        note="filter_eps=None: no gradient left out",
    ),
    Peer(
        *("torch.compile", _BOTH, _THREE, "nll"),
        lambda inputs, device: backward(_compiled(), inputs, -inputs.upstream),
        note="logits in memory",
    ),
)
