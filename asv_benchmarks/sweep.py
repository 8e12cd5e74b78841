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
import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asv_benchmarks.device import DeviceError, visible_gpu
from asv_benchmarks.recover import RecoverError, recover
from asv_benchmarks.sweep_plan import Series, in_order, in_shard, piece, runnable
from asv_benchmarks.tiers import TIERS, expression_of
from asv_benchmarks.workloads import Device

REMAINS = 3


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
