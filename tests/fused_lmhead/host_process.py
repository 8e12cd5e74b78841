"""Run by tests in a process of its own, without Triton's interpreter: kernels are compiled for
Hopper as on a GPU; launching them notes what the launcher was given. Prints it, as JSON."""

from __future__ import annotations

import functools
import gc
import json
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

# First, since it turns Triton's interpreter off.
from stand_in import (  # isort: skip
    StandIn,
    as_triton_does,
    count_ordinary_launches,
    ordinary_launches,
)

import torch
import triton
import triton.language as tl
from triton.runtime import driver
from triton.tools.tensor_descriptor import TensorDescriptor

from fused_lmhead import fused_linear_logprob, launching, ops, releases, specialised
from fused_lmhead.calls import logit_gradient, merge_partials, tile_partials
from fused_lmhead.descriptors import _common as common
from fused_lmhead.descriptors import boxes, swizzled_boxes
from fused_lmhead.kept import room
from fused_lmhead.launch import TritonBackend
from fused_lmhead.launching import launch_now
from fused_lmhead.problem import Normaliser, Statistics
from fused_lmhead.schedules import Schedule, ceil_div
from fused_lmhead.tuning import plans

H, V, M = 256, 512, 100
_BFLOAT16 = 9  # of CUtensorMapDataType
TILE = Schedule(64, 64, 64, 4, 4, 3)
SPECIALISED = Schedule(128, 256, 64, 8, 8, 3, "specialised")


@triton.jit(do_not_specialize=["m"], do_not_specialize_on_alignment=["free_ptr"])
def small_kernel(x_ptr, free_ptr, maybe_ptr, m, n, scale, SIZE: tl.constexpr, FLAG: tl.constexpr):
    at = tl.arange(0, SIZE)
    x = tl.load(x_ptr + at, at < m) * scale
    if FLAG:
        x += n
    if maybe_ptr is not None:
        tl.store(maybe_ptr + at, x, at < m)
    tl.store(free_ptr + at, x, at < m)


def small(launch: Any, **changes: Any) -> None:
    """One launch of the small kernel."""
    given = {
        "x": torch.zeros(64),
        "free": torch.zeros(64),
        "maybe": None,
        "m": 50,
        "n": 48,
        "scale": 0.5,
        "SIZE": 64,
        "FLAG": True,
        "grid": (3,),
        "num_warps": 4,
    } | changes
    x, free, maybe, grid = (given.pop(name) for name in ("x", "free", "maybe", "grid"))
    m, n, scale = (given.pop(name) for name in ("m", "n", "scale"))
    launch(small_kernel, grid, x, free, maybe, m, n, scale, **given)


def same_as_triton(stand_in: StandIn) -> dict[str, Any]:
    """For each change of arguments: is the kernel Triton's own choice, are the values?"""
    room = torch.zeros(300)
    half = room.half()
    changes: list[dict[str, Any]] = [
        {},
        *[{"x": x} for x in (room[1:65], room[4:68], half[:64], half[1:65])],
        *[{"free": x} for x in (room[1:65], room.double()[:64])],
        *[{"maybe": x} for x in (room[:64], room[1:65], half[:64])],
        *[{"m": m} for m in (1, 16, 17, 2**31 - 1, 2**31)],
        *[{"n": n} for n in (0, 1, 2, 16, 17, -16, 2**31, 2**63)],
        *[{"scale": scale} for scale in (1.0, 0.0, 3)],
        {"SIZE": 32},
        {"FLAG": False},
        {"num_warps": 8},
        {"num_stages": 2},
        {"grid": (2, 3)},
        {"grid": (2, 3, 4)},
        {"x": torch.nn.Parameter(room[:64])},
    ]
    wrong, quick = [], []
    for number in (*range(len(changes)), *reversed(range(len(changes)))):
        change = {"x": room[:64], "free": room[64:128]} | changes[number]
        before = ordinary_launches["small_kernel"]
        first, second = (stand_in.since(small, launch_now, **change) for _ in range(2))
        quick.append(before + 2 - ordinary_launches["small_kernel"])
        expected = stand_in.since(small, as_triton_does, **change)
        if not first == second == expected:
            wrong.append([number, repr(first), repr(second), repr(expected)])
    again = quick[: len(changes) - 1 : -1]  # of the way back, when all had been met
    return {
        "wrong": wrong,
        "variants": len({one.function for one in stand_in.launched}),
        "never quick": [number for number, count in enumerate(again) if not count],
    }


def circumstances(stand_in: StandIn) -> dict[str, Any]:
    """Another device, another stream, hooks, a debug build, another Triton."""
    found: dict[str, Any] = {}

    def noted(name: str) -> None:
        x, free = torch.zeros(64), torch.zeros(64)
        before = ordinary_launches["small_kernel"]
        launches = (*[launch_now] * 3, as_triton_does)
        seen = [stand_in.since(small, one, x=x, free=free) for one in launches]
        found[name] = {
            "same": all(one == seen[0] for one in seen),
            "ordinary": ordinary_launches["small_kernel"] - before - 1,
            "function": seen[0][0].function,
            "stream": seen[0][0].stream,
            "hooks": seen[0][0].hooks,
        }

    noted("plain")
    stand_in.device = 1
    noted("other device")
    stand_in.device, stand_in.stream = 0, 8
    noted("other stream")
    hook = triton.knobs.runtime.launch_enter_hook
    if hasattr(hook, "calls"):  # since 3.5 a chain
        hook.add(print_nothing)
        noted("hook")
        hook.remove(print_nothing)
    triton.knobs.runtime.debug = True
    noted("debug")
    triton.knobs.runtime.debug = False
    if hasattr(triton.knobs.compilation, "instrumentation_mode"):
        triton.knobs.compilation.instrumentation_mode = "another"
        noted("instrumented")
        triton.knobs.compilation.instrumentation_mode = ""
    noted("plain again")
    calls: list[object] = []
    small_kernel.add_pre_run_hook(lambda *args, **options: calls.append(args))
    noted("pre-run hook")
    small_kernel.pre_run_hooks.clear()
    found["pre-run hooks called"] = len(calls)
    triton.__version__, real = "3.99.0", triton.__version__
    known = dict(launching._layouts)
    forget_version()
    noted("unknown Triton")
    triton.__version__ = real
    forget_version()
    launching._layouts.update(known)
    noted("known Triton")
    return found


def forget_version() -> None:
    """Have it read again."""
    releases.triton_release.cache_clear()
    launching._known_protocol.cache_clear()
    launching._layouts.clear()


def print_nothing(metadata: Any) -> None:
    """A launch hook."""


def threads(stand_in: StandIn) -> dict[str, Any]:
    """Eight threads launch two variants; each thread's own tensors reach its own kernel."""
    room = [torch.zeros(65) for _ in range(8)]
    start = len(stand_in.launched)

    def work(number: int) -> None:
        x = room[number][number % 2 :][:64]
        for _ in range(200):
            small(launch_now, x=x, free=room[number][:64])

    workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    launched = stand_in.launched[start:]
    return {
        "launched": len(launched),
        "functions of aligned": len({one.function for one in launched if not one.values[0] % 16}),
        "functions": len({one.function for one in launched}),
    }


def problem(h: int = H, v: int = V) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """hidden [M, h], weight [v, h], target [M]."""
    return (
        torch.ones(M, h).bfloat16(),
        torch.ones(v, h).bfloat16(),
        torch.zeros(M, dtype=torch.long),
    )


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


def _launched_with(work: Callable[..., None], args: tuple[Any, ...], launch: Any) -> None:
    work(*args, launch=launch)


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


def python_calls(work: Callable[[], Any]) -> int:
    """Python functions that ``work`` calls, warm."""
    work()
    work()
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    least = []
    for _ in range(5):
        calls = 0
        sys.setprofile(count)
        work()
        sys.setprofile(None)
        least.append(calls - 1)
    # A workspace that comes to lie at a new address has its map encoded.
    return min(least)


def effort(stand_in: StandIn) -> dict[str, Any]:
    """Python calls and ordinary launches of warm passes, in the driver's absence."""
    ops._check_interpreter = lambda weight: None
    hidden, weight, target = problem()
    backend = TritonBackend(SPECIALISED)
    rows = torch.ones(M)
    found = backend.forward(hidden, weight, target, 1.0, True)
    normaliser = Normaliser(found.shift_M, found.log_sum_M, found.entropy_M)

    def call(m: int = M) -> None:
        fused_linear_logprob(
            hidden[:m],
            weight,
            target[:m],
            return_entropy=True,
            backend="triton",
            schedule=SPECIALISED,
        )

    def backward() -> None:
        backend.backward(hidden, weight, target, normaliser, rows, rows, 1.0, True, True)

    def launched_by(launch: Any) -> None:
        launch(small_kernel, (1,), rows, rows, None, 50, 48, 0.5, SIZE=64, FLAG=True, num_warps=4)

    stand_in.noting = False
    counts = {
        "call": python_calls(call),
        "backward": python_calls(backward),
        "launch": python_calls(lambda: launched_by(launch_now)),
        "launch by Triton": python_calls(lambda: launched_by(as_triton_does)),
    }
    ordinary_launches.clear()
    for m in (M, 77, 96, 1, 64):
        call(m)
    backward()
    encoded = []
    for _ in range(5):  # as above
        stand_in.encoded = 0
        call()
        backward()
        encoded.append(stand_in.encoded)
    return {
        "python calls": counts,
        "ordinary": dict(ordinary_launches),
        "maps encoded again": min(encoded),
        "new lengths": new_lengths(),
    }


def new_lengths() -> dict[str, Any]:
    """Of calls with lengths that the process has not seen, in one bucket, both passes."""
    hidden, weight, target = problem()
    weight.requires_grad_()
    settled: list[int] = []
    real = plans._settle_tiles
    plans._settle_tiles = lambda *key: settled.append(key[0]) or real(*key)
    plans.forget()
    options = {"return_entropy": True, "backend": "triton", "schedule": SPECIALISED}

    def call(m: int) -> tuple[torch.Tensor, torch.Tensor]:
        differentiable = torch.is_grad_enabled()
        return fused_linear_logprob(
            hidden[:m], weight, target[:m], entropy_requires_grad=differentiable, **options
        )

    def both(m: int) -> None:
        torch.autograd.grad(call(m), weight, [torch.ones(m)] * 2)

    both(M)
    ordinary_launches.clear()
    lengths = iter(range(40, M))
    for _ in range(50):
        both(next(lengths))
    with torch.no_grad():
        new, known = (python_calls(one) for one in (lambda: call(next(lengths)), lambda: call(M)))
    return {
        "tiles settled": settled,
        "ordinary": dict(ordinary_launches),
        "python calls more": new - known,
    }


def main() -> dict[str, Any]:
    """Everything; the kernels of a test that comes first serve the next."""
    stand_in = StandIn()
    driver.set_active(stand_in)
    specialised._is_hopper = lambda device: True
    specialised._multiprocessors = lambda device: 132
    count_ordinary_launches()
    return {
        "same as Triton": same_as_triton(stand_in),
        "circumstances": circumstances(stand_in),
        "threads": threads(stand_in),
        "same passes as Triton": same_passes_as_triton(stand_in),
        "by temperature": by_temperature(stand_in),
        "by band": by_band(stand_in),
        "descriptors": descriptors(),
        "tensors": tensors(stand_in),
        "effort": effort(stand_in),
    }


if __name__ == "__main__":
    print(json.dumps(main()))
