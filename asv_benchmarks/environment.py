"""asv plugin: this interpreter, with one checkout per commit first on the path.

``asv run A..B``, ``--interleave-rounds``, ``asv continuous`` and ``asv find``
need an environment that can take a commit; asv's own ones would reinstall torch
for each. ``fused_lmhead`` is pure Python, so a checkout is an installation.

asv.conf.json: ``"plugins": [".asv_benchmarks.environment"]`` and
``"environment_type": "checkout"``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from asv import util
from asv.console import log
from asv.environment import Environment, EnvironmentUnavailable

from asv_benchmarks import asv_hooks
from asv_benchmarks.commits import CommitsFileError, record_commit
from asv_benchmarks.device import DeviceError, Gpu, visible_gpu
from asv_benchmarks.handover import Handover
from asv_benchmarks.lock import FileLock, gpu_lock
from asv_benchmarks.workloads import Device

RUNNING_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def detect_gpu() -> Gpu | None:
    """The GPU to be measured, or None. Raises asv's UserError where that cannot be told."""
    try:
        return visible_gpu()
    except DeviceError as error:
        raise util.UserError(str(error)) from error


class CheckoutEnvironment(Environment):  # type: ignore[misc]  # asv has no types
    """The running interpreter; a commit is installed by checking it out.

    Named ``checkout-py3.12-gpu`` or ``-cpu``: versions of torch or of the driver
    are conditions of a run, not another series.
    """

    tool_name = "checkout"
    matches_python_fallback = False

    def __init__(
        self, conf: Any, python: str, requirements: dict[str, str], tagged_env_vars: dict[Any, str]
    ) -> None:
        if not self.matches(python):
            raise EnvironmentUnavailable(
                f"the checkout environment keeps the running Python {RUNNING_PYTHON}; "
                f"for {python}, start asv with that one"
            )
        # asv's constructor asks for the name, which is made of these.
        self._python = python
        self._requirements = requirements
        self.gpu = detect_gpu()
        self.device: Device = "cpu" if self.gpu is None else "gpu"
        self._commit: str | None = None
        self.at_discovery: Callable[[], None] | None = None
        self._results = Path(conf.results_dir).absolute()
        super().__init__(conf, python, requirements, tagged_env_vars)
        # Two runs share neither the checkout nor the GPU.
        checkout_lock = Path(f"{self._path}.lock")
        self._locks = [FileLock(checkout_lock, f"the checkout of {self.name}")]
        if self.gpu:
            self._locks.append(gpu_lock(self.gpu.uuid, "run"))

    @classmethod
    def matches(cls, python: str) -> bool:
        """Only the running version."""
        return python == RUNNING_PYTHON

    @property
    def name(self) -> str:
        """Distinct for a GPU and a CPU, so that their numbers never share a series."""
        return f"{super().name}-{self.device}"

    @property
    def dir_name(self) -> str:
        """The folder under ``env_dir``: readable, one for each kind of device."""
        return self.name

    @property
    def installed_commit_hash(self) -> str | None:
        """What this process has checked out; a folder left by another is not trusted."""
        return self._commit

    @property
    def checkout(self) -> Path:
        """Where the commit's working tree is."""
        return Path(self._build_root)

    def check_presence(self) -> bool:
        """Nothing has to be created for an interpreter that runs."""
        return True

    def create(self) -> None:
        """Make the folder of the checkout."""
        Path(self._path).mkdir(parents=True, exist_ok=True)

    def install_project(self, conf: Any, repo: Any, commit_hash: str) -> None:
        """Check the commit out, cleaned of everything else, and note its ancestry.

        Waits first for another run that holds the checkout or the GPU.
        """
        del conf
        self._commit = None
        self.create()
        for lock in self._locks:
            lock.acquire(on_wait=lambda message: log.warning(f"Waiting: {message}"))
        self.checkout_project(repo, commit_hash)
        self._commit = commit_hash
        if asv_hooks.invocation.saves:
            try:
                record_commit(self._results, Path(repo._path), commit_hash)
            except CommitsFileError as error:
                raise util.UserError(str(error)) from error

    def find_executable(self, executable: str) -> str:
        """This interpreter is the only executable."""
        if executable != "python":
            raise OSError(f"the checkout environment has no {executable!r}")
        return sys.executable

    def handover(self) -> Handover:
        """What a benchmark process has to know. Raises UserError before a checkout."""
        if self._commit is None:
            raise util.UserError("no commit is checked out; --parallel is not supported")
        invocation = asv_hooks.invocation
        return Handover(
            run=invocation.run,
            machine=invocation.machine or "unknown",
            environment=self.name,
            commit=self._commit,
            checkout=self.checkout / self._repo_subdir,
            device=self.device,
            results=self._results if invocation.saves else None,
            gpu_index=self.gpu.index if self.gpu else None,
        )

    def process_environ(self, environ: dict[str, str]) -> dict[str, str]:
        """The variables of a benchmark process: the checkout first, then ASV_PYTHONPATH.

        asv drops PYTHONPATH itself; a -cpu environment cannot see a GPU at all.
        """
        handover = self.handover()
        merged = {**environ, **self._global_env_vars, **handover.to_environ()}
        merged.pop("PYTHONPATH", None)
        # Bytecode is told apart by its source's second and size only; in the checkout, where
        # git cleans it away, it cannot be another commit's.
        merged.pop("PYTHONPYCACHEPREFIX", None)
        further = environ.get("ASV_PYTHONPATH")
        merged["ASV_PYTHONPATH"] = os.pathsep.join(
            [str(handover.checkout), *([further] if further else [])]
        )
        # CUDA then numbers GPUs as NVML does.
        merged["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        # Whoever asks at import whether there is a GPU then asks NVML: the fork stays sound.
        merged["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
        if self.gpu is None:
            merged["CUDA_VISIBLE_DEVICES"] = ""
        return merged

    def run(self, args: list[str], **kwargs: Any) -> Any:
        """Run this interpreter with ``args``, as one benchmark process or fork server."""
        environ = self.process_environ(dict(kwargs.pop("env", None) or os.environ))
        if "discover" in args and self.at_discovery:
            self.at_discovery()
        return util.check_output([sys.executable, *args], env=environ, **kwargs)


def setup() -> None:
    """Called by asv once it has imported the plugin."""
    asv_hooks.install(CheckoutEnvironment)
