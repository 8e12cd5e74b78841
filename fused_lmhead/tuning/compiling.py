"""Kernels compiled side by side, ahead of their first launch."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
import triton
from triton.runtime.errors import TritonError

from fused_lmhead.calls import Launch, compile_only, on
from fused_lmhead.tuning.launchers import begin_with_compiling

# What a schedule that this GPU or this compiler cannot do raises: Triton's own errors (out of
# shared memory, ptxas), a failed pass, a shape that a lowering does not accept.
FAILURES = (TritonError, RuntimeError, ValueError, AssertionError, IndexError)

_starting = threading.Lock()
_loading: dict[int, threading.Lock] = {}

Job = Callable[[Launch], None]
"""Passes each of its kernels to the launcher that it is given."""


def compile_and_load(kernel: Any, grid: tuple[int, ...], /, *args: Any, **options: Any) -> None:
    """Compile for the current device, build the launcher, load the code."""
    with _starting:
        # A kernel's own cache appears at its first use: two threads would make two, lose one.
        kernel.device_caches[triton.runtime.driver.active.get_current_device()]
        loading = _loading.setdefault(id(kernel), threading.Lock())
        begin_with_compiling(kernel, loading)
    compiled = compile_only(kernel, grid, *args, **options)
    if compiled is not None:
        # One of a kernel at a time: its candidates share a launcher.
        with loading:
            compiled.run  # noqa: B018 - a property that loads


def _hash_compiler() -> None:
    """Triton's first compilation hashes its library of 400 MB: a third of a second, kept."""
    with contextlib.suppress(ImportError):  # older ones have it elsewhere, and do without
        from triton.runtime.cache import triton_key

        triton_key()


def compile_together(jobs: Sequence[Job], device: torch.device) -> list[Exception | None]:
    """Do all jobs on this machine's cores; what each of them raised.

    Threads do: Triton's compiler lets go of Python's lock for most of its work.
    """
    if triton.knobs.runtime.interpret or not jobs:
        return [None] * len(jobs)

    def attempt(job: Job) -> Exception | None:
        try:
            with on(device):
                job(compile_and_load)
        except FAILURES as error:
            return error
        return None

    workers = min(len(jobs), len(os.sched_getaffinity(0)))
    with ThreadPoolExecutor(workers, thread_name_prefix="compile") as pool:
        hashing = pool.submit(_hash_compiler)
        # Not in a job: the first use builds the driver's library and may happen once only.
        triton.runtime.driver.active.get_current_target()
        hashing.result()
        return list(pool.map(attempt, jobs))
