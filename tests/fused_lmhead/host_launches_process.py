"""Run by tests in a process of its own, without Triton's interpreter: launches of a small kernel
whose arguments, device, stream, hooks and threads change. Prints what they were given, as JSON."""

from __future__ import annotations

import json
import threading
from typing import Any

# First, since these turn Triton's interpreter off.
from host_subjects import small_kernel, start  # isort: skip
from stand_in import StandIn, as_triton_does, ordinary_launches  # isort: skip

import torch
import triton

from fused_lmhead import launching, releases
from fused_lmhead.launching import launch_now


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


def main() -> dict[str, Any]:
    """In this order: the kernels that a part compiled serve the next."""
    stand_in = start()
    return {
        "same as Triton": same_as_triton(stand_in),
        "circumstances": circumstances(stand_in),
        "threads": threads(stand_in),
    }


if __name__ == "__main__":
    print(json.dumps(main()))
