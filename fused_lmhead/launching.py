"""What is done with a kernel: launch it, or compile it ahead.

Of an ordinary launch Triton spends most on finding the compiled kernel that fits: it binds all
arguments by name, specialises each, prints the options. Here a kernel that it once found is
launched by its own launcher, whenever all that Triton looks at is the same again; and a tensor
map that it once encoded is not encoded again.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
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
    values = [*args, *[options[name] for name in layout.named]] if layout.named else [*args]
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
    told = [options[name] for name in layout.options] if layout.named else options.values()
    same = (*key, device, runtime.debug, _instrumentation(), *told)
    ready = _compiled.get(same)
    if ready is None:
        compiled = kernel[grid](*args, **options)
        if isinstance(compiled, CompiledKernel):
            if len(_compiled) >= _MOST_COMPILED:
                _compiled.clear()
            constants = tuple(options[name] for name in layout.constants_last)
            _compiled[same] = _ready(compiled, constants)
        return compiled
    for position, maps in ready.described:
        values[position : position + 1] = maps.arguments(values[position])
    ready.launcher(
        *grid,
        *_ONES[len(grid) :],
        driver.get_current_stream(device),
        *ready.fixed,
        *values,
        *ready.constants,
    )
    return ready.compiled


def compile_only(kernel: Any, grid: tuple[int, ...], /, *args: Any, **options: Any) -> Any:
    """Compile for the current device; the compiled kernel (None in Triton's interpreter)."""
    return kernel.warmup(*args, grid=grid, **options)


_MOST_COMPILED = 4096
_MOST_MAPS = 4096
_ONES = (1, 1, 1)
_INT32 = 2**31
_Tensor = torch.Tensor
_UNALIGNED = object()


class _Layout(NamedTuple):
    """How the arguments of one call site become those of a kernel, in its order."""

    number: int
    """No other layout's."""
    kernel: Any
    """Held, so that its ``id`` stays its own."""
    quick: bool
    """Whether kernels of this kind can be launched by their launcher."""
    constants: tuple[int, ...]
    """Positions of the parameters that are compiled in."""
    read: tuple[tuple[int, bool], ...]
    """Positions of the others, and whether the code is for an integer's being 1, or a multiple
    of 16."""
    named: tuple[str, ...]
    """Parameters that are given by name, up to the last that is not compiled in."""
    options: tuple[str, ...]
    """The other names: parameters that are compiled in, and what the compiler is told."""
    constants_last: tuple[str, ...]
    """The parameters among them."""


class _Maps:
    """What one descriptor argument of a compiled kernel becomes, by the tensor described.

    A map is a value of address, shape and strides: none of a freed tensor is taken for another's,
    and no tensor is kept from being freed.
    """

    def __init__(self, metadata: object) -> None:
        self.metadata = metadata
        self._known: dict[tuple[object, ...], list[object]] = {}

    def arguments(self, descriptor: Any) -> list[object]:
        """The map, the shape, the strides, as Triton passes them."""
        same = (descriptor.base.data_ptr(), descriptor.shape, descriptor.strides)
        found = self._known.get(same)
        if found is None:
            from triton.backends.nvidia.driver import make_tensordesc_arg

            if len(self._known) >= _MOST_MAPS:
                self._known.clear()
            found = self._known[same] = make_tensordesc_arg(descriptor, self.metadata)
        return found


class _Ready(NamedTuple):
    """A compiled kernel and how it is launched again."""

    compiled: CompiledKernel
    launcher: Callable[..., object]
    """Takes the grid, the stream, what is ``fixed``, and the kernel's arguments."""
    fixed: tuple[object, ...]
    described: tuple[tuple[int, _Maps], ...]
    """Positions of descriptors among the arguments, last first: each becomes several."""
    constants: tuple[object, ...]
    """The last of the arguments."""


_numbers = itertools.count()
_layouts: dict[tuple[Any, ...], _Layout] = {}
# By all that Triton tells kernels apart by, and more. A dict's get and set are atomic, and two
# threads that both miss find the same kernel in Triton's own cache.
_compiled: dict[tuple[Any, ...], _Ready] = {}


@cache
def _known_protocol() -> bool:
    """Whether ``run`` takes what is passed to it here: so in Triton 3.4 to 3.6 for CUDA, by their
    source. Elsewhere launches are the ordinary ones."""
    return (3, 4) <= triton_release() <= (3, 6) and torch.version.hip is None


def _ready(compiled: CompiledKernel, constants: tuple[object, ...]) -> _Ready:
    """A kernel's own ``run``, as PyTorch's compiler launches its kernels; or, where Triton is
    one whose source says so, the C function in it, which takes a third of the time."""
    run, hooks = compiled.run, (None, None, None)  # and what hooks are told
    metadata = compiled.packed_metadata
    through_run = _Ready(compiled, run, (compiled.function, metadata, *hooks), (), constants)
    if triton_release() not in ((3, 5), (3, 6)):
        return through_run
    from triton.backends.nvidia.driver import CudaLauncher

    if not isinstance(run, CudaLauncher) or run.global_scratch_size or run.profile_scratch_size:
        return through_run
    launcher: Callable[..., object] = run.launch
    described: list[tuple[int, _Maps]] = []
    if inspect.isfunction(launcher):  # around the C function, it replaces descriptors
        within = inspect.getclosurevars(launcher).nonlocals
        if None in within["tensordesc_meta"]:  # which then are no maps
            return through_run
        positions = sorted(within["tensordesc_indices"])
        described = list(zip(positions, map(_Maps, within["tensordesc_meta"]), strict=True))
        launcher = within["launcher"]
    scratch = (None, None)
    flags = (run.launch_cooperative_grid, run.launch_pdl)
    fixed = (compiled.function, *flags, *scratch, metadata, *hooks)
    return _Ready(compiled, launcher, fixed, tuple(reversed(described)), constants)


def _layout(place: tuple[Any, ...], kernel: Any, options: dict[str, Any]) -> _Layout:
    parameters = kernel.params if isinstance(kernel, JITFunction) and _known_protocol() else ()
    given = [parameter.name for parameter in parameters[place[1] :]]
    read = [at for at, parameter in enumerate(parameters) if not parameter.is_constexpr]
    # Constants that come last are the same whenever the key is: they stay out of the loops.
    end = max(place[1], read[-1] + 1) if read else place[1]
    named = tuple(parameter.name for parameter in parameters[place[1] : end])
    made = _Layout(
        next(_numbers),
        kernel,
        bool(parameters) and all(name in options for name in given),
        tuple(at for at, parameter in enumerate(parameters[:end]) if parameter.is_constexpr),
        tuple((at, not parameters[at].do_not_specialize) for at in read),
        tuple(name for name in named if name in options),
        tuple(name for name in options if name not in named),
        tuple(parameter.name for parameter in parameters[end:] if parameter.name in options),
    )
    _layouts[place] = made
    return made


def _instrumentation() -> object:
    """What Triton's profiler has kernels compiled with."""
    return getattr(triton.knobs.compilation, "instrumentation_mode", "")


def _is_set(hook: Any) -> bool:
    """A hook, or a chain of some."""
    return hook is not None and bool(getattr(hook, "calls", True))


def _key(layout: _Layout, values: list[Any]) -> list[Any] | None:
    """All that Triton asks of the arguments, or None where one is of no kind known here.

    Tensors among ``values`` become their addresses, which launch without being looked up.
    """
    if not layout.quick:
        return None
    key: list[Any] = [layout.number, *[values[position] for position in layout.constants]]
    # Likely types first: most of a launch's own time goes to this loop.
    for position, specialised in layout.read:
        value = values[position]
        type_ = type(value)
        if type_ is _Tensor or isinstance(value, _Tensor):
            values[position] = address = value.data_ptr()
            key.append(value.dtype)
            if address & 15:
                key.append(_UNALIGNED)
        elif type_ is int and -_INT32 <= value < _INT32:
            key.append(int)
            if specialised:
                key += (value == 1, value & 15 == 0)
        elif type_ is float or value is None or isinstance(value, float):
            key.append(value is None)
        elif (facets := getattr(value, "facets", None)) is not None:
            key += facets
        else:
            return None
    return key
