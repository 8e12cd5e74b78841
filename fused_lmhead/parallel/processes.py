"""Start the ranks of a group as processes of this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Literal

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import start_processes

Transport = Literal["gloo", "nccl"]


def run_ranks(
    function: Callable[..., None],
    world_size: int,
    *arguments: object,
    transport: Transport = "gloo",
    timeout_s: float = 120.0,
) -> None:
    """Call ``function(rank, *arguments)`` in ``world_size`` new processes of one group.

    ``function`` is importable by name. With nccl rank r gets GPU r as its current device.
    ``timeout_s`` bounds each collective call. Raises torch.multiprocessing's
    ProcessRaisedException with the traceback of the first rank that failed, or
    ProcessExitedException; the other ranks are ended.
    """
    with tempfile.TemporaryDirectory() as folder:
        meeting_place = (Path(folder) / "rendezvous").as_uri()
        start_processes(  # type: ignore[no-untyped-call]
            _enter,
            (function, world_size, arguments, transport, timeout_s, meeting_place),
            nprocs=world_size,
            start_method="spawn",
        )


def _enter(
    rank: int,
    function: Callable[..., None],
    world_size: int,
    arguments: tuple[object, ...],
    transport: Transport,
    timeout_s: float,
    meeting_place: str,
) -> None:
    device = None
    if transport == "nccl":
        device = torch.device("cuda", rank)
        torch.cuda.set_device(device)
    else:
        # Ranks of one machine share its cores.
        torch.set_num_threads(1)
    dist.init_process_group(
        transport,
        init_method=meeting_place,
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=timeout_s),
        device_id=device,
    )
    function(rank, *arguments)
    # Not after an error: that would wait for ranks which may be waiting for this one.
    dist.destroy_process_group()
