"""How still the numbers hold and which slowdowns they tell: code measured against itself.

    python -m asv_benchmarks.proof take FOLDER --commit REV --comparisons 20 --minutes 9
    python -m asv_benchmarks.proof report FOLDER [FOLDER …] > proof.md

``take`` clones the repository into FOLDER and adds three commits with the tree of REV:
``base`` and ``head``, which are alike, and ``planted``, whose calls do a known share of
extra work (``planted.py``). A comparison measures all three, their rounds interleaved, and
keeps its results in a folder of its own. One that its time does not suffice for is not
begun, and one that was cut short is taken anew: none spans two sittings. Only
FOLDER/comparisons has to be kept from one sitting to the next. ``report`` reads what is
complete (``proof_report.py``). Give each GPU its own FOLDER.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from asv_benchmarks import tiers
from asv_benchmarks.planted import VARIABLE
from asv_benchmarks.proof_report import Comparison, load, report
from asv_benchmarks.sweep import ASV_START_S, expected_s
from asv_benchmarks.workloads import Workload

ULTRA = Workload("nemotron-ultra", 8192, 1)

# All families, from 0.01 ms to 40 ms.
SETS: dict[str, tuple[tiers.Selection, ...]] = {
    "warm": (
        tiers.select((tiers.TINY,), tiers.FORWARD),
        tiers.select((tiers.SMALL,), tiers.FORWARD_ENTROPY, tiers.CONTROL, tiers.HOST),
        tiers.select((tiers.SMALL,), tiers.ACCURACY[0]),
        tiers.select(
            (tiers.SUPER_TP4,),
            tiers.FORWARD_ENTROPY,
            tiers.FORWARD_BACKWARD_ENTROPY,
            tiers.TWO_PASS_BACKWARD,
            tiers.FIVE_STAGES,
            tiers.CHUNKED,
            tiers.MATERIALISED,
            tiers.MATERIALISED_BACKWARD,
            tiers.MEMORY[0],
        ),
        tiers.active(tiers.SUPER_TP4, (23,), tiers.ACTIVE),
        tiers.select((tiers.SUPER,), tiers.FORWARD, tiers.CONTROL, tiers.TWO_PASS),
        tiers.select((tiers.QWEN,), tiers.FORWARD_BACKWARD),
        tiers.select((ULTRA,), tiers.FORWARD_ENTROPY),
        tiers.BANDWIDTH_OF_4_GIB,
    ),
    "cold": (tiers.select((tiers.PROBE,), *tiers.COMPILE),),
    "smoke": (tiers.select((tiers.TINY,), tiers.FORWARD, tiers.FORWARD_ENTROPY, tiers.CONTROL),),
}

COMPLETE = "complete.json"
IDENTITY = {
    "GIT_AUTHOR_NAME": "proof",
    "GIT_AUTHOR_EMAIL": "proof@localhost",
    "GIT_COMMITTER_NAME": "proof",
    "GIT_COMMITTER_EMAIL": "proof@localhost",
}


class ProofError(RuntimeError):
    """A comparison cannot be taken, and why."""


@dataclass(frozen=True, slots=True)
class Commits:
    """The commit that is measured, and the three of its tree."""

    measured: str
    base: str
    head: str
    planted: str


def run(command: Sequence[str], where: Path, **variables: str) -> str:
    """Standard output of a command. Raises ProofError with its last words."""
    environ = {**os.environ, **variables}
    done = subprocess.run(
        command,
        cwd=where,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        words = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
        raise ProofError(f"{' '.join(command[:4])} ended with {done.returncode}: {words[-1]}")
    return done.stdout.strip()


def prepare(folder: Path, repository: Path, revision: str) -> tuple[Path, Commits]:
    """The clone in ``folder`` and its three commits, which have the same hashes anywhere.

    The suite that measures is that of ``revision`` too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    clone = folder / "repository"
    commit = run(["git", "rev-parse", "--verify", f"{revision}^{{commit}}"], repository)
    if not clone.exists():
        run(["git", "clone", "-q", "--no-checkout", str(repository), clone.name], folder)
    run(["git", "checkout", "-q", "--force", "-B", "main", commit], clone)
    date = run(["git", "show", "-s", "--format=%cI", commit], clone)
    dated = {**IDENTITY, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    made = {"measured": commit}
    parent = commit
    for name in ("base", "head", "planted"):
        tree = f"{commit}^{{tree}}"
        message = f"proof: {name}"
        parent = run(["git", "commit-tree", tree, "-p", parent, "-m", message], clone, **dated)
        made[name] = parent
    run(["git", "reset", "-q", "--soft", parent], clone)
    return clone, Commits(**made)


def take_one(folder: Path, clone: Path, commits: Commits, options: argparse.Namespace) -> float:
    """One comparison into ``folder``; returns its seconds. Raises ProofError."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    started = time.monotonic()
    hashes = folder / "commits"
    alike = (commits.base, commits.head, commits.planted)
    hashes.write_text("\n".join(alike) + "\n", encoding="utf-8")
    conf = json.loads((clone / "asv.conf.json").read_text(encoding="utf-8"))
    conf["results_dir"] = str((folder / "results").absolute())
    # Beside the suite: asv finds repository, plugin and benchmarks from the file's folder.
    own = clone / "asv.proof.json"
    own.write_text(json.dumps(conf), encoding="utf-8")
    pairs = [pair for part in SETS[options.set] for pair in part.series()]
    command = [sys.executable, "-m", "asv", "--config", own.name, "run"]
    command += [f"HASHFILE:{hashes.absolute()}", "--interleave-rounds"]
    command += ["--machine", options.machine, "--attribute", f"rounds={options.rounds}"]
    command += ["--bench", tiers.expression_of(pairs)]
    planted = f"{commits.planted}:{options.plant}"
    log = folder / "asv.log"
    with log.open("w", encoding="utf-8") as output:
        done = subprocess.run(
            command,
            cwd=clone,
            env={**os.environ, VARIABLE: planted},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode not in (0, 2):
        words = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise ProofError(f"asv ended with {done.returncode}: {words[-1] if words else ''} ({log})")
    seconds = time.monotonic() - started
    complete = {
        **asdict(commits),
        "set": options.set,
        "plant": options.plant,
        "threshold": options.threshold,
        "rounds": options.rounds,
        "seconds": round(seconds, 1),
        "verdicts": {
            side: check(folder, clone, commits.base, getattr(commits, side), options.threshold)
            for side in ("head", "planted")
        },
    }
    (folder / COMPLETE).write_text(json.dumps(complete), encoding="utf-8")
    return seconds


def check(
    folder: Path, clone: Path, base: str, head: str, threshold: float
) -> dict[str, str] | None:
    """What ``lmhead-perf check`` says of each series; None where it is not installed."""
    command = [sys.executable, "-c", "from dashboard.cli import main; main()"]
    store = ["--store", str((folder / "store.duckdb").absolute())]
    try:
        run([*command, "ingest", str((folder / "results").absolute()), *store], clone)
    except ProofError as error:
        if "ModuleNotFoundError" in str(error):
            return None
        raise
    output = (folder / f"verdict-{head[:8]}.json").absolute()
    asked = ["--base", base, "--head", head, "--threshold", str(threshold)]
    shown = ["--format", "json", "--output", str(output)]
    done = subprocess.run(
        [*command, "check", *asked, *store, *shown],
        cwd=clone,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if not output.exists():
        raise ProofError(f"lmhead-perf check ended with {done.returncode}: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    return {series_name(series): series["verdict"] for series in found["series"]}


def series_name(series: dict[str, Any]) -> str:
    """``benchmark(params)`` of a series in the check's JSON."""
    return f"{series['benchmark']}({', '.join(map(repr, series['params'].values()))})"


def expected(name: str, rounds: int) -> float:
    """About how many seconds a comparison takes, before one has been taken."""
    series = [pair for part in SETS[name] for pair in part.series()]
    return 3 * rounds * (ASV_START_S / 2 + sum(map(expected_s, series)))


def take(options: argparse.Namespace) -> int:
    """Take comparisons until there are enough or the time is up; how many are missing."""
    ends = time.monotonic() + options.minutes * 60
    clone, commits = prepare(options.folder, Path.cwd(), options.commit)
    root = options.folder / "comparisons"
    numbers = range(1, options.comparisons + 1)
    missing = [n for n in numbers if not (root / f"{options.set}-{n:03}" / COMPLETE).exists()]
    seconds = max(
        (c.seconds for c in load([options.folder]) if c.set == options.set),
        default=expected(options.set, options.rounds),
    )
    for number in list(missing):
        if time.monotonic() + seconds * 1.05 > ends:
            break
        folder = root / f"{options.set}-{number:03}"
        seconds = take_one(folder, clone, commits, options)
        missing.remove(number)
        print(f"comparison {number} of {options.comparisons}: {seconds:.0f} s", file=sys.stderr)
    print(f"{len(missing)} of {options.comparisons} comparisons are missing", file=sys.stderr)
    return len(missing)


def main(arguments: Iterable[str] | None = None) -> int:
    """Exit status 0 when done, 3 where comparisons are missing, 1 where none can be taken."""
    parser = argparse.ArgumentParser(
        prog="python -m asv_benchmarks.proof", description=(__doc__ or "").split("\n", 1)[0]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    taking = commands.add_parser("take", help="measure; can be resumed")
    taking.add_argument("folder", type=Path)
    taking.add_argument("--commit", default="HEAD", metavar="REV")
    taking.add_argument("--comparisons", type=int, default=20)
    taking.add_argument("--minutes", type=float, default=9.0)
    taking.add_argument("--rounds", type=int, default=3, help="processes a series and commit")
    taking.add_argument("--set", choices=sorted(SETS), default="warm")
    taking.add_argument("--plant", type=float, default=0.01, help="share of extra work")
    taking.add_argument("--threshold", type=float, default=0.5, help="of the check, in percent")
    taking.add_argument("--machine", default="proof", help="asv's name of this machine")
    reporting = commands.add_parser("report", help="Markdown of what is complete")
    reporting.add_argument("folder", type=Path, nargs="+")
    options = parser.parse_args(None if arguments is None else list(arguments))
    if options.command == "report":
        found: list[Comparison] = load(options.folder)
        if not found:
            print(f"proof: no complete comparison in {options.folder[0]}", file=sys.stderr)
            return 1
        print(report(found))
        return 0
    try:
        return 3 if take(options) else 0
    except ProofError as error:
        print(f"proof: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
