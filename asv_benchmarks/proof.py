"""How still the numbers hold and which slowdowns they tell: code measured against itself.

    python -m asv_benchmarks.proof take FOLDER --commit REV --comparisons 10 --minutes 9
    python -m asv_benchmarks.proof keep FOLDER [FOLDER …] --into asv_benchmarks/sittings/STUDY
    python -m asv_benchmarks.proof report asv_benchmarks/sittings/STUDY > proof.md

``take`` clones the repository into FOLDER and adds commits with the tree of REV: ``base``
and ``head``, which are alike, and ``planted`` and ``twin``, whose calls do a known share of
extra work (``planted.py``). A sitting measures all of them, their rounds interleaved, and
keeps its results in a folder of its own: two comparisons of what is alike, two of what is
slower. One that its time does not suffice for is not begun, and one that was cut short is
taken anew: none is spread over two calls of ``take``. Only FOLDER/comparisons has to be
kept from one call to the next. ``keep`` lets ``lmhead-perf check`` judge what is complete,
and makes each sitting one file to be shipped (``proof_kept.py``); ``report`` sums up a
folder of either kind (``proof_report.py``). Give each GPU its own FOLDER.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from asv_benchmarks import proof_kept, tiers
from asv_benchmarks.planted import VARIABLE
from asv_benchmarks.proof_judge import ProofError, judged, keep, run
from asv_benchmarks.proof_report import (
    COMPLETE,
    Sitting,
    load,
    report,
    rounds_of,
    set_label,
)
from asv_benchmarks.sweep import REMAINS
from asv_benchmarks.sweep_plan import ASV_START_S, expected_s

# Every family, from 0.01 ms to 40 ms; what is planted can be told in the first set only.
SETS: dict[str, tuple[tiers.Selection, ...]] = {
    "warm": (
        tiers.select((tiers.TINY,), tiers.FORWARD),
        tiers.select((tiers.SMALL,), tiers.FORWARD_ENTROPY, tiers.CONTROL, tiers.TWO_PASS_BACKWARD),
        tiers.select(
            (tiers.SUPER_TP4,),
            tiers.FORWARD_ENTROPY,
            tiers.FORWARD_BACKWARD_ENTROPY,
            tiers.FIVE_STAGES,
            tiers.CHUNKED,
            tiers.MATERIALISED,
        ),
        tiers.select((tiers.SUPER,), tiers.TWO_PASS),
        tiers.select((tiers.QWEN,), tiers.FORWARD_BACKWARD),
    ),
    "other": (
        tiers.select((tiers.SMALL,), tiers.HOST, tiers.ACCURACY[0]),
        tiers.select((tiers.SUPER_TP4,), tiers.MEMORY[0]),
        tiers.BANDWIDTH_OF_4_GIB,
    ),
    "cold": (tiers.select((tiers.PROBE,), *tiers.COMPILE),),
    "smoke": (tiers.select((tiers.TINY,), tiers.FORWARD, tiers.FORWARD_ENTROPY, tiers.CONTROL),),
}

IDENTITY = {
    "GIT_AUTHOR_NAME": "proof",
    "GIT_AUTHOR_EMAIL": "proof@localhost",
    "GIT_COMMITTER_NAME": "proof",
    "GIT_COMMITTER_EMAIL": "proof@localhost",
}


@dataclass(frozen=True, slots=True)
class Commits:
    """The commit that is measured, and those of its tree."""

    measured: str
    base: str
    head: str
    planted: str
    twin: str

    def sides(self, planted: bool) -> dict[str, str]:
        """The commits to be measured by their names, with or without the slower ones."""
        alike = {"base": self.base, "head": self.head}
        return alike | ({"planted": self.planted, "twin": self.twin} if planted else {})


def prepare(folder: Path, repository: Path, revision: str) -> tuple[Path, Commits]:
    """The clone in ``folder`` and its commits, which have the same hashes anywhere.

    The suite that measures is that of ``revision`` too.
    """
    commit = run(["git", "rev-parse", "--verify", f"{revision}^{{commit}}"], repository)
    folder.mkdir(parents=True, exist_ok=True)
    clone = folder / "repository"
    if not clone.exists():
        run(["git", "clone", "-q", "--no-checkout", str(repository), clone.name], folder)
    run(["git", "fetch", "-q", str(repository), commit], clone)
    run(["git", "checkout", "-q", "--force", "-B", "main", commit], clone)
    date = run(["git", "show", "-s", "--format=%cI", commit], clone)
    dated = {**IDENTITY, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    made = {"measured": commit}
    parent = commit
    for name in ("base", "head", "planted", "twin"):
        tree = f"{commit}^{{tree}}"
        message = f"proof: {name}"
        parent = run(["git", "commit-tree", tree, "-p", parent, "-m", message], clone, **dated)
        made[name] = parent
    run(["git", "reset", "-q", "--soft", parent], clone)
    return clone, Commits(**made)


def take_one(folder: Path, clone: Path, commits: Commits, options: argparse.Namespace) -> float:
    """One sitting into ``folder``; returns its seconds. Raises ProofError."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    started = time.monotonic()
    hashes = folder / "commits"
    sides = commits.sides(bool(options.plant))
    hashes.write_text("".join(f"{commit}\n" for commit in sides.values()), encoding="utf-8")
    conf = json.loads((clone / "asv.conf.json").read_text(encoding="utf-8"))
    conf["results_dir"] = str((folder / "results").absolute())
    # Beside the suite: asv finds repository, plugin and benchmarks from the file's folder.
    own = clone / "asv.proof.json"
    own.write_text(json.dumps(conf), encoding="utf-8")
    pairs = series_in(options.set, options.benchmarks)
    command = [sys.executable, "-m", "asv", "--config", own.name, "run"]
    command += [f"HASHFILE:{hashes.absolute()}", "--interleave-rounds"]
    command += ["--machine", options.machine, "--attribute", f"rounds={options.rounds}"]
    command += ["--bench", tiers.expression_of(pairs)]
    environ = dict(os.environ)
    if options.plant:
        environ[VARIABLE] = f"{commits.planted},{commits.twin}:{','.join(map(str, options.plant))}"
    log = folder / "asv.log"
    with log.open("w", encoding="utf-8") as output:
        done = subprocess.run(
            command,
            cwd=clone,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode not in (0, 2):
        words = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise ProofError(f"asv ended with {done.returncode}: {words[-1] if words else ''} ({log})")
    seconds = time.monotonic() - started
    succeeded = {line["commit"] for line in rounds_of(folder) if line["status"] == "ok"}
    if lost := [side for side, commit in sides.items() if commit not in succeeded]:
        raise ProofError(f"no round of {', '.join(lost)} succeeded ({log})")
    complete = {
        "measured": commits.measured,
        "sides": sides,
        "set": options.set,
        "benchmarks": options.benchmarks,
        "plant": options.plant,
        "rounds": options.rounds,
        "seconds": round(seconds, 1),
    }
    (folder / COMPLETE).write_text(json.dumps(complete), encoding="utf-8")
    return seconds


def series_in(name: str, benchmarks: str | None) -> list[tuple[str, str]]:
    """(benchmark, params) of a set, or of those whose benchmark's name begins as asked for.

    Raises ProofError where none does.
    """
    pairs = [pair for part in SETS[name] for pair in part.series()]
    chosen = [pair for pair in pairs if benchmarks is None or re.match(benchmarks, pair[0])]
    if not chosen:
        raise ProofError(f"the set {name!r} has no benchmark named like {benchmarks!r}")
    return chosen


def expected(series: Iterable[tuple[str, str]], rounds: int, sides: int) -> float:
    """About how many seconds a sitting takes, before one has been taken."""
    return ASV_START_S + sides * rounds * sum(map(expected_s, series))


def take(options: argparse.Namespace) -> int:
    """Take sittings until there are enough or the time is up; how many are missing."""
    ends = time.monotonic() + options.minutes * 60
    series = series_in(options.set, options.benchmarks)
    clone, commits = prepare(options.folder, Path.cwd(), options.commit)
    root = options.folder / "comparisons"
    numbers = range(1, options.comparisons + 1)
    marks = {n: root / f"{options.set}-{n:03}" / COMPLETE for n in numbers}
    missing = [number for number, mark in marks.items() if not mark.exists()]
    asked = {
        "measured": commits.measured,
        "benchmarks": options.benchmarks,
        "plant": options.plant,
        "rounds": options.rounds,
    }
    for number in set(numbers) - set(missing):
        taken = proof_kept.mark(marks[number])
        if other := [name for name, value in asked.items() if taken.get(name) != value]:
            raise ProofError(
                f"{marks[number].parent} differs in {', '.join(other)} from what is asked for; "
                "give this study a folder of its own"
            )
    label = set_label(options.set, options.benchmarks)
    seconds = max(
        (c.seconds for c in load([options.folder]) if c.set == label),
        default=expected(series, options.rounds, len(commits.sides(bool(options.plant)))),
    )
    for number in list(missing):
        if time.monotonic() + seconds * 1.05 > ends:
            break
        folder = root / f"{options.set}-{number:03}"
        seconds = take_one(folder, clone, commits, options)
        missing.remove(number)
        print(f"sitting {number} of {options.comparisons}: {seconds:.0f} s", file=sys.stderr)
    print(f"{len(missing)} of {options.comparisons} sittings are missing", file=sys.stderr)
    return len(missing)


def main(arguments: Iterable[str] | None = None) -> int:
    """Exit status 0 when done, 3 where sittings are missing, 1 where none can be taken."""
    parser = argparse.ArgumentParser(
        prog="python -m asv_benchmarks.proof", description=(__doc__ or "").split("\n", 1)[0]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    taking = commands.add_parser("take", help="measure; can be resumed")
    taking.add_argument("folder", type=Path)
    taking.add_argument("--commit", default="HEAD", metavar="REV")
    taking.add_argument("--comparisons", type=int, default=10, help="sittings")
    taking.add_argument("--minutes", type=float, default=9.0)
    taking.add_argument("--rounds", type=int, default=3, help="processes a series and commit")
    taking.add_argument("--set", choices=sorted(SETS), default="warm")
    taking.add_argument(
        "--benchmarks", metavar="REGEX", help="of the set, only benchmarks named like this"
    )
    taking.add_argument(
        "--plant",
        type=float,
        nargs="*",
        default=[0.01, 0.03],
        help="share of extra work: of calls of 2 to 20 ms, of others; nothing: none",
    )
    taking.add_argument("--machine", default="proof", help="asv's name of this machine")
    keeping = commands.add_parser("keep", help="judge what is complete and make files of it")
    keeping.add_argument("--into", type=Path, required=True, metavar="FOLDER")
    reporting = commands.add_parser("report", help="Markdown of what is complete")
    for command in (keeping, reporting):
        command.add_argument("folder", type=Path, nargs="+")
        command.add_argument(
            "--threshold", type=float, default=0.5, help="of the check, in percent"
        )
    options = parser.parse_args(None if arguments is None else list(arguments))
    if options.command == "take" and options.benchmarks is not None:
        try:
            re.compile(options.benchmarks)
        except (re.error, OverflowError, RecursionError) as error:
            parser.error(f"--benchmarks {options.benchmarks!r} is no regular expression: {error}")
        if not options.benchmarks:
            parser.error("--benchmarks is empty: leave it out to measure the whole set")
    if options.command == "take" and (
        len(options.plant) > 2 or not all(0 < share < 10 for share in options.plant)
    ):
        parser.error(f"--plant takes up to two shares between 0 and 10, not {options.plant}")
    try:
        if options.command == "take":
            return REMAINS if take(options) else 0
        judged(options.folder, options.threshold)
        if options.command == "keep":
            if keep(options.folder, options.into):
                return 0
            raise ProofError(f"no complete sitting in {options.folder[0]}/comparisons")
        found: list[Sitting] = load(options.folder)
        if not found:
            raise ProofError(f"no complete sitting in {options.folder[0]}")
        if other := {one.threshold for one in found} - {options.threshold}:
            raise ProofError(f"kept sittings were judged at {other.pop():g} %")
        print(report(found))
        return 0
    except (ProofError, proof_kept.KeptError) as error:
        print(f"proof: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
