"""Run by tests in a process of its own, without Triton's interpreter: both passes, compiled for
Hopper as on a GPU. Prints what their launches and descriptors were made of, as JSON."""

from __future__ import annotations

import functools
import gc
import json
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

# First, since these turn Triton's interpreter off.
from host_subjects import SPECIALISED, TILE, H, M, V, problem, start  # isort: skip
from stand_in import StandIn, as_triton_does  # isort: skip

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from fused_lmhead.calls import logit_gradient, merge_partials, tile_partials
from fused_lmhead.descriptors import _common as common
from fused_lmhead.descriptors import boxes, swizzled_boxes
from fused_lmhead.kept import room
from fused_lmhead.launch import TritonBackend
from fused_lmhead.launching import launch_now
from fused_lmhead.problem import Normaliser, Statistics
from fused_lmhead.schedules import ceil_div

_BFLOAT16 = 9  # of CUtensorMapDataType


def same_passes_as_triton(stand_in: StandIn) -> dict[str, list[bool]]:
    """For each kernel of both passes, of each kind: is all that the C function is given the
    same, first time and again, for tensors that change in address, length and strides?"""
    same: dict[str, list[bool]] = {}

    def compare(work: Callable[[Any], None], note: str = "") -> None:
        mine = [stand_in.since(work, launch_now) for _ in range(2)]
        own = stand_in.since(work, as_triton_does)
        same.setdefault(own[0].kernel + note, []).append(mine[0] == mine[1] == own)

    hidden, weight, target = problem()
    half = M // 2
    apart = hidden.view(half, 2 * H)[:, :H]  # the same address, each other row
    variants = (hidden, hidden[8:], hidden[:half], apart, hidden[:77], hidden)
    for tile in (TILE, SPECIALISED):
        for hidden_mH in variants:
            m = hidden_mH.shape[0]
            target_m, dz = target[-m:], torch.empty(m, V).bfloat16()
            partials = torch.empty(3 * ceil_div(V, tile.block_n) * m)
            found = Statistics.empty(hidden_mH, True)
            operands = (hidden_mH, weight, target_m)
            rows = found.shift_M
            normaliser = Normaliser(rows, rows, rows)
            forward = (*operands, partials, rows, 0.7, True, tile)
            backward = (*operands, normaliser, rows, rows, dz, 0, 0.7, tile)
            compare(functools.partial(_launched_with, tile_partials, forward))
            kept = room(hidden_mH, weight, tile)
            keeping = functools.partial(_launched_with, tile_partials, (*forward, kept))
            compare(keeping, " that keeps")
            merge = (partials, target_m, found, V, 0.7, tile)
            compare(functools.partial(_launched_with, merge_partials, merge))
            compare(functools.partial(_launched_with, logit_gradient, backward))
    return same


def _launched_with(work: Callable[..., None], args: tuple[Any, ...], launch: Any) -> None:
    work(*args, launch=launch)


def by_temperature(stand_in: StandIn) -> dict[str, list[str]]:
    """The first kernel of each pass, asked for specialised ones."""
    hidden, weight, target = problem()
    backend, rows = TritonBackend(SPECIALISED), torch.ones(M)
    normaliser = Normaliser(rows, rows, rows)
    found = {}
    for temperature in (1.0, 1e-4, 1e-5):
        forward = stand_in.since(backend.forward, hidden, weight, target, temperature, True)
        of_rows = (normaliser, rows, rows, temperature, True, False)
        backward = stand_in.since(backend.backward, hidden, weight, target, *of_rows)
        found[str(temperature)] = [forward[0].kernel, backward[0].kernel]
    return found


def by_band(stand_in: StandIn) -> dict[str, int]:
    """How many functions the first kernel of each pass has over four bands."""
    hidden, weight, target = problem()
    rows = torch.ones(M)
    of_rows = (Normaliser(rows, rows, rows), rows, rows, 1.0, True, False)
    functions: dict[str, set[int]] = {}
    for group_m in (1, 4, 8, 16):
        backend = TritonBackend(replace(TILE, group_m=group_m))
        forward = stand_in.since(backend.forward, hidden, weight, target, 1.0, True)
        backward = stand_in.since(backend.backward, hidden, weight, target, *of_rows)
        for first in (forward[0], backward[0]):
            functions.setdefault(first.kernel, set()).add(first.function)
    return {kernel: len(its) for kernel, its in functions.items()}


def descriptors() -> dict[str, Any]:
    """Unchecked descriptors against Triton's own of the same tensors; what has none."""
    from triton.experimental.gluon.language import NVMMASharedLayout
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as Swizzled

    layout = NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    wide = torch.ones(64, 80).bfloat16()
    same = []
    for tensor in (wide, wide[:32, :64], wide[1:, 8:], wide[:1], wide.half(), wide):
        mine, own = boxes(tensor, 16, 32), TensorDescriptor.from_tensor(tensor, [16, 32])
        assert mine is not None
        same.append(mine == own and type(mine) is type(own) and mine.base is tensor)
        swizzled = swizzled_boxes(tensor, 16, 64)
        own = Swizzled.from_tensor(tensor, [16, 64], layout)
        same.append(swizzled == own and type(swizzled) is type(own) and swizzled.base is tensor)
    without = [wide[:, 1:], wide[:, :1].expand(-1, 8), wide.T, torch.ones(4, 9).bfloat16()]
    refused = []
    for _ in range(2):
        try:
            boxes(wide, 24, 32)
        except (AssertionError, ValueError) as error:
            refused.append(str(error))
    return {"same": same, "none": [boxes(t, 16, 32) is None for t in without], "refused": refused}


def tensors(stand_in: StandIn) -> dict[str, Any]:
    """Weights that alternate, are freed, share an address; each as its launch describes it."""
    found: dict[str, Any] = {}
    for name, tile in (("tile", TILE), ("specialised", SPECIALISED)):
        backend = TritonBackend(tile)
        hidden, first, target = problem()
        second = torch.ones(V + 8, H).bfloat16()
        backend.forward(hidden, first, target, 1.0, True)
        common.clear()  # what planning described had no memory
        described = []
        for weight in (first, second, first, second, second, first):
            tiles, _ = stand_in.since(backend.forward, hidden, weight, target, 1.0, True)
            of_hidden, of_weight = tiles.maps
            described.append(
                (of_weight.address, of_weight.shape) == (weight.data_ptr(), tuple(weight.shape))
                and of_hidden.address == hidden.data_ptr()
                and of_weight.element_type == of_hidden.element_type == _BFLOAT16
            )
        gone = weakref.ref(first), weakref.ref(hidden)
        del first, hidden, weight, tiles
        stand_in.launched.clear()
        gc.collect()
        found[name] = {"described": described, "freed": [one() is None for one in gone]}

        # The same address, first [V, H], then [H, V], then of another dtype.
        memory = torch.ones(V * H).bfloat16()
        other = []
        for view in (memory.view(V, H), memory.view(H, V), memory.view(torch.float16).view(V, H)):
            h = view.shape[1]
            hidden = torch.ones(M, h, dtype=view.dtype)
            tiles, _ = stand_in.since(backend.forward, hidden, view, target, 1.0, True)
            _, of_weight = tiles.maps
            mine = of_weight.address == memory.data_ptr()
            other.append([mine, of_weight.element_type, of_weight.shape])
        found[name]["same address"] = other
    return found


def main() -> dict[str, Any]:
    """Everything; the kernels that a part compiled serve the next."""
    stand_in = start()
    return {
        "same passes as Triton": same_passes_as_triton(stand_in),
        "by temperature": by_temperature(stand_in),
        "by band": by_band(stand_in),
        "descriptors": descriptors(),
        "tensors": tensors(stand_in),
    }


if __name__ == "__main__":
    print(json.dumps(main()))
