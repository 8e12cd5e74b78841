"""What is done with a kernel: launch it, or compile it ahead."""

from __future__ import annotations

from typing import Any, Protocol


class Launch(Protocol):
    """What is done with a kernel, its grid, its arguments and its options."""

    def __call__(self, kernel: Any, grid: tuple[int, ...], /, *args: Any, **options: Any) -> Any:
        """Launch or compile it."""
        ...


def launch_now(kernel: Any, grid: tuple[int, ...], /, *args: Any, **options: Any) -> Any:
    """Launch, on the current device and stream."""
    return kernel[grid](*args, **options)


def compile_only(kernel: Any, grid: tuple[int, ...], /, *args: Any, **options: Any) -> Any:
    """Compile for the current device; the compiled kernel (None in Triton's interpreter)."""
    return kernel.warmup(*args, grid=grid, **options)
