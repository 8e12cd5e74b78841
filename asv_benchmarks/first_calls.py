"""What first calls cost, measured in processes of their own: run by its path, never imported.

    python -P first_calls.py SPEC.json

The processes find the measured ``fused_lmhead`` on their path, perhaps beside an older
suite, and so import nothing of this one. torch is imported once, without a computation and
without CUDA; each process is forked from there, so that it has caches, Triton and CUDA
context of its own.

SPEC: ``{"parent", "groups": [[process, …], …], "budget_s"}``. ``parent`` is the id of the
process that waits for the script, which ends with it. Processes run one after the other, and
no group after the first is begun once ``budget_s`` are over. A process: ``{"device",
"checkout", "variables", "calls": [{"tokens", "h", "v", "entropy"}], "report": PATH}``, with
``variables`` for its environment, ``TRITON_CACHE_DIR`` among them; those that torch reads
when it is imported come too late. Each call is timed by the wall clock up to the device's
last kernel, after imports and after the CUDA context. A report: ``{"calls": [{"tokens", …,
"ms", "compilations", "cache_hits", "candidates"}], "schedule", "kernels": [{"name",
"registers", "spills", "shared_bytes"}]}``. ``kernels`` are those that the first of the
calls launches. A process that fails ends the script with its status, its traceback on stderr;
one that is killed by a signal with 128 and the signal's number, as in a shell.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import json
import os
import signal
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


def check_cache() -> None:
    """Raise RuntimeError if Triton, imported before the fork, kept to another folder.

    Triton without ``knobs`` reads the variable whenever it opens its cache.
    """
    cache = getattr(getattr(sys.modules.get("triton"), "knobs", None), "cache", None)
    if cache is not None and cache.dir != os.environ["TRITON_CACHE_DIR"]:
        raise RuntimeError(f"Triton caches in {cache.dir}, not in {os.environ['TRITON_CACHE_DIR']}")


def measure(spec: dict[str, Any]) -> dict[str, Any]:
    """Make the calls of one process and report them."""
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
    check_cache()
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


def end_with(parent: int) -> None:
    """Let this process be killed when ``parent`` is, or it would keep the GPU. Linux only."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit(f"process {parent}, which was to wait for this one, has ended")


def fork(spec: dict[str, Any]) -> None:
    """Measure in a child and wait for it. Raises SystemExit in the child, and if it failed.

    The child leaves as any interpreter does, not by ``os._exit``: threads may still write
    to its caches. Processes that it leaves behind are killed.
    """
    script = os.getpid()
    child = os.fork()
    if child == 0:
        end_with(script)
        os.setpgid(0, 0)
        os.environ.update(spec["variables"])
        Path(spec["report"]).write_text(json.dumps(measure(spec)), encoding="utf-8")
        sys.exit()
    # Unreaped, so that its number is nobody else's when its group is killed.
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody, or zombies alone
        os.killpg(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        sys.exit(code if code > 0 else 128 - code)
    if not Path(spec["report"]).exists():
        sys.exit("it ended with 0 and wrote no report")


def main(spec: dict[str, Any]) -> None:
    """Run the groups of processes within the budget."""
    end_with(spec["parent"])
    started = time.monotonic()
    torch = importlib.import_module("torch")
    # Neither would be the child's own; a CUDA context does not even survive a fork.
    if torch.cuda.is_initialized() or "fused_lmhead" in sys.modules:
        raise RuntimeError("importing torch alone initialised CUDA or imported fused_lmhead")
    for number, group in enumerate(spec["groups"]):
        if number and time.monotonic() - started > spec["budget_s"]:
            break
        for process in group:
            fork(process)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
