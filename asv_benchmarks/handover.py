"""What the environment plugin tells each benchmark process, as environment variables.

A process that is forked from a server of all commits has the variables of the first one:
its own are in a file in its working folder, see ``server.py``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from asv_benchmarks.workloads import Device

_PREFIX = "LMHEAD_BENCH_"
_FILE = "lmhead-variables.json"


class NotHandedOverError(RuntimeError):
    """The process was not started by this suite's environment plugin."""


def leave(folder: Path, environ: Mapping[str, str]) -> None:
    """Leave a process the variables by which commits differ, in its working folder."""
    own = {name: value for name, value in environ.items() if name.startswith((_PREFIX, "ASV"))}
    (folder / _FILE).write_text(json.dumps(own), encoding="utf-8")


def take_over(folder: Path) -> bool:
    """Set the variables that were left in ``folder``; whether there were any."""
    try:
        left = (folder / _FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    os.environ.update(json.loads(left))
    return True


@dataclass(frozen=True, slots=True)
class Handover:
    """``run``: id of the asv invocation; ``results``: None where asv saves nothing.

    ``gpu_index`` is NVML's index of the GPU that CUDA calls device 0; None on a CPU.
    """

    run: str
    machine: str
    environment: str
    commit: str
    checkout: Path
    device: Device
    results: Path | None = None
    gpu_index: int | None = None

    def to_environ(self) -> dict[str, str]:
        """The variables of a benchmark process."""
        values = {
            "RUN": self.run,
            "MACHINE": self.machine,
            "ENVIRONMENT": self.environment,
            "COMMIT": self.commit,
            "CHECKOUT": str(self.checkout),
            "DEVICE": self.device,
            "RESULTS": "" if self.results is None else str(self.results),
            "GPU_INDEX": "" if self.gpu_index is None else str(self.gpu_index),
        }
        return {_PREFIX + name: value for name, value in values.items()}

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """Read them back.

        Raises NotHandedOverError where they are missing or contradict asv's own.
        """

        def value(name: str) -> str:
            try:
                return environ[_PREFIX + name]
            except KeyError:
                raise NotHandedOverError(
                    f"{_PREFIX}{name} is not set: run this suite with asv through its "
                    "'checkout' environment (environment_type of asv.conf.json)"
                ) from None

        device = value("DEVICE")
        environment = value("ENVIRONMENT")
        if device not in ("gpu", "cpu") or not environment.endswith(f"-{device}"):
            raise NotHandedOverError(f"environment {environment!r} is not one of a {device!r}")
        commit = value("COMMIT")
        asv_commit = environ.get("ASV_COMMIT", commit)
        if asv_commit != commit:
            raise NotHandedOverError(f"asv measures {asv_commit}, the plugin installed {commit}")
        results, gpu_index = value("RESULTS"), value("GPU_INDEX")
        return cls(
            run=value("RUN"),
            machine=value("MACHINE"),
            environment=environment,
            commit=commit,
            checkout=Path(value("CHECKOUT")),
            device="gpu" if device == "gpu" else "cpu",
            results=Path(results) if results else None,
            gpu_index=int(gpu_index) if gpu_index else None,
        )
