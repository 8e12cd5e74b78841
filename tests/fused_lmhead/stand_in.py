"""A driver in place of CUDA's, for tests of launches in a process without Triton's interpreter:
kernels are compiled for Hopper as on a GPU; launching them notes what the C function was given."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

os.environ.pop("TRITON_INTERPRET", None)

import torch
import triton.backends.nvidia.driver as nvidia
from triton.backends.compiler import GPUTarget
from triton.runtime import JITFunction


class TensorMap(NamedTuple):
    """What a tensor map was encoded from; element types are CUDA's."""

    address: int
    swizzle: int
    element_size: int
    element_type: int
    box: tuple[int, ...]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    padding: int


class Launched(NamedTuple):
    """What the C function that launches was given."""

    kernel: str
    function: int
    grid: tuple[int, int, int]
    stream: int
    hooks: int
    told: tuple[object, ...]
    """Flags, scratch memory, packed metadata."""
    values: tuple[object, ...]

    @property
    def maps(self) -> list[TensorMap]:
        """Of the descriptors among the arguments, in their order."""
        return [value for value in self.values if isinstance(value, TensorMap)]


class StandIn:
    """A driver of two Hoppers that loads any kernel and notes launches.

    Launchers are Triton's own, but for the C function that each would compile.
    """

    def __init__(self) -> None:
        self.device, self.stream, self.encoded = 0, 7, 0
        self.names: list[str] = []
        self.launched: list[Launched] = []
        self.noting = True
        nvidia.library_dirs = list
        nvidia.compile_module_from_src = lambda **given: SimpleNamespace(launch=self.launch)
        self.launcher_cls = nvidia.CudaLauncher
        self.utils = SimpleNamespace(
            get_device_properties=lambda device: {"max_shared_mem": 232_448},
            load_binary=self.load,
            fill_tma_descriptor=self.encode,
        )

    def get_current_device(self) -> int:
        return self.device

    def get_current_stream(self, device: int | None = None) -> int:
        return self.stream

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def load(self, name: str, *args: Any) -> tuple[int, int, int, int, int]:
        """A handle that no other kernel and no other device has."""
        self.names.append(name)
        return 1, len(self.names), 100, 0, 1024

    def encode(self, *args: Any) -> TensorMap:
        """In place of the driver's tensor map."""
        self.encoded += 1
        return TensorMap(*(tuple(arg) if isinstance(arg, (list, tuple)) else arg for arg in args))

    def launch(self, *args: Any) -> None:
        """In place of the C function."""
        if not self.noting:
            return
        count = len(nvidia._BASE_ARGS_FORMAT)
        *grid, stream, function = args[:5]
        *told, _, entering, leaving = args[5:count]
        hooks = sum(bool(getattr(hook, "calls", hook)) for hook in (entering, leaving))
        self.launched.append(
            Launched(
                self.names[function - 1],
                function,
                tuple(grid),
                stream,
                hooks,
                tuple(told),
                tuple(plain(value) for value in args[count:]),
            )
        )

    def since(self, work: Callable[..., Any], *args: Any, **options: Any) -> list[Launched]:
        """What ``work`` launched."""
        start = len(self.launched)
        work(*args, **options)
        return self.launched[start:]


def plain(value: Any) -> object:
    """Values as they can be compared: a tensor is its address, as the C function has it."""
    return value.data_ptr() if isinstance(value, torch.Tensor) else value


ordinary_launches: Counter[str] = Counter()


def count_ordinary_launches() -> None:
    """Count what goes through Triton's own way of launching."""
    real = JITFunction.run

    def run(self: Any, *args: Any, **options: Any) -> Any:
        ordinary_launches[self.__name__] += 1
        return real(self, *args, **options)

    JITFunction.run = run


def as_triton_does(kernel: Any, grid: tuple[int, ...], /, *args: Any, **options: Any) -> Any:
    """The ordinary launch."""
    return kernel[grid](*args, **options)
