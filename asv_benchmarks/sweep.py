"""A tier in pieces that can be resumed, for machines that are lent for minutes.

    python -m asv_benchmarks.sweep --tier full --shard 1/4 --minutes 9

Series whose rounds the results already have for this commit, environment and machine are
left out; of the others ``asv run`` is given what fits into the time, shape by shape, those of
the tier's first selection first. It stops before its time is up and says what remains; the
same command goes on from there (exit status 3; 0 when nothing remains). A shard holds whole
shapes, so that what is compared with each other is measured on one card. Shards that run side
by side need a clone each; ``python -m asv_benchmarks.merge`` joins their results.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asv_benchmarks.device import DeviceError, visible_gpu
from asv_benchmarks.nominal import Work, nominal_ms
from asv_benchmarks.recover import RecoverError, recover
from asv_benchmarks.tiers import (
    ACTIVE,
    ACTIVE_TWO_PASS,
    COMPILE,
    CONTROL,
    FORWARD,
    FORWARD_BACKWARD,
    FORWARD_BACKWARD_ENTROPY,
    FORWARD_ENTROPY,
    MEMORY,
    TIERS,
    TWO_PASS,
    TWO_PASS_BACKWARD,
    expression_of,
)
from asv_benchmarks.timing import gpu_plan
from asv_benchmarks.workloads import BY_NAME, Device, Workload, runs_on

Series = tuple[str, str]

REMAINS = 3
# asv imports the suite twice before it measures anything.
ASV_START_S = 20.0
# A process from fork to end, without its calls; and the calls that it makes beside its samples.
PROCESS_S = 0.9
OTHER_CALLS = 6
# Two fresh processes that compile and load, shared by the ten figures of COMPILE.
FIRST_CALLS_S = 1.0
# What calls take in units of the product; those that are not here 1.6.
PRODUCTS = {
    CONTROL: 1.0,
    FORWARD: 1.0,
    FORWARD_ENTROPY: 1.0,
    TWO_PASS: 3.3,
    FORWARD_BACKWARD: 4.3,
    FORWARD_BACKWARD_ENTROPY: 4.3,
    ACTIVE: 4.3,
    TWO_PASS_BACKWARD: 12.0,
    ACTIVE_TWO_PASS: 12.0,
}


class SweepError(RuntimeError):
    """Nothing can be measured, and why."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where results belong: their folder, and what their rounds are filed under."""

    results: Path
    commit: str
    environment: str
    machine: str

    @property
    def rounds(self) -> Path:
        """The file of the rounds."""
        name = f"{self.commit[:8]}-{self.environment}-{self.machine}.jsonl"
        return self.results / "rounds" / name.replace("/", "_")


def in_shard(series: Sequence[Series], index: int, count: int) -> list[Series]:
    """Part ``index`` (from 1) of ``count``: whole shapes, by their place among all shapes."""
    shapes = {params: None for _, params in series}
    place = {params: number for number, params in enumerate(sorted(shapes))}
    return [pair for pair in series if place[pair[1]] % count == index - 1]


def runnable(series: Iterable[Series], device: Device) -> list[Series]:
    """Those that this kind of device can run."""
    found = []
    for benchmark, params in series:
        workload = workload_of(params)
        if workload is None or runs_on(workload, device):
            found.append((benchmark, params))
    return found


def workload_of(params: str) -> Workload | None:
    """The shape of a series' parameters, as asv prints them; None where they name none."""
    values = ast.literal_eval(f"({params},)")
    return Workload(*values[:3]) if values[0] in BY_NAME else None


def measured(rounds: Path, commit: str, again: Set[str] = frozenset()) -> Counter[Series]:
    """How many rounds each series has, without those of a status in ``again``.

    Failures and skips count too, else they would be tried without end. A line cut short
    by a kill is passed over.
    """
    found: Counter[Series] = Counter()
    if not rounds.exists():
        return found
    for line in rounds.read_text(encoding="utf-8").split("\n"):
        try:
            record: Mapping[str, Any] = json.loads(line)
        except json.JSONDecodeError:
            continue
        if record["commit"] == commit and record["status"] not in again:
            params = ", ".join(map(repr, record["params"].values()))
            found[record["benchmark"], params] += 1
    return found


def expected_s(series: Series) -> float:
    """About how long one process of a series takes on an H200, in seconds."""
    benchmark, params = series
    workload = workload_of(params)
    if workload is None or benchmark in MEMORY:
        return PROCESS_S
    if benchmark in COMPILE:
        return PROCESS_S + FIRST_CALLS_S
    length_ms = nominal_ms(workload, Work(PRODUCTS.get(benchmark, 1.6)))
    plan = gpu_plan(length_ms)
    sample_ms = plan.gap_ms + plan.group * length_ms
    calls_ms = (plan.samples + 1) * sample_ms + OTHER_CALLS * length_ms
    return PROCESS_S + calls_ms / 1000


def in_order(tier: str) -> list[Series]:
    """A tier's series in the order of its selections: in each whole shapes, the shortest first.

    What is compared with each other is thus measured in one sitting, on one card.
    """
    ordered: list[Series] = []
    for part in TIERS[tier]:
        shapes = [[(name, params) for name in part.benchmarks] for params in part.params]
        shapes.sort(key=lambda shape: sum(map(expected_s, shape)))
        ordered += itertools.chain.from_iterable(shapes)
    return list(dict.fromkeys(ordered))


def piece(series: Sequence[Series], rounds: int, seconds: float) -> list[Series]:
    """As many of ``series``, from the first, as fit into ``seconds``.

    Whole shapes, except where none fits.
    """
    chosen: list[Series] = []
    left = seconds - ASV_START_S
    for _, group in itertools.groupby(series, key=lambda pair: pair[1]):
        shape = list(group)
        costs = list(itertools.accumulate(rounds * expected_s(pair) for pair in shape))
        if costs[-1] > left:
            return chosen or shape[: sum(cost <= left for cost in costs)]
        chosen += shape
        left -= costs[-1]
    return chosen


def resolve(repository: Path, revision: str) -> str:
    """The full hash of a revision. Raises SweepError where there is none."""
    command = ["git", "-C", str(repository), "rev-parse", "--verify", f"{revision}^{{commit}}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SweepError(f"no commit {revision!r} in {repository}: {done.stderr.strip()}")
    return done.stdout.strip()


def heed_interrupts() -> None:
    """A shell's background jobs ignore interrupts, and so would asv."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def interrupt(process: subprocess.Popen[bytes], patience_s: float = 20.0) -> None:
    """End asv as Ctrl-C does: it then ends its fork server, which a kill would leave behind."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def run_piece(
    place: Place, series: Sequence[Series], rounds: int, limit_s: float, log: Path
) -> None:
    """Let asv measure ``series``. Raises SweepError where asv itself fails.

    A benchmark's failure (asv's status 2) is in its records. ``limit_s`` is when asv is
    interrupted; the rounds until then are on disk.
    """
    command = [sys.executable, "-m", "asv", "run", f"{place.commit}^!"]
    command += ["--machine", place.machine, "--bench", expression_of(series)]
    command += ["--attribute", f"rounds={rounds}"]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=heed_interrupts,
        )
        try:
            status = process.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            interrupt(process)
            return
        except BaseException:
            interrupt(process)
            raise
    if status not in (0, 2):
        words = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise SweepError(f"asv ended with {status}: {words[-1] if words else 'no message'} ({log})")


def sweep(
    place: Place, series: Sequence[Series], rounds: int, seconds: float, log: Path
) -> list[Series]:
    """Give every series a process per round until the time is up; returns what remains."""
    ends = time.monotonic() + seconds
    todo = list(series)
    while True:
        left = ends - time.monotonic()
        chosen = piece(todo, rounds, left)
        if not chosen:
            return todo
        print(f"{len(chosen)} of {len(todo)} series, {left / 60:.1f} min left", file=sys.stderr)
        before = measured(place.rounds, place.commit)
        run_piece(place, chosen, rounds, left, log)
        after = measured(place.rounds, place.commit)
        new = {pair for pair in chosen if after[pair] > before[pair]}
        if not new:
            raise SweepError(f"asv measured none of {len(chosen)} series; see {log}")
        todo = [pair for pair in todo if pair not in new]


def locate(revision: str, machine: str | None) -> tuple[Place, Device]:
    """Where the results of this checkout's asv.conf.json go. Raises SweepError."""
    from asv.config import Config
    from asv.machine import Machine
    from asv.util import UserError

    try:
        config = Config.load()
        gpu = visible_gpu()
        device: Device = "cpu" if gpu is None else "gpu"
        name = machine or Machine.get_unique_machine_name()
    except (UserError, DeviceError) as error:
        raise SweepError(str(error)) from error
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    environment = f"checkout-py{version}-{device}"
    commit = resolve(Path.cwd(), revision)
    return Place(Path(config.results_dir).absolute(), commit, environment, name), device


def shard(text: str) -> tuple[int, int]:
    """``2/4`` as (2, 4). Raises ArgumentTypeError, in one line, for anything else."""
    index, _, count = text.partition("/")
    if not (index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a part of a whole, such as 1/4")
    return int(index), int(count)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a shard of a tier; the exit status says whether something remains."""
    parser = argparse.ArgumentParser(
        prog="python -m asv_benchmarks.sweep", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--tier", choices=sorted(TIERS), default="full")
    parser.add_argument("--benchmarks", metavar="REGEX", help="only benchmarks named like this")
    parser.add_argument("--commit", default="HEAD", metavar="REV")
    parser.add_argument("--shard", type=shard, default=(1, 1), metavar="I/N")
    parser.add_argument(
        "--minutes", type=float, default=9.0, help="stop before so many have passed"
    )
    parser.add_argument("--rounds", type=int, default=1, help="processes a series (default 1)")
    parser.add_argument("--machine", help="asv's name of this machine")
    parser.add_argument("--retry-failed", action="store_true", help="failures do not count as done")
    parser.add_argument("--list", action="store_true", help="print what remains and stop")
    chosen = parser.parse_args(arguments)
    try:
        place, device = locate(chosen.commit, chosen.machine)
        series = in_shard(runnable(in_order(chosen.tier), device), *chosen.shard)
        if chosen.benchmarks:
            series = [pair for pair in series if re.match(chosen.benchmarks, pair[0])]
        again = frozenset({"failed"} if chosen.retry_failed else ())
        done = measured(place.rounds, place.commit, again)
        remaining = [pair for pair in series if done[pair] < chosen.rounds]
        if remaining and not chosen.list:
            log = Path(".asv") / "sweep.log"
            try:
                remaining = sweep(place, remaining, chosen.rounds, chosen.minutes * 60, log)
            finally:
                # asv saves a commit's results at its end; an interrupted piece has none.
                if place.rounds.exists():
                    recover(place.results)
    except (SweepError, RecoverError) as error:
        print(f"sweep: {error}", file=sys.stderr)
        return 1
    for benchmark, params in remaining:
        print(f"{benchmark}({params})")
    print(f"{len(remaining)} of {len(series)} series remain", file=sys.stderr)
    return REMAINS if remaining else 0


if __name__ == "__main__":
    sys.exit(main())
