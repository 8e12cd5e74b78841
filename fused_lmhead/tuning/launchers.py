"""Launchers built while their kernels compile.

Triton has a C compiler build one from a kernel's signature when the kernel is first loaded, which
need not wait for the kernel. From 3.7 on it needs none.
"""

from __future__ import annotations

import contextlib
import threading
from types import SimpleNamespace
from typing import Any

import triton

from fused_lmhead.releases import triton_release


def begin_with_compiling(kernel: Any, loading: threading.Lock) -> None:
    """From now on ``kernel`` begins a launcher whenever it begins to compile.

    ``loading`` is held meanwhile. Nothing is lost where a build fails, or where this Triton's
    kernels are made in another way: it builds what it misses.
    """
    make = getattr(kernel, "ASTSource", None)
    if make is None or isinstance(make, _Beginning) or triton_release() >= (3, 7):
        return
    kernel.ASTSource = _Beginning(make, loading)


class _Beginning:
    """Makes the source of a kernel and, from it, a launcher in a thread of its own."""

    def __init__(self, make: Any, loading: threading.Lock) -> None:
        self.make, self.loading = make, loading

    def __call__(self, *args: Any, **named: Any) -> Any:
        source = self.make(*args, **named)
        # Not a daemon: a C compiler that outlives the process misses its folder.
        build = threading.Thread(target=self._build, args=(source,), name="launcher")
        # There may be no thread to be had, or an interpreter that ends.
        with contextlib.suppress(RuntimeError):
            build.start()
        return source

    def _build(self, source: Any) -> None:
        with self.loading, contextlib.suppress(Exception):
            described = [kind for kind in source.signature.values() if _is_descriptor(kind)]
            # All that a launcher's text depends on is that each descriptor has a map.
            compiled = SimpleNamespace(
                tensordesc_meta=[{} for _ in described],
                global_scratch_size=0,
                global_scratch_align=1,
                profile_scratch_size=0,
                profile_scratch_align=1,
                launch_cooperative_grid=False,
                launch_pdl=False,
            )
            # It stays in Triton's cache, by its text.
            triton.runtime.driver.active.launcher_cls(source, compiled)


def _is_descriptor(kind: object) -> bool:
    return isinstance(kind, str) and kind.startswith("tensordesc")
