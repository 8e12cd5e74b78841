"""What two ranks are asked as trainers would call; imported by name in their own processes.

Each probe is ``probe(rank)`` in a world of two and gives what its test looks at.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from parallel_cases import TWO, run_cases
from parallel_probes import PROBES, SPLIT, H, V, shard_of, the_problem
from torch.profiler import ProfilerActivity, profile

from fused_lmhead.parallel import (
    from_parallel_hidden_to_logprobs,
    from_parallel_hidden_to_logprobs_packed_sequences,
    vocab_parallel_logprob,
)

B, S = 3, 12
BUDGETS = {
    "default": {},
    "narrow": {"backward_budget": 6000},
    "kept": {"keep_logits_budget": 2**30},
}


def budgets(rank: int) -> dict[str, Any]:
    """Memory options of the Triton backend; what each saves for backward, by shape."""
    problem, found = the_problem(), {}
    for name, options in BUDGETS.items():
        hidden, weight, start, end = shard_of(rank)
        saved: list[tuple[int, ...]] = []

        def note(tensor: torch.Tensor, into: list[tuple[int, ...]] = saved) -> torch.Tensor:
            into.append(tuple(tensor.shape))
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            logprob, entropy = vocab_parallel_logprob(
                hidden,
                weight,
                problem.target,
                vocab_start_index=start,
                vocab_end_index=end,
                group=dist.group.WORLD,
                return_entropy=True,
                entropy_requires_grad=True,
                backend="triton",
                sum_hidden_gradient=True,
                **options,
            )
        upstream = (problem.grad_logprob, problem.grad_entropy)
        d_hidden, d_weight = torch.autograd.grad((logprob, entropy), (hidden, weight), upstream)
        found[name] = {
            "values": (logprob.detach(), entropy.detach()),
            "d_hidden": d_hidden,
            "d_weight": d_weight,
            "saved": saved,
        }
    return found


def whole_batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Hidden [B, S, H], weight [V, H], target [B, S]; logits of unit variance."""
    generator = torch.Generator().manual_seed(7)
    hidden = torch.randn(B, S, H, generator=generator)
    weight = torch.randn(V, H, generator=generator) * H**-0.5
    return hidden, weight, torch.randint(0, V, (B, S), generator=generator)


def batch_of(rank: int, shares: str) -> dict[str, Any]:
    """Arguments of the padded entry point, of ranks that share ``shares``: "tp" or "cp"."""
    hidden, weight, target = whole_batch()
    start, end = [(0, SPLIT), (SPLIT, V)][rank] if shares == "tp" else (0, V)
    chunks = hidden.chunk(4, dim=1)
    if shares == "cp":
        hidden = torch.cat([chunks[rank], chunks[3 - rank]], dim=1)
    return {
        "hidden": hidden.clone().requires_grad_(),
        "lm_head_weight": weight[start:end].clone().requires_grad_(),
        "target": target,
        "vocab_start_index": start,
        "vocab_end_index": end,
        "tp_group": dist.group.WORLD if shares == "tp" else None,
        "cp_group": dist.group.WORLD if shares == "cp" else None,
        "return_entropy": True,
        "chunk_size": 5,
    }


def packed_batch_of(rank: int, shares: str) -> dict[str, Any]:
    """The same batch, a segment a row."""
    padded = batch_of(rank, shares)
    group = padded.pop("tp_group")
    return {
        **padded,
        "hidden": padded["hidden"].detach().reshape(1, -1, H).requires_grad_(),
        "target": padded["target"].reshape(1, -1),
        "group": group,
        "cu_seqlens_padded": torch.arange(B + 1) * S,
        "unpacked_seqlen": S,
    }


def traffic(rank: int) -> dict[str, Any]:
    """How often each collective of gloo runs in a forward and in a backward, as torch counts."""

    def counted(call: Any) -> tuple[Any, dict[str, int]]:
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            result = call()
        events = seen.key_averages()
        return result, {e.key[5:]: e.count for e in events if e.key.startswith("gloo:")}

    found = {}
    for shares in ("tp", "cp"):
        for name, call, arguments in (
            ("padded", from_parallel_hidden_to_logprobs, batch_of),
            ("packed", from_parallel_hidden_to_logprobs_packed_sequences, packed_batch_of),
        ):
            options = arguments(rank, shares)
            (logprob, _), forward = counted(lambda: call(**options))  # noqa: B023
            _, backward = counted(logprob.sum().backward)
            found[f"{name}-{shares}"] = (forward, backward)
    return found


def layouts_in_memory(rank: int) -> dict[str, Any]:
    """Strided and plain inputs of a bf16 head with fp32 hidden states, as trainers have them."""
    found = {}
    for shares in ("tp", "cp"):
        for strided in (False, True):
            arguments = batch_of(rank, shares)
            hidden = arguments["hidden"].detach()
            weight = arguments["lm_head_weight"].detach().bfloat16()
            if strided:
                # Megatron's decoder gives [S, B, H].
                hidden = hidden.transpose(0, 1).contiguous().transpose(0, 1)
                weight = weight.T.contiguous().T
                arguments["target"] = arguments["target"].T.contiguous().T
            assert hidden.is_contiguous() is weight.is_contiguous() is (not strided)
            arguments |= {
                "hidden": hidden.requires_grad_(),
                "lm_head_weight": weight.requires_grad_(),
                "entropy_requires_grad": True,
            }
            values = from_parallel_hidden_to_logprobs(**arguments)
            upstream = [torch.linspace(-1, 1, B).unsqueeze(1).expand(B, S - 1)] * 2
            gradients = torch.autograd.grad(values, (hidden, weight), upstream)
            found[f"{shares}-{strided}"] = [*(v.detach() for v in values), *gradients]
    return found


def overlapping(rank: int) -> torch.Tensor:
    """Each rank names the range of its shard as if it were the first."""
    arguments = batch_of(rank, "tp")
    weight = arguments["lm_head_weight"].detach()
    arguments |= {"vocab_start_index": 0, "vocab_end_index": weight.shape[0]}
    return from_parallel_hidden_to_logprobs(**arguments)[0].detach()


def run_two(rank: int, folder: str) -> None:
    """All that two ranks are asked: the cases, then every probe."""
    run_cases(rank, TWO, folder)
    own = (budgets, traffic, layouts_in_memory, overlapping)
    for probe in (*PROBES, *own):
        torch.save(probe(rank), Path(folder) / f"{probe.__name__}-{rank}.pt")
