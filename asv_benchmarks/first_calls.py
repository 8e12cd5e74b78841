"""What first calls cost, measured in a process of its own: run by its path, never imported.

    python -P first_calls.py SPEC.json REPORT.json

The process finds the measured ``fused_lmhead`` on its path, perhaps beside an older
suite, and so imports nothing of this one. SPEC: ``{"device", "calls": [{"tokens", "h",
"v", "entropy"}], "seconds": budget or null}``. Each call is timed by the wall clock up to
the device's last kernel, after imports and after the CUDA context. REPORT: ``{"calls":
[{"tokens", …, "ms", "compilations", "cache_hits", "candidates"}], "schedule", "kernels":
[{"name", "registers", "spills", "shared_bytes"}]}``; ``calls`` is shorter than asked where
the budget ran out. ``kernels`` are those that the first of the calls launches.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any


class Compilations:
    """Counts what Triton compiles and what it finds on disk, in all threads, where it tells."""

    def __init__(self) -> None:
        self._counting = threading.Lock()
        self.compiled = 0
        self.found = 0
        self.functions: list[Any] = []

    def listen(self) -> bool:
        """Hook into Triton; False where it has no such hooks."""
        try:
            knobs = importlib.import_module("triton").knobs
        except (ModuleNotFoundError, AttributeError):
            return False
        if not hasattr(knobs.compilation, "listener"):
            return False
        knobs.compilation.listener = self._compiled
        knobs.runtime.jit_post_compile_hook = self._finished
        return True

    def _compiled(self, *, cache_hit: bool, **_: object) -> None:
        with self._counting:
            if cache_hit:
                self.found += 1
            else:
                self.compiled += 1

    def _finished(self, *, fn: Any, **_: object) -> None:
        with self._counting:
            if fn.jit_function not in self.functions:
                self.functions.append(fn.jit_function)

    def kernels(self) -> list[Any]:
        """Every compiled kernel of the functions seen."""
        return [
            kernel
            for function in self.functions
            for caches in function.device_caches.values()
            for kernel in caches[0].values()
        ]


def launched(call: Any, compilations: Compilations) -> list[dict[str, Any]]:
    """What the kernels of one warm call take of a multiprocessor."""
    knobs = importlib.import_module("triton").knobs
    handles: list[int] = []

    def note(metadata: Any) -> None:
        handles.append(metadata.get()["function"])

    hook = knobs.runtime.launch_enter_hook
    if hasattr(hook, "add"):
        hook.add(note)
    else:
        knobs.runtime.launch_enter_hook = note
    call()
    if hasattr(hook, "remove"):
        hook.remove(note)
    else:
        knobs.runtime.launch_enter_hook = hook
    return [
        {
            "name": kernel.metadata.name,
            "registers": kernel.n_regs,
            "spills": kernel.n_spills,
            "shared_bytes": kernel.metadata.shared,
        }
        for kernel in compilations.kernels()
        if kernel.function in handles
    ]


def searched(package: Any) -> int | None:
    """Schedules that this process has tried out so far; None where the commit does not tell.

    A search whose timings were on disk has tried nothing.
    """
    if importlib.util.find_spec(f"{package.__name__}.tuning") is None:
        return None
    try:
        searches = importlib.import_module(f"{package.__name__}.tuning").searches
    except (ModuleNotFoundError, AttributeError):  # no Triton here, or an earlier tuning
        return None
    return sum(len(search.candidates) for search in searches() if not search.remembered)


def measure(spec: dict[str, Any]) -> dict[str, Any]:
    """Make the calls and report them."""
    started = time.monotonic()
    torch = importlib.import_module("torch")
    package = importlib.import_module("fused_lmhead")
    if not Path(str(package.__file__)).resolve().is_relative_to(spec["checkout"]):
        # An installed copy would give perfect flat lines.
        raise RuntimeError(
            f"fused_lmhead was imported from {package.__file__}, not from the checkout"
        )
    on_gpu = spec["device"] == "gpu"
    place = torch.device("cuda" if on_gpu else "cpu")
    backend = "triton" if on_gpu else "torch"
    if importlib.util.find_spec("fused_lmhead.launch") is not None and on_gpu:
        importlib.import_module("fused_lmhead.launch")
    dtype = torch.bfloat16 if on_gpu else torch.float32
    compilations = Compilations()
    hooked = compilations.listen()
    generator = torch.Generator(place).manual_seed(1)
    wait = torch.cuda.synchronize if on_gpu else (lambda: None)
    weights: dict[tuple[int, int], Any] = {}
    # A product and a reduction: the context, its libraries and allocator are up.
    warm = torch.randn(256, 256, dtype=dtype, device=place, generator=generator)
    (warm @ warm).float().sum()

    def arguments(call: dict[str, Any]) -> tuple[Any, ...]:
        shape = (call["v"], call["h"])
        if shape not in weights:
            weights.clear()
            weight = torch.randn(*shape, dtype=dtype, device=place, generator=generator)
            weights[shape] = weight.mul_(call["h"] ** -0.5)
        tokens = call["tokens"]
        hidden = torch.randn(tokens, call["h"], dtype=dtype, device=place, generator=generator)
        target = torch.randint(call["v"], (tokens,), device=place, generator=generator)
        return hidden, weights[shape], target

    def run(made: tuple[Any, ...], entropy: bool) -> None:
        options = {"return_entropy": True} if entropy else {}
        with torch.no_grad():
            package.fused_linear_logprob(*made, backend=backend, **options)
        wait()

    report: dict[str, Any] = {"calls": [], "schedule": None, "kernels": []}
    for call in spec["calls"]:
        if spec["seconds"] is not None and time.monotonic() - started > spec["seconds"]:
            break
        made = arguments(call)
        wait()
        before = (compilations.compiled, compilations.found, searched(package))
        begun = time.perf_counter()
        run(made, call["entropy"])
        taken = (time.perf_counter() - begun) * 1000
        after = (compilations.compiled, compilations.found, searched(package))
        report["calls"].append(
            {
                **call,
                "ms": round(taken, 3),
                "compilations": after[0] - before[0] if hooked else None,
                "cache_hits": after[1] - before[1] if hooked else None,
                "candidates": None if after[2] is None else after[2] - (before[2] or 0),
            }
        )
    first = spec["calls"][0]
    if on_gpu and hooked:
        made = arguments(first)
        report["kernels"] = launched(lambda: run(made, first["entropy"]), compilations)
    describe = getattr(package, "describe_schedule", None)
    if on_gpu and describe is not None:
        report["schedule"] = describe(first["tokens"], first["h"], first["v"], dtype, "cuda")
    return report


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(
        json.dumps(measure(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))),
        encoding="utf-8",
    )
