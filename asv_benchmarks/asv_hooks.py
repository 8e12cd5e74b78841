"""Where this suite enters asv's own steps (asv 0.6.6, pinned).

asv has no hook for any of these, and each would otherwise be an option that a
user has to know and a measurement that is lost without it:

- the machine's record gets GPU, driver, torch and triton for the time of the run,
  so that a reader can mark their changes; the user's own file stays as it is;
- combinations that the device cannot run are not selected, and so start no
  process; a run without ``--bench`` takes the device's default tier;
- samples are always recorded: without them asv pools the rounds beyond recovery;
- the fork server stays for all commits and rounds, and imports the suite while asv's
  discovery, a process of its own, does so too (``server.py``).
"""

from __future__ import annotations

import argparse
import ast
import functools
import itertools
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from asv import runner, util
from asv.benchmarks import Benchmarks
from asv.commands import find as find_command
from asv.commands import run as run_command
from asv.console import log
from asv.machine import Machine

from asv_benchmarks.device import DeviceError, accelerator, visible_gpu
from asv_benchmarks.server import Servers, sharing
from asv_benchmarks.tiers import DEFAULT_TIER, expression
from asv_benchmarks.workloads import BY_NAME, Device, Workload, runs_on

# asv's own word for a ``--bench`` that selects nothing.
JUST_DISCOVER = "just-discover"


def new_run_id() -> str:
    """Sorts by time; unique even where two runs start in one second."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{os.urandom(3).hex()}"


@dataclass(slots=True)
class Invocation:
    """This asv process: its id, its machine once asv has named it, whether it saves."""

    arguments: Sequence[str] = ()
    run: str = field(default_factory=new_run_id)
    machine: str | None = None

    @property
    def saves(self) -> bool:
        """False where asv was asked to save nothing."""
        return not {"--dry-run", "-n", "--skip-save"}.intersection(self.arguments)

    def forks(self, conf: Any) -> bool:
        """Whether processes come from a fork server; ``run`` and ``continuous`` ask ``conf``."""
        asks = {"run", "continuous"}.intersection(self.arguments)
        asked = argparse.ArgumentParser(add_help=False, exit_on_error=False)
        asked.add_argument("--launch-method", default=conf.launch_method if asks else None)
        method: str | None = asked.parse_known_args(self.arguments)[0].launch_method
        return method == "forkserver"


invocation = Invocation(tuple(sys.argv[1:]))
servers = Servers()


def with_accelerator(load: Callable[..., Machine]) -> Callable[..., Machine]:
    """``Machine.load`` that adds the accelerator to what it returns, not to what it stores."""

    @functools.wraps(load)
    def loaded(*args: Any, **kwargs: Any) -> Machine:
        machine = load(*args, **kwargs)
        try:
            gpu = visible_gpu()
        except DeviceError as error:
            raise util.UserError(str(error)) from error
        for stale in ("gpu", "driver", "torch", "triton"):
            machine.__dict__.pop(stale, None)
        machine.__dict__.update(accelerator(gpu))
        invocation.machine = machine.machine
        return machine

    return loaded


def select_runnable(benchmarks: Benchmarks, device: Device) -> int:
    """Unselect the combinations that ``device`` cannot run; how many those were.

    Benchmarks whose first parameters are not (model, tokens, tp) are left alone.
    """
    dropped = 0
    for name in list(benchmarks):
        benchmark = benchmarks[name]
        if benchmark["param_names"][:3] != ["model", "tokens", "tp"]:
            continue
        values = [[ast.literal_eval(value) for value in p] for p in benchmark["params"]]
        combinations = list(itertools.product(*values))
        selection = benchmarks.benchmark_selection[name]
        kept = []
        for index in selection:
            workload = Workload(*combinations[index][:3])
            if workload.model not in BY_NAME or runs_on(workload, device):
                kept.append(index)
        dropped += len(selection) - len(kept)
        selection[:] = kept
        if not kept:
            del benchmarks[name]
    return dropped


def _discover(
    original: Callable[..., Benchmarks], environment_class: type
) -> Callable[..., Benchmarks]:
    """``Benchmarks.discover`` that selects what this suite's environments can run."""

    @functools.wraps(original)
    def discover(
        conf: Any,
        repo: Any,
        environments: Sequence[Any],
        commit_hash: Any,
        regex: Any = None,
        check: bool = False,
    ) -> Benchmarks:
        ours: list[Any] = [env for env in environments if isinstance(env, environment_class)]
        if not ours or len(ours) != len(environments):
            return original(conf, repo, environments, commit_hash, regex=regex, check=check)
        device: Device = ours[0].device
        if not regex:
            tier = DEFAULT_TIER[device]
            regex = [expression(tier)]
            log.info(f"No --bench: the {tier!r} tier, the default of a {device}")
        runs_nothing = check or regex == [JUST_DISCOVER]
        if invocation.forks(conf) and not runs_nothing:
            ours[0].at_discovery = servers.of(ours[0], conf.benchmark_dir).begin
        benchmarks = original(conf, repo, environments, commit_hash, regex=regex, check=check)
        dropped = select_runnable(benchmarks, device)
        if dropped:
            log.info(f"{dropped} combinations do not exist or do not run on a {device}")
        return benchmarks

    return discover


def _recording(original: Callable[..., Any]) -> Callable[..., Any]:
    """``run_benchmarks`` that keeps the samples."""

    @functools.wraps(original)
    def run_benchmarks(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **{**kwargs, "record_samples": True})

    return run_benchmarks


def install(environment_class: type) -> None:
    """Enter asv's steps, once a process."""
    if hasattr(Machine.load, "__wrapped__"):
        return
    Machine.load = staticmethod(with_accelerator(Machine.load))
    Benchmarks.discover = staticmethod(_discover(Benchmarks.discover, environment_class))
    runner.get_spawner = sharing(runner.get_spawner, environment_class, servers)
    run_command.run_benchmarks = _recording(run_command.run_benchmarks)
    find_command.run_benchmarks = _recording(find_command.run_benchmarks)
