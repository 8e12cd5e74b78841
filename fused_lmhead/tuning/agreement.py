"""All ranks of a group use one rank's choice, or they would round differently."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from fused_lmhead.schedules import Schedule
from fused_lmhead.tuning.cases import Case
from fused_lmhead.tuning.gpus import gpu_of
from fused_lmhead.tuning.plans import choose, keep, settled

T = TypeVar("T")


def agree(choice: T | None, group: dist.ProcessGroup, device: torch.device) -> T:
    """The ``choice`` of the group's first rank, on all its ranks. Collective: one broadcast.

    The other ranks' ``choice`` is ignored. Choices may be anything that pickles; ``device`` is
    this rank's, which NCCL sends from.
    """
    sent = [choice]
    dist.broadcast_object_list(
        sent,
        src=dist.get_global_rank(group, 0),
        group=group,
        device=device if dist.get_backend(group) == dist.Backend.NCCL else None,
    )
    return sent[0]  # type: ignore[return-value]


def settle(
    m: int,
    h: int,
    v: int,
    dtype: torch.dtype,
    device: torch.device,
    with_entropy: bool,
    group: dist.ProcessGroup | None,
    *,
    backward: bool = False,
) -> None:
    """Make the first rank's schedules those of the whole group, in what ``plan_for`` gives.

    Collective over ``group`` (None: nothing to do) where a token bucket is new to it, else
    nothing: to be called by all its ranks with the same arguments, before the forward pass,
    with ``backward`` where gradients will be asked for. Only the first rank looks up or
    searches, whatever the others have in their caches: a rank that knows an answer waits with
    those that do not. Not within a CUDA graph's capture where the bucket is new.

    Raises:
        ValueError: a rank asks for another shape than the first rank; only V may differ.
    """
    if group is None or dist.get_world_size(group) == 1:
        return
    done = settled.setdefault(group, set())
    call = (m, h, v, dtype, device, with_entropy, backward)
    if call in done:
        return
    mine = [Case.of("forward", gpu_of(device), m, h, v, dtype, with_entropy)]
    if backward:
        mine.append(replace(mine[0], kernel="backward"))
    shapes = [(case.kernel, case.bucket, case.h, case.v, case.dtype, case.entropy) for case in mine]
    if any(shape not in done for shape in shapes):
        _broadcast_choices(mine, shapes, device, group)
        done.update(shapes)
    done.add(call)


def _broadcast_choices(
    mine: list[Case], shapes: list[tuple[Any, ...]], device: torch.device, group: dist.ProcessGroup
) -> None:
    first: list[Schedule] | None = None
    if dist.get_rank(group) == 0:
        gpu = gpu_of(device)
        first = [choose(case, gpu, device) for case in mine]
    # Shards may be uneven: their widths differ, and the first one's tiles do for all.
    alike = [(kernel, bucket, h, dtype, entropy) for kernel, bucket, h, _, dtype, entropy in shapes]
    theirs, schedules = agree(None if first is None else (alike, first), group, device)
    if theirs != alike:
        raise ValueError(f"ranks of a group ask for different shapes: {alike}, rank 0 {theirs}")
    for case, schedule in zip(mine, schedules, strict=True):
        keep(case, schedule)
