"""A vocabulary shared by two GPUs: forward, forward + backward, the collectives' share.

asv runs one process a benchmark; this one is the first rank and starts the second itself
(``parallel_rank.py``). Both GPUs must be free. A sample is the first rank's time between two
events, eager: ranks that replay graphs would not meet.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import torch
import torch.distributed as dist

from asv_benchmarks.frame import LOCK_WAIT_S
from asv_benchmarks.graph import Outputs, compare
from asv_benchmarks.harness import Family
from asv_benchmarks.lock import FileLock, gpu_lock
from asv_benchmarks.nominal import Work, nominal_ms
from asv_benchmarks.parallel_rank import RANKS, Rank, shared_function
from asv_benchmarks.timing import Plan, ProtocolName, Timing, gpu_plan, take_round
from asv_benchmarks.workloads import Device, Workload

SCRIPT = Path(__file__).with_name("parallel_rank.py")
PROTOCOL: ProtocolName = "events-two-ranks"
TIMEOUT_S = 60.0


class Pair:
    """This process as the first rank, and the second one's process.

    ``checkout`` is where both find ``fused_lmhead``. ``share``: a sample is the percentage
    of the call in collective calls, instead of its milliseconds.
    """

    def __init__(
        self,
        workload: Workload,
        device: Device,
        backward: bool,
        share: bool,
        checkout: Path,
    ) -> None:
        self.share = share
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        spec = {
            "meeting_place": (folder / "rendezvous").as_uri(),
            "device": device,
            "m": workload.m,
            "h": workload.h,
            "v": workload.v,
            "backward": backward,
            "package": str(checkout),
            "timeout_s": TIMEOUT_S,
        }
        (folder / "spec.json").write_text(json.dumps(spec))
        self._peer = subprocess.Popen(
            [sys.executable, "-P", str(SCRIPT), str(folder / "spec.json")],
            env={**os.environ, "PYTHONPATH": str(checkout)},
        )
        try:
            self._rank = Rank(spec, 0)
        except BaseException:
            self._end_peer()
            raise
        self._outputs: Outputs = ()

    def sample(self, group: int) -> list[float]:
        """``group`` calls, each made by both ranks."""
        samples = []
        for _ in range(group):
            whole_ms, collectives_ms, self._outputs = self._rank.lead()
            samples.append(100 * collectives_ms / whole_ms if self.share else whole_ms)
        return samples

    def poison(self) -> None:
        """Each call makes new outputs."""

    def verify(self) -> None:
        """Raise MismatchError unless another call gives the last outputs again."""
        compare(self._outputs, self._rank.lead()[2])

    def close(self) -> None:
        """Let the second rank end, or end it."""
        try:
            self._rank.leave()
            dist.destroy_process_group()
            self._peer.wait(TIMEOUT_S)
        finally:
            self._end_peer()

    def _end_peer(self) -> None:
        self._peer.kill()
        self._peer.wait()
        self._folder.cleanup()


class _Parallel(Family, abstract=True):
    """Log-probs of a vocabulary over TP 2; ``v`` of the record is one rank's."""

    params: ClassVar[list[tuple[Any, ...]]] = [
        ("nemotron-super", "qwen3.6-35b-a3b"),
        (8192,),
        (RANKS,),
    ]
    family = "parallel"
    plantable = False
    backward: ClassVar[bool] = False
    share: ClassVar[bool] = False

    def prepare(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> Callable[[], Outputs]:
        """Start the second rank and make the call once, with it."""
        del fused_lmhead
        found = torch.cuda.device_count() if device == "gpu" else 0
        if found < RANKS:
            raise NotImplementedError(f"needs {RANKS} GPUs, found {found}")
        shared_function()  # before a second process is started in vain
        uuid = torch.cuda.get_device_properties(1).uuid
        self._second_lock: FileLock = gpu_lock(f"GPU-{uuid}", "process")
        self._second_lock.acquire(timeout_s=LOCK_WAIT_S)
        checkout = self.handover.checkout
        self._pair = Pair(workload, device, self.backward, self.share, checkout)

        def call() -> Outputs:
            self._pair.sample(1)
            return ()

        return call

    def take(self, package: ModuleType, device: Device) -> Timing:
        """Time calls of both ranks."""
        del package, device
        return take_round(self._pair, self.plan(self.shape()), self.monitor)

    def plan(self, workload: Workload) -> Plan:
        """Paced as a single GPU's calls are, but never in bursts: the ranks meet at each call.

        A share has no smallest value to prefer.
        """
        plan = replace(
            gpu_plan(nominal_ms(workload, self.work)), protocol=PROTOCOL, group=1, warming=0
        )
        return replace(plan, statistic="median") if self.share else plan

    def teardown(self, *values: object) -> None:
        """Let go of both ranks and GPUs."""
        try:
            if hasattr(self, "_pair"):
                self._pair.close()
        finally:
            if hasattr(self, "_second_lock"):
                self._second_lock.release()
            super().teardown(*values)


class Forward(_Parallel):
    """The log-probs alone."""

    work = Work(products=1)


class ForwardBackward(_Parallel):
    """And the gradients of both inputs, d_hidden left as each rank's part."""

    work = Work(products=4)
    backward = True


class CollectiveShare(_Parallel):
    """How much of a forward pass the GPU spends in collective calls or waiting for them."""

    work = Work(products=1)
    method = "track_share"
    unit = "%"
    share = True
