"""What is done with a kernel: launch it, or compile it ahead.

Of an ordinary launch Triton spends most on finding the compiled kernel that fits: it binds all
arguments by name, specialises each, prints the options. Here a kernel that it once found is
launched by its own ``run``, as PyTorch's compiler launches its kernels, whenever all that Triton
looks at is the same again.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple, Protocol

import torch
import triton
from triton.compiler import CompiledKernel
from triton.runtime import JITFunction

from fused_lmhead.releases import triton_release


class Launch(Protocol):
    """What is done with a kernel, its grid, its arguments and its options."""

    def __call__(self, kernel: Any, grid: tuple[int, ...], /, *args: Any, **options: Any) -> Any:
        """Launch or compile it."""
        ...


def launch_now(kernel: Any, grid: tuple[int, ...], /, *args: Any, **options: Any) -> Any:
    """Launch, on the current device and stream."""
    place = (id(kernel), len(args), *options)
    layout = _layouts.get(place) or _layout(place, kernel, options)
    values = [*args, *[options[name] for name in layout.named]]
    key = _key(layout, values)
    runtime = triton.knobs.runtime
    if (
        key is None
        or kernel.pre_run_hooks
        or _is_set(runtime.launch_enter_hook)
        or _is_set(runtime.launch_exit_hook)
    ):
        return kernel[grid](*args, **options)
    driver = triton.runtime.driver.active
    device = driver.get_current_device()
    key += (device, runtime.debug, *[options[name] for name in layout.options])
    same = tuple(key)
    compiled = _compiled.get(same)
    if compiled is None:
        compiled = kernel[grid](*args, **options)
        if isinstance(compiled, CompiledKernel):
            if len(_compiled) >= _MOST_COMPILED:
                _compiled.clear()
            _compiled[same] = compiled
        return compiled
    compiled.run(
        *grid,
        *_ONES[len(grid) :],
        driver.get_current_stream(device),
        compiled.function,
        compiled.packed_metadata,
        None,  # hooks and what they are told
        None,
        None,
        *values,
    )
    return compiled


def compile_only(kernel: Any, grid: tuple[int, ...], /, *args: Any, **options: Any) -> Any:
    """Compile for the current device; the compiled kernel (None in Triton's interpreter)."""
    return kernel.warmup(*args, grid=grid, **options)


_MOST_COMPILED = 4096
_ONES = (1, 1, 1)
_INT32 = 2**31
# Compiled in; compiled for whether an integer is 1 or a multiple of 16; neither.
_CONSTANT, _SPECIALISED, _PLAIN = range(3)


class _Layout(NamedTuple):
    """How the arguments of one call site become those of a kernel, in its order."""

    kernel: Any
    """Held, so that its ``id`` stays its own."""
    quick: bool
    """Whether kernels of this kind can be launched by their ``run``."""
    kinds: tuple[int, ...]
    """Of each parameter: _CONSTANT, _SPECIALISED or _PLAIN."""
    named: tuple[str, ...]
    """Parameters that are given by name."""
    options: tuple[str, ...]
    """Names that are no parameters: what the compiler is told."""


_layouts: dict[tuple[Any, ...], _Layout] = {}
# By all that Triton tells kernels apart by, and more. A dict's get and set are atomic, and two
# threads that both miss find the same kernel in Triton's own cache.
_compiled: dict[tuple[Any, ...], CompiledKernel] = {}


@cache
def _known_protocol() -> bool:
    """Whether ``run`` takes what is passed to it here: so in Triton 3.4 to 3.6 for CUDA, by their
    source. Elsewhere launches are the ordinary ones."""
    return (3, 4) <= triton_release() <= (3, 6) and torch.version.hip is None


def _layout(place: tuple[Any, ...], kernel: Any, options: dict[str, Any]) -> _Layout:
    parameters = kernel.params if isinstance(kernel, JITFunction) and _known_protocol() else ()
    named = tuple(parameter.name for parameter in parameters[place[1] :])
    made = _Layout(
        kernel,
        bool(parameters) and all(name in options for name in named),
        tuple(
            _CONSTANT
            if parameter.is_constexpr
            else (_PLAIN if parameter.do_not_specialize else _SPECIALISED)
            for parameter in parameters
        ),
        tuple(name for name in named if name in options),
        tuple(name for name in options if name not in named),
    )
    _layouts[place] = made
    return made


def _is_set(hook: Any) -> bool:
    """A hook, or a chain of some."""
    return hook is not None and bool(getattr(hook, "calls", True))


def _key(layout: _Layout, values: list[Any]) -> list[Any] | None:
    """All that Triton asks of the arguments, or None where one is of no kind known here.

    Tensors among ``values`` become their addresses, which launch without being looked up.
    """
    if not layout.quick:
        return None
    key: list[Any] = [id(layout.kernel)]
    for position, kind in enumerate(layout.kinds):
        value = values[position]
        if kind == _CONSTANT:
            key.append(value)
        elif isinstance(value, torch.Tensor):
            values[position] = address = value.data_ptr()
            key += (value.dtype, address & 15 == 0)
        elif value is None or isinstance(value, float):
            key.append(value is None)
        elif type(value) is int and -_INT32 <= value < _INT32:
            key.append(int)
            if kind == _SPECIALISED:
                key += (value == 1, value & 15 == 0)
        elif (facets := getattr(value, "facets", None)) is not None:
            key += facets
        else:
            return None
    return key
