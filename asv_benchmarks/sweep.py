"""A tier in pieces that can be resumed, for machines that are lent for minutes.

    python -m asv_benchmarks.sweep --tier full --shard 1/4 --minutes 9

Series whose rounds the results already have for this commit, environment and machine are
left out; of the others ``asv run`` is given what fits into the time: whole shapes, the tier's
first selection first (within a piece asv goes by benchmark). Times of a shape that another
card measured in part are measured anew, all on this one. It stops before its time is up and
says what remains; the same command goes on from there (exit status 3, 130 after an interrupt; 0
when nothing remains). A shard holds whole shapes. Shards that run side by side need a clone
each; ``python -m asv_benchmarks.merge`` joins their results.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence, Set
from pathlib import Path

from asv_benchmarks.place import Place, PlaceError, check_machine, locate
from asv_benchmarks.recover import RecoverError, recover
from asv_benchmarks.sweep_plan import (
    Series,
    SweepError,
    in_order,
    in_shard,
    measured,
    piece,
    remaining,
    runnable,
)
from asv_benchmarks.tiers import TIERS, expression_of
from asv_benchmarks.versions import VersionError

REMAINS = 3
INTERRUPTED = 130


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
            process_group=0,  # a terminal's Ctrl-C is this process's, which then ends asv
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
    place: Place,
    series: Sequence[Series],
    rounds: int,
    seconds: float,
    log: Path,
    again: Set[str] = frozenset(),
) -> list[Series]:
    """Give every series that lacks them a process per round until the time is up.

    Returns what remains. ``again``: rounds of these statuses do not count, if they were there
    before. Raises SweepError where asv fails or measures nothing.
    """
    ends = time.monotonic() + seconds
    todo = remaining(place, series, rounds, again)
    tried: set[Series] = set()
    while chosen := piece(todo, rounds, ends - time.monotonic()):
        left = ends - time.monotonic()
        print(f"{len(chosen)} of {len(todo)} series, {left / 60:.1f} min left", file=sys.stderr)
        before = measured(place.rounds, place.commit)
        run_piece(place, chosen, rounds, left, log)
        after = measured(place.rounds, place.commit)
        new = {pair for pair in chosen if after.get(pair) != before.get(pair)}
        # asv goes round by round: interrupted, each series may lack its last one.
        if time.monotonic() < ends:
            if not new:
                names = ", ".join(f"{name}({params})" for name, params in chosen[:3])
                raise SweepError(
                    f"asv measured none of {len(chosen)} series ({names}, …); see {log}"
                    if len(chosen) > 3
                    else f"asv left no round of {names}; see {log}"
                )
            tried |= new
        todo = [pair for pair in remaining(place, series, rounds, again) if pair not in tried]
    short = set(remaining(place, series, rounds))  # a round lost with its process is no round
    todo = remaining(place, series, rounds, again)
    return [pair for pair in todo if pair not in tried or pair in short]


def shard(text: str) -> tuple[int, int]:
    """``2/4`` as (2, 4). Raises ArgumentTypeError, in one line, for anything else."""
    index, _, count = text.partition("/")
    if not (index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a part of a whole, such as 1/4")
    return int(index), int(count)


def positive(text: str) -> int:
    """A number of at least 1. Raises ArgumentTypeError, in one line, for anything else."""
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


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
    parser.add_argument("--rounds", type=positive, default=1, help="processes a series (default 1)")
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
        left = remaining(place, series, chosen.rounds, again)
        if left and not chosen.list:
            check_machine(place.machine)
            log, seconds = Path(".asv") / "sweep.log", chosen.minutes * 60
            try:
                left = sweep(place, series, chosen.rounds, seconds, log, again)
            finally:
                # asv saves a commit's results at its end; an interrupted piece has none.
                if place.rounds.exists():
                    recover(place.results)
    except (PlaceError, SweepError, VersionError, RecoverError) as error:
        print(f"sweep: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("sweep: interrupted; the same command goes on from here", file=sys.stderr)
        return INTERRUPTED
    for benchmark, params in left:
        print(f"{benchmark}({params})")
    print(f"{len(left)} of {len(series)} series remain", file=sys.stderr)
    return REMAINS if left else 0


if __name__ == "__main__":
    sys.exit(main())
