"""Where results belong: their folder, and what asv files them under."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from asv_benchmarks.commits import GitError, run_git
from asv_benchmarks.device import DeviceError, Gpu, visible_gpu
from asv_benchmarks.workloads import Device


class PlaceError(RuntimeError):
    """It cannot be told where results belong, and why."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where results belong: their folder, and what their rounds are filed under."""

    results: Path
    commit: str
    environment: str
    machine: str
    card: str | None = None
    """The GPU's UUID, that of none on a CPU."""

    @property
    def rounds(self) -> Path:
        """The file of the rounds."""
        name = f"{self.commit[:8]}-{self.environment}-{self.machine}.jsonl"
        return self.results / "rounds" / name.replace("/", "_")


def resolve(repository: Path, revision: str) -> str:
    """The full hash of a revision. Raises PlaceError where there is none."""
    try:
        found = run_git(repository, "rev-parse", "--verify", f"{revision}^{{commit}}")
    except GitError as error:
        raise PlaceError(f"no commit {revision!r} in {repository}: {error}") from error
    return found.decode().strip()


def results_folder() -> Path:
    """Where this folder's asv.conf.json has the results. Raises PlaceError."""
    from asv.config import Config
    from asv.util import UserError

    try:
        return Path(Config.load().results_dir).absolute()
    except UserError as error:
        raise PlaceError(str(error)) from error
    except (ValueError, TypeError) as error:  # what asv does not expect
        where = Path.cwd() / "asv.conf.json"
        raise PlaceError(f"{where} is no configuration of asv: {error}") from error


def own_machine() -> str:
    """What asv calls this machine if not told otherwise."""
    from asv.machine import Machine

    return str(Machine.get_unique_machine_name())


def environment_of(device: Device) -> str:
    """What asv calls the environment of this Python and a kind of device."""
    return f"checkout-py{sys.version_info.major}.{sys.version_info.minor}-{device}"


def own_gpu() -> Gpu | None:
    """The GPU that would be measured here. Raises PlaceError where that cannot be told."""
    try:
        return visible_gpu()
    except DeviceError as error:
        raise PlaceError(str(error)) from error


def locate(revision: str, machine: str | None) -> tuple[Place, Device]:
    """Where the results of this checkout's asv.conf.json go. Raises PlaceError."""
    results, gpu = results_folder(), own_gpu()
    device: Device = "cpu" if gpu is None else "gpu"
    place = Place(
        results=results,
        commit=resolve(Path.cwd(), revision),
        environment=environment_of(device),
        machine=machine or own_machine(),
        card=None if gpu is None else gpu.uuid,
    )
    return place, device


def check_machine(name: str) -> None:
    """Raises PlaceError, with the command that mends it, where asv does not know the machine."""
    from asv.machine import MachineCollection
    from asv.util import UserError

    try:
        MachineCollection.load(name)
    except UserError as error:
        raise PlaceError(
            f"asv does not know the machine {name!r}: asv machine --yes --machine {name}"
        ) from error
