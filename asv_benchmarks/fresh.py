"""Fresh interpreters with fresh caches: the parent's half of ``first_calls.py``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from asv_benchmarks.workloads import Device

SCRIPT = Path(__file__).with_name("first_calls.py")


class Call(TypedDict):
    """One call that the child is to make: M, H, V, and whether with entropy."""

    tokens: int
    h: int
    v: int
    entropy: bool


class FreshProcessError(RuntimeError):
    """The child did not report."""


def cold_environ(caches: Path, checkout: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The child's variables: every cache below ``caches``, ``fused_lmhead`` from ``checkout``.

    Variables that would lead to another cache or to this suite's own run are left out.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if not name.startswith(("LMHEAD_BENCH_", "ASV_"))
    }
    return kept | {
        "PYTHONPATH": str(checkout),
        "TRITON_CACHE_DIR": str(caches / "triton"),
        "XDG_CACHE_HOME": str(caches / "xdg"),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
    }


def first_calls(
    caches: Path,
    checkout: Path,
    device: Device,
    calls: Sequence[Call],
    *,
    seconds: float | None = None,
    timeout_s: float = 130.0,
    variables: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The report of a new process that makes ``calls`` with the caches in that folder.

    ``seconds``: begin no further call after so many. ``variables``: further ones of its
    environment. Raises FreshProcessError with the
    child's last words.
    """
    caches.mkdir(parents=True, exist_ok=True)
    spec, report = caches / "spec.json", caches / "report.json"
    asked = {"device": device, "calls": list(calls), "seconds": seconds}
    spec.write_text(json.dumps({**asked, "checkout": str(checkout.resolve())}))
    report.unlink(missing_ok=True)
    # -P: the script's folder, which is this suite's, stays off the path.
    command = [sys.executable, "-P", str(SCRIPT), str(spec), str(report)]
    try:
        done = subprocess.run(
            command,
            cwd=caches,
            env={**cold_environ(caches, checkout, os.environ), **(variables or {})},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise FreshProcessError(f"the fresh process took more than {timeout_s:g} s") from None
    if done.returncode or not report.exists():
        words = done.stderr.strip().splitlines() or ["no message"]
        raise FreshProcessError(f"the fresh process ended with {done.returncode}: {words[-1]}")
    loaded: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return loaded


def cold_and_warm(
    checkout: Path,
    device: Device,
    tokens: int,
    h: int,
    v: int,
    *,
    entropy: bool,
    variables: Mapping[str, str] | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two processes on one set of caches, new for the first.

    The first calls with ``tokens``, ``tokens + 1`` (the same bucket) and ``2 * tokens``
    (a new one), the second with ``tokens`` and ``2 * tokens``, both known by then.
    """

    def call(length: int) -> Call:
        return Call(tokens=length, h=h, v=v, entropy=entropy)

    with tempfile.TemporaryDirectory(prefix="lmhead-first-calls-") as folder:
        caches = Path(folder)
        lengths = [tokens, tokens + 1, 2 * tokens]
        cold = first_calls(caches, checkout, device, list(map(call, lengths)), variables=variables)
        known = [call(tokens), call(2 * tokens)]
        warm = first_calls(caches, checkout, device, known, variables=variables)
    return cold, warm
