"""Run by tests in a process of its own, without Triton's interpreter: kernels are compiled for
Hopper as on a GPU, and launching them does nothing. Prints what happened, as JSON."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections import Counter
from types import SimpleNamespace
from typing import Any

os.environ.pop("TRITON_INTERPRET", None)

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

compiled: list[str] = []
launched: Counter[str] = Counter()


def launcher(source: Any, metadata: Any) -> Any:
    """Stands for the C launcher: counts."""
    return lambda *args: launched.update([metadata.name])


def stand_in_driver() -> SimpleNamespace:
    """A Hopper that loads any kernel."""
    return SimpleNamespace(
        get_current_device=lambda: 0,
        get_current_stream=lambda device=None: 0,
        get_current_target=lambda: GPUTarget("cuda", 90, 32),
        launcher_cls=launcher,
        utils=SimpleNamespace(
            get_device_properties=lambda device: {"max_shared_mem": 232_448},
            load_binary=lambda *args: (1, 1, 100, 0, 1024),
        ),
    )


def note_compilation(*args: Any, **kwargs: Any) -> None:
    """Triton's hook after each compilation, cached on disk or not."""
    compiled.append(kwargs["fn"].name.rpartition(".")[2])


def since(work: Any) -> list[str]:
    """What ``work`` compiled."""
    compiled.clear()
    work()
    return sorted(compiled)


def step(m: int, h: int, v: int, shift: int = 0) -> None:
    """Forward and backward of the public function's backend, projections for real."""
    from fused_lmhead.launch import TritonBackend
    from fused_lmhead.problem import Normaliser

    hidden, weight = torch.ones(m, h).bfloat16(), torch.ones(v, h).bfloat16()
    target = torch.zeros(m + shift, dtype=torch.long)[shift:]
    backend = TritonBackend()
    found = backend.forward(hidden, weight, target, 0.7, True)
    normaliser = Normaliser(found.shift_M, found.log_sum_M, found.entropy_M)
    rows = torch.ones(m)
    for grad_entropy in (None, rows):
        backend.backward(hidden, weight, target, normaliser, rows, grad_entropy, 0.7, True, True)


def compilations() -> dict[str, Any]:
    """Plan a launch, warm the head, then call it with other lengths."""
    from fused_lmhead import tuning

    # Not a multiple of 16: the last of two splits has a width of its own.
    h, v = 64, 20_008
    from fused_lmhead.tuning import plan_for

    cpu = torch.device("cpu")
    return {
        "planned": since(
            lambda: plan_for(100, h, v, torch.bfloat16, cpu, True, launching="forward")
        ),
        "warm": since(lambda: tuning.warm(100, h, v, torch.bfloat16, "cpu")),
        "warmed length": since(lambda: step(100, h, v)),
        "other lengths": since(lambda: [step(m, h, v) for m in (1, 77, 128, 300)]),
        "launched": dict(launched),
        "searched": {kernel: searched(kernel) for kernel in ("forward", "backward")},
        "microseconds": host_time(h, v),
    }


def searched(kernel: Any) -> dict[str, list[str]]:
    """What a search compiles ahead for candidates that differ in little, and what it compiles
    when it runs them."""
    from fused_lmhead.schedules import HOPPER, Schedule
    from fused_lmhead.tuning.cases import Case
    from fused_lmhead.tuning.contest import contest_of
    from fused_lmhead.tuning.search import measure

    bands = (Schedule(128, 128, 32, group_m, 8, 2) for group_m in (1, 2))
    tiles = (*bands, Schedule(64, 128, 32, 1, 4, 2), Schedule(64, 64, 32, 4, 4, 2))
    case = Case.of(kernel, HOPPER, 512, 64, 1000, torch.bfloat16, True)
    contest = contest_of(case, tiles, HOPPER, torch.device("cpu"))
    trial = measure(contest, lambda run, samples: 1.0, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nothing computes: the results are wrong
        return {
            "ahead": since(lambda: trial(tiles[0])),
            "run": since(lambda: [contest.launch(tile) for tile in tiles]),
        }


def host_time(h: int, v: int) -> dict[str, float]:
    """Microseconds of a forward call, without what the driver takes."""
    from fused_lmhead.launch import TritonBackend
    from fused_lmhead.problem import Statistics
    from fused_lmhead.tuning import plan_for
    from fused_lmhead.tuning.plans import _plans

    m = 128
    hidden, weight = torch.ones(m, h).bfloat16(), torch.ones(v, h).bfloat16()
    target = torch.zeros(m, dtype=torch.long)
    cpu = torch.device("cpu")
    backend = TritonBackend()

    def microseconds(work: Any, repeats: int = 200) -> float:
        work()
        best = float("inf")
        for _ in range(5):
            start = time.perf_counter()
            for _ in range(repeats):
                work()
            best = min(best, time.perf_counter() - start)
        return round(1e6 * best / repeats, 2)

    def unknown_plan() -> None:
        _plans.clear()
        plan_for(m, h, v, torch.bfloat16, cpu, True)

    return {
        "plan_for": microseconds(lambda: plan_for(m, h, v, torch.bfloat16, cpu, True)),
        "plan_for, new length": microseconds(unknown_plan),
        "statistics": microseconds(lambda: Statistics.empty(hidden, True)),
        "backend.forward": microseconds(lambda: backend.forward(hidden, weight, target, 1.0, True)),
    }


def disk() -> dict[str, Any]:
    """Searches with made-up times by processes one after the other and at once, and on files
    that are torn; each with the same cache folder."""
    from dataclasses import replace
    from pathlib import Path

    from fused_lmhead.schedules import HOPPER, Schedule
    from fused_lmhead.tuning.cases import Case
    from fused_lmhead.tuning.search import tune

    case = Case.of("forward", HOPPER, 8192, 8192, 131_072, torch.bfloat16, True)
    slow, fast = Schedule(128, 256, 64, 8, 8, 3), Schedule(256, 128, 64, 8, 8, 3)

    def tried(some_case: Case) -> dict[str, Any]:
        trials: list[Schedule] = []

        def trial(tile: Schedule) -> float:
            trials.append(tile)
            return 1.0 if tile == fast else 2.0

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = tune(some_case, (slow, fast), trial)
        return {
            "trials": len(trials),
            "right": found.chosen == fast,
            "remembered": found.remembered,
            "warnings": [str(warning.message) for warning in caught],
        }

    def at_once(processes: int) -> list[dict[str, Any]]:
        ends, start = [], time.time() + 0.2
        for _ in range(processes):
            reading, writing = os.pipe()
            if os.fork() == 0:
                time.sleep(max(0.0, start - time.time()))
                os.write(writing, json.dumps(tried(replace(case, h=2048))).encode())
                os._exit(0)
            os.close(writing)
            ends.append(reading)
        return [json.loads(os.fdopen(end).read()) for end in ends]

    def files() -> list[Path]:
        return sorted(Path(os.environ["TRITON_CACHE_DIR"]).rglob("*.autotune.json"))

    out: dict[str, Any] = {"first": tried(case), "second": tried(case)}
    out["same tokens"] = tried(replace(case, bucket=2 * case.bucket))
    out["other gpu"] = tried(replace(case, gpu="NVIDIA H100 80GB HBM3"))
    out["no entropy"] = tried(replace(case, entropy=False))
    out["at once"] = at_once(4)
    out["after them"] = tried(replace(case, h=2048))
    for file in files():
        file.write_text(file.read_text()[:100])
    out["torn"], out["after torn"] = tried(case), tried(case)
    os.environ["TRITON_CACHE_DIR"] = triton.knobs.cache.dir = "/proc/no/such/folder"
    out["read-only"] = tried(replace(case, h=1024))
    return out


def agreement() -> dict[str, Any]:
    """Two ranks settle: the second knows an answer already, the first has to search."""
    import tempfile

    import torch.distributed as dist

    from fused_lmhead import tuning
    from fused_lmhead.schedules import Schedule
    from fused_lmhead.tuning import agreement as agreeing
    from fused_lmhead.tuning import plans
    from fused_lmhead.tuning.cases import Case
    from fused_lmhead.tuning.gpus import gpu_of

    os.environ["FUSED_LMHEAD_TUNING"] = "search"
    h, v, cpu = 64, 128, torch.device("cpu")
    slow, fast = Schedule(128, 256, 64, 8, 8, 3), Schedule(256, 128, 64, 8, 8, 3)
    store = tempfile.mktemp()

    def rank_of(rank: int) -> dict[str, Any]:
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
        searched: list[Case] = []
        broadcasts: list[object] = []
        real = agreeing.agree

        def found(case: Case, *rest: Any) -> tuning.Search:
            searched.append(case)
            return tuning.Search(case, fast, ((slow, 2.0), (fast, 1.0)), 0.1, False)

        def counted(*arguments: Any) -> Any:
            broadcasts.append(arguments)
            return real(*arguments)

        plans.search = found
        agreeing.agree = counted
        if rank == 1:  # knows the forward schedule from before
            plans.keep(Case.of("forward", gpu_of(cpu), 100, h, v, torch.float16, True), slow)
        group = dist.group.WORLD
        out: dict[str, Any] = {}
        for m in (100, 101, 100, 200):
            tuning.settle(m, h, v, torch.float16, cpu, True, group, backward=True)
            plan = tuning.plan_for(m, h, v, torch.float16, cpu, True)
            out[f"{m}"] = [plan.forward == fast, plan.backward == fast, len(broadcasts)]
        out["searched"] = [case.bucket for case in searched]
        try:
            tuning.settle(100 + 900 * rank, h, v, torch.float32, cpu, True, group)
        except ValueError as error:
            out["mismatch"] = str(error)
        out["agreed"] = tuning.agree({"rank": rank}, group, cpu)
        dist.barrier()
        return out

    reading, writing = os.pipe()
    if child := os.fork():
        out = {"first": rank_of(0)}
        os.close(writing)
        out["second"] = json.loads(os.fdopen(reading).read())
        os.waitpid(child, 0)
        return out
    os.write(writing, json.dumps(rank_of(1)).encode())
    os._exit(0)


if __name__ == "__main__":
    driver.set_active(stand_in_driver())
    triton.knobs.runtime.jit_post_compile_hook = note_compilation
    works = {work.__name__: work for work in (compilations, disk, agreement)}
    print(json.dumps(works[sys.argv[1]]()))
