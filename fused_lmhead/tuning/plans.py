"""Which plan a shape gets: forced, agreed on, looked up, searched, or the rule's."""

from __future__ import annotations

import threading
import warnings
from typing import Any, NamedTuple, TypeVar

import torch

from fused_lmhead.schedules import Gpu, Plan, Schedule, plan, tile_schedule, token_bucket
from fused_lmhead.tuning.ahead import compile_ahead, forward_jobs
from fused_lmhead.tuning.cases import Case, Kernel, look_up, mode, shipped_table
from fused_lmhead.tuning.gpus import gpu_of
from fused_lmhead.tuning.search import Search, search

T = TypeVar("T")

_MOST_PLANS = 4096

_PlanKey = tuple[int, int, int, torch.dtype, torch.device, bool, Schedule | None, Kernel | None]


class _Tiles(NamedTuple):
    """What the plans of a token bucket have in common."""

    forward: Schedule
    backward: Schedule
    multiprocessors: int


_plans: dict[_PlanKey, Plan] = {}
# Under the same keys, with the bucket for M: lengths come and go, and this part takes long.
_tiles: dict[_PlanKey, _Tiles] = {}
_choices: dict[Case, Schedule] = {}
_searches: list[Search] = []
settled: dict[Any, set[tuple[Any, ...]]] = {}
"""What each process group agreed on; see :mod:`fused_lmhead.tuning.agreement`."""
# Autograd runs backward passes in threads of its own. Re-entrant: a search launches kernels.
_lock = threading.RLock()


def plan_for(
    m: int,
    h: int,
    v: int,
    dtype: torch.dtype,
    device: torch.device,
    with_entropy: bool,
    schedule: Schedule | None = None,
    *,
    launching: Kernel | None = None,
) -> Plan:
    """The plan of M tokens (at least 1), H, V on ``device``; ``schedule`` forces the tiles.

    Under FUSED_LMHEAD_TUNING=search an unknown case is searched here, at its first call: the
    backward schedule if ``launching`` is 'backward' (until then it is the rule's), else the
    forward one. If it is 'forward', what the launch needs is compiled now, side by side.

    Raises:
        ValueError: FUSED_LMHEAD_TUNING has no meaning.
    """
    key = (m, h, v, dtype, device, with_entropy, schedule, launching)
    found = _plans.get(key)
    if found is not None:
        return found
    bucket = (token_bucket(m), h, v, dtype, device, with_entropy, schedule, launching)
    tiles = _tiles.get(bucket) or _settle_tiles(*bucket)
    made = plan(m, h, v, dtype.itemsize, tiles.multiprocessors, tiles.forward, tiles.backward)
    with _lock:
        if _tiles.get(bucket) is tiles:  # else they are not settled, or no longer
            _keep_some(_plans, key, made)
    return made


def _settle_tiles(
    bucket: int,
    h: int,
    v: int,
    dtype: torch.dtype,
    device: torch.device,
    with_entropy: bool,
    forced: Schedule | None,
    launching: Kernel | None,
) -> _Tiles:
    gpu = gpu_of(device)
    first, second = forced, forced
    backward = launching == "backward"
    # What a search or a loading of code does cannot be part of a graph.
    capturing = device.type == "cuda" and torch.cuda.is_current_stream_capturing()
    # Chosen and kept at once: what another thread decides meanwhile must not be overwritten.
    with _lock:
        if first is None or second is None:
            forward_case = Case.of("forward", gpu, bucket, h, v, dtype, with_entropy)
            backward_case = Case.of("backward", gpu, bucket, h, v, dtype, with_entropy)
            first = choose(forward_case, gpu, device, not (capturing or backward))
            second = choose(backward_case, gpu, device, backward and not capturing)
        made = _Tiles(first, second, gpu.multiprocessors)
        if not capturing:
            key = (bucket, h, v, dtype, device, with_entropy, forced, launching)
            _keep_some(_tiles, key, made)
    if launching == "forward" and not capturing:
        # A schedule that fails here fails again, and is reported, where it is launched.
        compile_ahead(forward_jobs(h, v, dtype, with_entropy, first), device)
    return made


def _keep_some(kept: dict[_PlanKey, T], key: _PlanKey, value: T) -> None:
    if len(kept) >= _MOST_PLANS:
        kept.clear()
    kept[key] = value


def choose(case: Case, gpu: Gpu, device: torch.device, may_search: bool = True) -> Schedule:
    """The schedule of a case; what a search finds is kept, as is what ranks agreed on."""
    if case in _choices:
        return _choices[case]
    rule = tile_schedule(case.h, case.dtype.itemsize, gpu)
    current = mode()
    if current == "off":
        return rule
    known = look_up(case, shipped_table())
    if known is not None or current == "table" or not may_search:
        return known or rule
    try:
        done = search(case, gpu, device)
    except torch.OutOfMemoryError:
        warnings.warn(
            f"no memory left to search schedules for H {case.h}, V {case.v}; the rule's is used",
            RuntimeWarning,
            stacklevel=2,
        )
        keep(case, rule)
        return rule
    _searches.append(done)
    keep(case, done.chosen)
    return done.chosen


def keep(case: Case, schedule: Schedule) -> None:
    """Use ``schedule`` for the case from now on, in this process."""
    with _lock:
        _choices[case] = schedule
        _plans.clear()
        _tiles.clear()


def searches() -> tuple[Search, ...]:
    """The searches that this process made, and those it found on disk, in their order."""
    return tuple(_searches)


def forget() -> None:
    """Drop this process' plans and choices, so that FUSED_LMHEAD_TUNING is read again."""
    with _lock:
        _plans.clear()
        _tiles.clear()
        _choices.clear()
        _searches.clear()
        settled.clear()
