"""The public function: validate, pick a backend, restore shapes."""

from __future__ import annotations

import importlib.util
from dataclasses import asdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, overload

import torch

from fused_lmhead.arguments import (
    check_budgets,
    check_options,
    check_tensors,
    has_tangent,
    refuse_transforms,
)
from fused_lmhead.autograd import FusedLinearLogprob, run_forward, without_autocast
from fused_lmhead.chunked import ChunkedBackend
from fused_lmhead.memory import backward_cut
from fused_lmhead.reference import reference_linear_logprob
from fused_lmhead.schedules import BACKWARD_WORKSPACE, Schedule

if TYPE_CHECKING:
    from fused_lmhead.launch import TritonBackend

BackendName = Literal["auto", "triton", "torch", "reference"]


@overload
def fused_linear_logprob(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    *,
    temperature: float = ...,
    return_entropy: Literal[False] = ...,
    entropy_requires_grad: bool = ...,
    ignore_index: int | None = ...,
    backend: BackendName = ...,
    chunk_size: int = ...,
    schedule: Schedule | None = ...,
    backward_budget: int = ...,
    keep_logits_budget: int = ...,
) -> torch.Tensor: ...


@overload
def fused_linear_logprob(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    *,
    return_entropy: Literal[True],
    temperature: float = ...,
    entropy_requires_grad: bool = ...,
    ignore_index: int | None = ...,
    backend: BackendName = ...,
    chunk_size: int = ...,
    schedule: Schedule | None = ...,
    backward_budget: int = ...,
    keep_logits_budget: int = ...,
) -> tuple[torch.Tensor, torch.Tensor]: ...


def fused_linear_logprob(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    *,
    temperature: float = 1.0,
    return_entropy: bool = False,
    entropy_requires_grad: bool = False,
    ignore_index: int | None = None,
    backend: BackendName = "auto",
    chunk_size: int = 1024,
    schedule: Schedule | None = None,
    backward_budget: int = BACKWARD_WORKSPACE,
    keep_logits_budget: int = 0,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Per-token log-probability (and entropy) of an LM head, without its logits.

    Equivalent to, with ``z = (hidden @ weight.T).float() / temperature``::

        logprob = log_softmax(z, -1).gather(-1, target[..., None])[..., 0]
        entropy = -(softmax(z, -1) * log_softmax(z, -1)).sum(-1)

    except that the triton backend never rounds the logits to the inputs' dtype. The product
    is in the weight's dtype, under autocast too. torch.compile traces it without a graph break.
    There is no second derivative, no forward-mode one, and no torch.func transform but with
    the reference backend.

    A logit of -inf has probability 0 and adds nothing to the entropy; in the triton backend's
    entropy only where a whole tile of columns is -inf: one beside finite logits makes it NaN.
    A row whose logits are all -inf has log-prob and entropy NaN.

    Args:
        hidden: [..., H], fp32, fp16 or bf16; cast to the weight's dtype. Any strides.
        weight: [V, H], fp32, fp16 or bf16, on hidden's device.
        target: [...], an integer dtype. A target outside [0, V) gets log-prob 0 and
            the gradient of ``-logsumexp(z)``; nothing is read out of bounds.
        temperature: divides the logits; from 1e-6 to 1e6.
        return_entropy: also return the entropy in nats. Costs nothing if False.
        entropy_requires_grad: make the entropy differentiable; otherwise it is
            marked non-differentiable and costs no gradient work.
        ignore_index: a target of this value gets log-prob 0 and no log-prob
            gradient; its entropy is computed all the same.
        backend: "triton" (CUDA; CPU under TRITON_INTERPRET=1), "torch" (any device,
            chunked over tokens), "reference" (materialises fp32 logits), or "auto":
            triton for CUDA tensors where it is installed, else torch.
        chunk_size: tokens per chunk of the torch backend, at least 1.
        schedule: the tiles of the triton backend, instead of its own choice.
        backward_budget: bytes of logit gradient that the triton backend holds at once in its
            backward pass; default 1 GiB. At least 16 columns of it must fit, or as many tokens
            as a tile has. Beside it the pass holds the gradients and, unless all of it fits,
            4·min(M, V)·H bytes (4·M·H if a tile's tokens do not fit, or with kept logits).
        keep_logits_budget: bytes that a forward pass of the triton backend may keep for its
            backward pass; default 0. Where all logits fit (M·V elements of the weight's dtype,
            and 4 bytes a token and tile of columns), the backward pass saves one of its three
            products. They are kept as softmax numerators: of 16 bits, each probability in the
            gradients then errs by up to half a step of its dtype, like the gradient of the
            logits itself (fp16: or 3e-8 of the tile's largest). Results and fp32 gradients
            stay the same. Without gradients to come nothing is kept.

    Returns:
        log-probabilities, fp32, of target's shape; with ``return_entropy`` a pair of
        them and the entropies, fp32, of the same shape.

    Raises:
        TypeError: an argument is no tensor or has an unsupported dtype.
        ValueError: shapes, devices, temperature, chunk size or option do not fit.
        RuntimeError: the backend cannot run here (no triton, no GPU), or not under torch.func.
    """
    check_tensors(hidden, weight, target)
    check_options(temperature, ignore_index, chunk_size)
    check_budgets(backward_budget, keep_logits_budget)
    if entropy_requires_grad and not return_entropy:
        raise ValueError("entropy_requires_grad=True needs return_entropy=True")
    if schedule is not None and not isinstance(schedule, Schedule):
        raise TypeError(f"schedule must be a fused_lmhead.schedules.Schedule, got {schedule!r}")

    # Each of these calls takes the host's time, needed or not.
    hidden_MH = hidden if hidden.dtype is weight.dtype else hidden.to(weight.dtype)
    target_M = target.long()
    if target.ndim != 1:
        hidden_MH, target_M = hidden_MH.reshape(-1, weight.shape[1]), target_M.reshape(-1)
    logprob_M: torch.Tensor
    entropy_M: Any
    if backend == "reference":
        with without_autocast(weight.device):
            logprob_M, entropy_M = reference_linear_logprob(
                hidden_MH,
                weight,
                target_M,
                temperature=float(temperature),
                ignore_index=ignore_index,
                entropy_requires_grad=entropy_requires_grad,
            )
    else:
        learns = torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)
        kept_budget = int(keep_logits_budget) if learns else 0
        if torch.compiler.is_compiling():
            logprob_M, entropy_M, *_ = torch.ops.fused_lmhead.linear_logprob(
                hidden_MH,
                weight,
                target_M,
                float(temperature),
                ignore_index,
                return_entropy,
                entropy_requires_grad,
                backend,
                int(chunk_size),
                *_plain(schedule),
                int(backward_budget),
                kept_budget,
            )
        else:
            refuse_transforms()
            problem = (
                hidden_MH.contiguous(),
                weight.contiguous(),
                target_M.contiguous(),
                _backend(backend, weight, chunk_size, schedule, backward_budget, kept_budget),
                float(temperature),
                ignore_index,
                return_entropy,
            )
            if learns or has_tangent(hidden) or has_tangent(weight):
                logprob_M, entropy_M = FusedLinearLogprob.apply(  # type: ignore[no-untyped-call]
                    *problem, entropy_requires_grad
                )
            else:  # without the host time of an autograd Function
                logprob_M, statistics = run_forward(*problem)
                entropy_M = statistics.entropy_M
    if target.ndim != 1:
        logprob_M = logprob_M.reshape(target.shape)
        entropy_M = entropy_M.reshape(target.shape) if return_entropy else None
    return (logprob_M, entropy_M) if return_entropy else logprob_M


def describe_schedule(
    m: int, h: int, v: int, dtype: torch.dtype, device: torch.device | str
) -> dict[str, int]:
    """What the triton backend chooses for ``m`` tokens (at least 1), H ``h`` and V ``v``.

    Returns:
        tile sizes, warps, stages and tokens per forward launch; of a backward pass with the
        default budget and both gradients tokens per block, and columns where those are all
        tokens (else the blocks have all columns).

    Raises:
        ModuleNotFoundError: triton is not installed.
    """
    from fused_lmhead.tuning import plan_for

    plan = plan_for(m, h, v, dtype, torch.device(device), True)
    tile, columns = plan.backward, plan.columns_per_split
    cut = backward_cut(m, v, dtype.itemsize, tile, columns, BACKWARD_WORKSPACE)
    return {
        **asdict(plan.forward),
        "tokens_per_chunk": plan.tokens_per_chunk,
        "columns_per_split": columns,
        "tokens_per_split": cut.tokens,
    }


def _plain(schedule: Schedule | None) -> tuple[list[int], str]:
    """A schedule as an op can take it; see ``library.schedule_of``."""
    if schedule is None:
        return [], ""
    tile = [schedule.block_m, schedule.block_n, schedule.block_k, schedule.group_m]
    return [*tile, schedule.num_warps, schedule.num_stages], schedule.kind


def _backend(
    name: BackendName,
    weight: torch.Tensor,
    chunk_size: int,
    schedule: Schedule | None,
    backward_budget: int = BACKWARD_WORKSPACE,
    keep_logits_budget: int = 0,
) -> TritonBackend | ChunkedBackend:
    has_triton = importlib.util.find_spec("triton") is not None
    if name == "auto":
        name = "triton" if weight.is_cuda and has_triton else "torch"
    if name == "torch":
        return ChunkedBackend(chunk_size)
    if name != "triton":
        raise ValueError(f"backend must be 'auto', 'triton', 'torch' or 'reference', got {name!r}")
    if not has_triton:
        raise RuntimeError("backend='triton' needs the triton package: pip install triton")
    if not weight.is_cuda:
        _check_interpreter(weight)
    options = (schedule, backward_budget, keep_logits_budget)
    if type(backward_budget) is int and type(keep_logits_budget) is int:
        return _triton_backend(*options)
    return _triton_backend.__wrapped__(*options)  # symbols of a trace have no hash


@lru_cache(64)
def _triton_backend(
    schedule: Schedule | None, backward_budget: int, keep_logits_budget: int
) -> TritonBackend:
    """One for all calls with these options: it is a value, and takes time to make."""
    # Imported here since triton is optional and costs a second.
    from fused_lmhead.launch import TritonBackend

    return TritonBackend(schedule, backward_budget, keep_logits_budget)


def _check_interpreter(weight: torch.Tensor) -> None:
    import triton

    if not (weight.device.type == "cpu" and triton.knobs.runtime.interpret):
        raise RuntimeError(
            f"backend='triton' needs CUDA tensors, got {weight.device} "
            "(CPU tensors run only under TRITON_INTERPRET=1)"
        )
    if weight.dtype is torch.bfloat16:
        raise RuntimeError(
            "Triton's interpreter computes bfloat16 products wrongly; use float32 or float16"
        )
