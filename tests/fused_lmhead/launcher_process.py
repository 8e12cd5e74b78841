"""Run by a test in a process of its own, without Triton's interpreter: compiles a head's kernels
ahead, as for Hopper, and prints which launchers were built by whom, as JSON."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

# First, since it turns Triton's interpreter off.
from host_subjects import SPECIALISED, TILE, start  # isort: skip

import torch
import triton.backends.nvidia.driver as nvidia

from fused_lmhead.tuning.ahead import backward_jobs, forward_jobs
from fused_lmhead.tuning.compiling import compile_together


def main() -> dict[str, Any]:
    """Three vocabularies: with early builds, with ones that fail, with no threads for them."""
    stand_in = start()
    built: list[tuple[str, str]] = []
    begun: set[str] = set()
    twice: list[str] = []
    lost: list[str] = []
    threading.excepthook = lambda args: lost.append(repr(args.exc_value))
    failing = False

    def build(*, src: str, **others: Any) -> SimpleNamespace:
        thread = threading.current_thread().name
        if failing and thread == "launcher":
            raise RuntimeError("no compiler")
        # Triton keeps what it built: one of a text at a time, the next finds it.
        if src in begun:
            twice.append(thread)
        begun.add(src)
        time.sleep(0.02)
        begun.remove(src)
        built.append((thread, src))
        return SimpleNamespace(launch=stand_in.launch)

    nvidia.compile_module_from_src = build

    def compiled(v: int) -> dict[str, Any]:
        for noted in (built, twice, lost, stand_in.names):
            noted.clear()
        jobs = {}
        for tile in (TILE, SPECIALISED):
            for jobs_of in (forward_jobs, backward_jobs):
                jobs |= jobs_of(256, v, torch.bfloat16, True, tile)
        failures = compile_together(list(jobs.values()), torch.device("cpu"))
        ahead = [text for thread, text in built if thread == "launcher"]
        needed = [text for thread, text in built if thread != "launcher"]
        return {
            "failures": [repr(failure) for failure in failures if failure],
            "lost": list(lost),
            "at once": len(twice),
            "loaded": sorted(stand_in.names),
            "needed": len(set(needed)),
            "not ahead": sum(text not in ahead for text in needed),
            "in vain": sum(text not in needed for text in ahead),
            "too late": sum(
                next(by for by, its in built if its == text) != "launcher" for text in set(needed)
            ),
        }

    found = {"in time": compiled(512)}
    failing = True
    found |= {"failing": compiled(768)}
    threading.Thread.start = _no_launchers(threading.Thread.start)
    return found | {"without threads": compiled(1024)}


def _no_launchers(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    def limited(self: threading.Thread) -> None:
        if self.name == "launcher":
            raise RuntimeError("can't start new thread")
        start(self)

    return limited


if __name__ == "__main__":
    print(json.dumps(main()))
