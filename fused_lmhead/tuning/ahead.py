"""What a plan will launch, as compile jobs: tensors without memory stand for the problem's."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch

from fused_lmhead.calls import Launch, logit_gradient, merge_partials, tile_partials
from fused_lmhead.problem import Normaliser, Statistics
from fused_lmhead.schedules import Schedule, ceil_div
from fused_lmhead.tuning.compiling import Job, compile_together

Jobs = dict[tuple[object, ...], Job]
"""By all that their code depends on."""

_META = torch.device("meta")
_M = 2  # tokens: one row alone counts as contiguous whatever its strides

_done: set[tuple[object, ...]] = set()


def forward_jobs(h: int, v: int, dtype: torch.dtype, entropy: bool, tile: Schedule) -> Jobs:
    """The kernels of a forward pass."""
    key = (h, v, dtype, entropy, _compiled_in(tile))
    return {
        ("tiles", *key): partial(_tiles, *key),
        ("merge", v, entropy, tile.block_n): partial(_merge, v, entropy, tile),
    }


def backward_jobs(h: int, v: int, dtype: torch.dtype, entropy: bool, tile: Schedule) -> Jobs:
    """The kernel of a backward pass."""
    key = (h, v, dtype, entropy, _compiled_in(tile))
    return {("gradient", *key): partial(_gradient, *key)}


def _compiled_in(tile: Schedule) -> Schedule:
    """The same for schedules of the same code: the tile kernels take the band as an argument."""
    return replace(tile, group_m=1) if tile.kind == "tile" else tile


def compile_ahead(jobs: Jobs, device: torch.device) -> list[Exception]:
    """Compile and load what this process has not yet, side by side; the failures."""
    fresh = {key: job for key, job in jobs.items() if (device, *key) not in _done}
    outcomes = compile_together(list(fresh.values()), device)
    failures = [failure for failure in outcomes if failure is not None]
    _done.update(
        (device, *key) for key, failure in zip(fresh, outcomes, strict=True) if failure is None
    )
    return failures


def _tiles(
    h: int, v: int, dtype: torch.dtype, entropy: bool, tile: Schedule, launch: Launch
) -> None:
    hidden_mH, weight_VH, target_m, statistics = _inputs(h, v, dtype, entropy)
    room, logit_m = _partials(v, tile), statistics.target_logit_M
    tile_partials(hidden_mH, weight_VH, target_m, room, logit_m, 1.0, entropy, tile, launch=launch)


def _merge(v: int, entropy: bool, tile: Schedule, launch: Launch) -> None:
    target_m, statistics = _rows(entropy)
    merge_partials(_partials(v, tile), target_m, statistics, v, 1.0, tile, launch=launch)


def _gradient(
    h: int, v: int, dtype: torch.dtype, entropy: bool, tile: Schedule, launch: Launch
) -> None:
    hidden_MH, weight_VH, target_M, statistics = _inputs(h, v, dtype, entropy)
    rows = statistics.shift_M
    logit_gradient(
        hidden_MH,
        weight_VH,
        target_M,
        Normaliser(rows, rows, rows if entropy else None),
        rows,
        rows if entropy else None,
        hidden_MH.new_empty(rows.shape[0], min(v, tile.block_n)),
        0,
        1.0,
        tile,
        launch=launch,
    )


def _inputs(
    h: int, v: int, dtype: torch.dtype, entropy: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, Statistics]:
    hidden_MH = torch.empty(_M, h, dtype=dtype, device=_META)
    weight_VH = torch.empty(v, h, dtype=dtype, device=_META)
    return hidden_MH, weight_VH, *_rows(entropy)


def _rows(entropy: bool) -> tuple[torch.Tensor, Statistics]:
    target_M = torch.empty(_M, dtype=torch.int64, device=_META)
    return target_M, Statistics.empty(target_M, entropy)


def _partials(v: int, tile: Schedule) -> torch.Tensor:
    return torch.empty(_M * 3 * ceil_div(v, tile.block_n), device=_META)
