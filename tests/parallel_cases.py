"""What the ranks of a group compute in the tests of shards, and what one process expects.

Imported by name in the ranks' own processes. All data is synthetic and seeded.
Legend: T tokens of all segments with padding, H hidden, V vocabulary, L columns of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

import torch
import torch.distributed as dist

from fused_lmhead.parallel import (
    from_parallel_hidden_to_logprobs,
    from_parallel_hidden_to_logprobs_packed_sequences,
)
from fused_lmhead.reference import reference_linear_logprob

H, V = 45, 301
TEMPERATURE = 0.7


def zigzag_by_hand(lengths: list[int], cp_size: int, rank: int) -> list[int]:
    """Positions of a rank's tokens: chunks ``rank`` and ``2·CP-1-rank`` of each segment."""
    positions, first = [], 0
    for length in lengths:
        tokens = list(range(first, first + length))
        if cp_size == 1:
            positions += tokens
        else:
            chunk = length // (2 * cp_size)
            for number in (rank, 2 * cp_size - 1 - rank):
                positions += tokens[number * chunk : (number + 1) * chunk]
        first += length
    return positions


@dataclass(frozen=True)
class Case:
    """One batch over ``tp`` x ``cp`` ranks, through the entry point of its ``kind``."""

    name: str
    kind: Literal["padded", "mask", "rows", "lengths"]
    padded: list[int]
    """Padded lengths of the segments; a padded batch has equal ones."""
    valid: list[int]
    """Their true lengths; of a padded batch all the same."""
    tp: int = 1
    cp: int = 1
    backend: str = "torch"
    entropy: Literal["off", "metric", "grad"] = "grad"
    shards: tuple[int, ...] = ()
    """Vocabulary rows of each TP rank; equal if not given."""
    rows: list[list[int]] = field(default_factory=list)
    """For ``lengths``: which segments each row has, by number."""

    @property
    def total(self) -> int:
        return sum(self.padded)

    @property
    def columns(self) -> int:
        """L of the unpacked batch."""
        if self.kind == "padded":
            return self.valid[0]
        if self.kind == "lengths":
            return max(sum(self.padded[i] for i in row) for row in self.rows)
        return max(self.padded) + 2

    @property
    def batch(self) -> int:
        return len(self.rows) if self.kind == "lengths" else len(self.padded)

    def ranges(self) -> list[tuple[int, int]]:
        """The vocabulary range of each TP rank."""
        rows = self.shards or (V // self.tp,) * (self.tp - 1) + (V - V // self.tp * (self.tp - 1),)
        ends = list(accumulate(rows))
        return list(zip([0, *ends], ends, strict=False))

    def places(self) -> list[tuple[int, int, int]]:
        """(row, column, token) of every value of the result."""
        found, first = [], 0
        starts = [0, *accumulate(self.padded)]
        if self.kind == "lengths":
            for row, segments in enumerate(self.rows):
                column = 0
                for i in segments:
                    found += [(row, column + j, starts[i] + j) for j in range(self.valid[i] - 1)]
                    column += self.padded[i]
            return found
        for row, (length, true) in enumerate(zip(self.padded, self.valid, strict=True)):
            at = self.mask()[row].nonzero().flatten().tolist() if self.kind == "mask" else None
            ends = length if self.kind == "rows" else true
            for j in range(ends - 1):
                found.append((row, at[j] if at else j, first + j))
            first += length
        return found

    def mask(self) -> torch.Tensor:
        """Left padding in odd rows, right padding in even ones."""
        mask = torch.zeros(len(self.valid), self.columns, dtype=torch.bool)
        for row, true in enumerate(self.valid):
            if row % 2:
                mask[row, self.columns - true :] = True
            else:
                mask[row, :true] = True
        return mask


# Ragged, with an empty and a one-token segment; padded to 2·CP of CP = 2.
PADDED, VALID = [8, 4, 0, 12, 4], [7, 1, 0, 11, 4]
ROWS = [[0, 1], [], [2, 3, 4]]
ODD = [5, 1, 0, 9]


def packed(name: str, kind, backend: str, tp: int, cp: int, **options) -> Case:
    rows = ROWS if kind == "lengths" else []
    name = f"{name}-{kind}-{backend}"
    return Case(name, kind, PADDED, VALID, tp, cp, backend, rows=rows, **options)


TWO = [
    case
    for backend in ("torch", "triton")
    for case in (
        Case(f"tp2-padded-{backend}", "padded", [7] * 3, [7] * 3, 2, 1, backend, shards=(130, 171)),
        Case(f"tp2-unpadded-lengths-{backend}", "rows", ODD, ODD, 2, 1, backend, shards=(300, 1)),
        packed("tp2", "lengths", backend, 2, 1),
        Case(f"cp2-padded-{backend}", "padded", [12] * 2, [9] * 2, 1, 2, backend),
        packed("cp2", "mask", backend, 1, 2),
        packed("cp2", "lengths", backend, 1, 2),
    )
] + [
    packed("tp2-metric", "rows", "torch", 2, 1, entropy="metric"),
    packed("tp2-off", "mask", "torch", 2, 1, entropy="off"),
    packed("cp2-metric", "rows", "torch", 1, 2, entropy="metric"),
    Case("cp2-off", "padded", [4] * 2, [3] * 2, 1, 2, entropy="off"),
    Case("cp2-nothing", "mask", [0, 0], [0, 0], 1, 2),
]
FOUR = [
    case
    for backend in ("torch", "triton")
    for case in (
        Case(f"tp2cp2-padded-{backend}", "padded", [8] * 3, [6] * 3, 2, 2, backend),
        packed("tp2cp2", "mask", backend, 2, 2, shards=(130, 171)),
        packed("tp2cp2", "lengths", backend, 2, 2),
    )
] + [
    Case("tp4-padded", "padded", [7] * 3, [7] * 3, 4, 1, shards=(1, 99, 60, 141)),
    Case("cp4-padded", "padded", [16] * 2, [13] * 2, 1, 4, "triton"),
    Case("cp4-packed", "lengths", [8, 0, 16], [5, 0, 16], 1, 4, rows=[[0], [1, 2]]),
]


@dataclass(frozen=True)
class Data:
    """The whole batch and vocabulary; upstream gradients of every CP rank's own loss."""

    hidden: torch.Tensor
    weight: torch.Tensor
    target: torch.Tensor
    upstream: list[tuple[torch.Tensor, torch.Tensor]]


def data_of(case: Case, device: str = "cpu") -> Data:
    """Normal inputs, logits of unit variance; a few targets that no rank owns."""
    generator = torch.Generator().manual_seed(1234)
    hidden = torch.randn(case.total, H, generator=generator)
    weight = torch.randn(V, H, generator=generator) * H**-0.5
    target = torch.randint(0, V, (case.total,), generator=generator)
    target[3::11] = -100
    target[5::17] = V + 7
    shape = (case.batch, case.columns - 1)
    upstream = [
        (torch.randn(shape, generator=generator), torch.randn(shape, generator=generator))
        for _ in range(case.cp)
    ]
    return Data(
        hidden.to(device),
        weight.to(device),
        target.to(device),
        [(one.to(device), other.to(device)) for one, other in upstream],
    )


def call(case: Case, data: Data, tp_rank: int, cp_rank: int, tp_group: Any, cp_group: Any) -> dict:
    """What one rank gets: results, and the gradients of its own shards."""
    start, end = case.ranges()[tp_rank]
    own = zigzag_by_hand(case.padded, case.cp, cp_rank)
    hidden = data.hidden[own].clone().requires_grad_()
    weight = data.weight[start:end].clone().requires_grad_()
    common: dict[str, Any] = {
        "vocab_start_index": start,
        "vocab_end_index": end,
        "cp_group": cp_group,
        "chunk_size": 8,
        "temperature": TEMPERATURE,
        "fused_backend": case.backend,
        "return_entropy": case.entropy != "off",
        "entropy_requires_grad": case.entropy == "grad",
    }
    if case.kind == "padded":
        B = case.batch
        result = from_parallel_hidden_to_logprobs(
            hidden.view(B, -1, H),
            weight,
            data.target.view(B, -1)[:, : case.columns],
            tp_group=tp_group,
            **common,
        )
    else:
        cu = torch.tensor([0, *accumulate(case.padded)], dtype=torch.int32, device=hidden.device)
        sub_lengths = [[case.valid[i] for i in row] for row in case.rows]
        result = from_parallel_hidden_to_logprobs_packed_sequences(
            hidden.unsqueeze(0),
            weight,
            data.target.unsqueeze(0),
            cu,
            case.columns,
            group=tp_group,
            attention_mask=case.mask() if case.kind == "mask" else None,
            sub_seq_lengths=sub_lengths if case.kind == "lengths" else None,
            **common,
        )
    results = result if isinstance(result, tuple) else (result,)
    assert [r.requires_grad for r in results] == [True, case.entropy == "grad"][: len(results)]
    grads = data.upstream[cp_rank][: 2 if case.entropy == "grad" else 1]
    d_hidden, d_weight = torch.autograd.grad(results[: len(grads)], (hidden, weight), grads)
    return {
        "results": [r.detach().cpu() for r in results],
        "d_hidden": d_hidden.cpu(),
        "d_weight": d_weight.cpu(),
    }


def run_cases(rank: int, cases: list[Case], folder: str, device: str = "cpu") -> None:
    """Run every case in this rank; ranks are numbered with TP fastest, as Megatron does."""
    world = dist.get_world_size()
    for case in cases:
        assert case.tp * case.cp == world
        tp_rank, cp_rank = rank % case.tp, rank // case.tp
        groups: dict[str, Any] = {}
        for c in range(case.cp):
            group = dist.new_group([c * case.tp + t for t in range(case.tp)])
            groups.update({"tp": group} if c == cp_rank else {})
        for t in range(case.tp):
            group = dist.new_group([c * case.tp + t for c in range(case.cp)])
            groups.update({"cp": group} if t == tp_rank else {})
        got = call(case, data_of(case, device), tp_rank, cp_rank, groups["tp"], groups["cp"])
        torch.save(got, Path(folder) / f"{case.name}-{rank}.pt")


@dataclass(frozen=True)
class Whole:
    """What all ranks together amount to, fp64."""

    results: list[torch.Tensor]
    d_hidden: torch.Tensor
    d_weight: torch.Tensor


def assembled(case: Case, folder: Path) -> Whole:
    """Gradients of the shards put together: d_hidden summed over TP, d_weight over CP.

    Asserts that every rank returned the same bits.
    """
    ranks = [torch.load(folder / f"{case.name}-{r}.pt") for r in range(case.tp * case.cp)]
    for got in ranks[1:]:
        for one, other in zip(ranks[0]["results"], got["results"], strict=True):
            assert torch.equal(one, other)
    d_hidden = torch.zeros(case.total, H, dtype=torch.float64)
    d_weight = torch.zeros(V, H, dtype=torch.float64)
    for number, got in enumerate(ranks):
        tp_rank, cp_rank = number % case.tp, number // case.tp
        start, end = case.ranges()[tp_rank]
        d_hidden[zigzag_by_hand(case.padded, case.cp, cp_rank)] += got["d_hidden"].double()
        d_weight[start:end] += got["d_weight"].double()
    return Whole([r.double() for r in ranks[0]["results"]], d_hidden, d_weight)


def expected(case: Case) -> Whole:
    """One process, materialised fp64 logits of the whole vocabulary, lists for the layout."""
    data = data_of(case)
    hidden = data.hidden.double().requires_grad_()
    weight = data.weight.double().requires_grad_()
    following, first = [], 0
    for length in case.padded:
        following += [first + (j + 1) % length for j in range(length)]
        first += length
    values = reference_linear_logprob(
        hidden,
        weight,
        data.target[following],
        temperature=TEMPERATURE,
        entropy_requires_grad=True,
        dtype=torch.float64,
    )
    owner = {t: rank for rank in range(case.cp) for t in zigzag_by_hand(case.padded, case.cp, rank)}
    shape = (case.batch, case.columns - 1)
    results = [torch.zeros(shape, dtype=torch.float64) for _ in range(2)]
    upstream = [torch.zeros(case.total, dtype=torch.float64) for _ in range(2)]
    for row, column, token in case.places():
        for kind in range(2):
            results[kind][row, column] = values[kind][token].detach()
            of_ranks = [data.upstream[c][kind][row, column].double() for c in range(case.cp)]
            # Padded: losses of all ranks add up. Packed: each rank keeps its own tokens'.
            upstream[kind][token] = (
                sum(of_ranks) if case.kind == "padded" else of_ranks[owner[token]]
            )
    if case.entropy != "grad":
        upstream[1].zero_()
    d_hidden, d_weight = torch.autograd.grad(values, (hidden, weight), upstream)
    return Whole(results[: 1 if case.entropy == "off" else 2], d_hidden, d_weight)
