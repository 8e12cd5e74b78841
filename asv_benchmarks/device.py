"""Which GPU a run measures, found without a CUDA call.

asv's process and the fork server must stay free of CUDA (a context does not
survive a fork), so NVML is asked, and CUDA_VISIBLE_DEVICES is honoured by hand.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

DRIVER_FILE = Path("/proc/driver/nvidia/version")


class DeviceError(RuntimeError):
    """The GPU that is to be measured cannot be told."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """The GPU that CUDA numbers 0 in this process; ``index`` is NVML's."""

    index: int
    uuid: str
    name: str
    driver: str


def load_nvml() -> Any | None:
    """An initialised pynvml; None where there is no NVIDIA driver.

    Raises DeviceError where a driver is loaded and NVML does not answer: a run
    would pass for one on a CPU.
    """
    try:
        nvml = importlib.import_module("pynvml")
    except ModuleNotFoundError as error:
        if DRIVER_FILE.exists():
            raise DeviceError(
                "an NVIDIA driver is loaded but nvidia-ml-py is not installed; install it, "
                "or set CUDA_VISIBLE_DEVICES= to measure the CPU"
            ) from error
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        if DRIVER_FILE.exists():
            raise DeviceError(
                f"an NVIDIA driver is loaded but NVML does not start ({error}); mend it, "
                "or set CUDA_VISIBLE_DEVICES= to measure the CPU"
            ) from error
        return None
    return nvml


def text(value: str | bytes) -> str:
    """NVML bindings before 12 return bytes."""
    return value.decode() if isinstance(value, bytes) else value


def visible_gpu(environ: Mapping[str, str] = os.environ, nvml: Any | None = None) -> Gpu | None:
    """The first GPU that CUDA would see; None where it would see none.

    With PCI bus order (the plugin sets CUDA_DEVICE_ORDER) CUDA's numbers are
    NVML's. ``nvml`` is for tests.
    """
    chosen = environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        first = chosen.split(",")[0].strip()
        if first in ("", "-1", "NoDevFiles", "none", "void"):
            return None
    else:
        first = "0"
    nvml = nvml or load_nvml()
    if nvml is None:
        return None
    count = int(nvml.nvmlDeviceGetCount())
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
    uuids = [text(nvml.nvmlDeviceGetUUID(handle)) for handle in handles]
    matches = [
        index
        for index in range(count)
        if (first.isdigit() and int(first) == index)
        or (first.startswith("GPU-") and uuids[index].startswith(first))
    ]
    if count == 0 and chosen is None:
        return None
    if len(matches) != 1:
        raise DeviceError(
            f"CUDA_VISIBLE_DEVICES={chosen or ''} names none of the {count} GPUs that NVML sees"
        )
    index = matches[0]
    return Gpu(
        index=index,
        uuid=uuids[index],
        name=text(nvml.nvmlDeviceGetName(handles[index])),
        driver=text(nvml.nvmlSystemGetDriverVersion()),
    )


def package_version(name: str) -> str | None:
    """The installed version of a distribution, without importing it."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def accelerator(gpu: Gpu | None) -> dict[str, str]:
    """The run's machine parameters beyond asv's own; what is unknown is left out."""
    values = {
        "gpu": gpu.name if gpu else None,
        "driver": gpu.driver if gpu else None,
        "torch": package_version("torch"),
        "triton": package_version("triton"),
    }
    return {name: value for name, value in values.items() if value is not None}
