"""The headline tables of a commit in their order, for the page and for the command line.

No streamlit: a table is a value with its title, what it lacks where it is empty, and the
benchmarks that would fill it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from dashboard.app import headlines, pairs, references, reproduce, wording

REFERENCE_NOTE = f"Reference figures are those of {references.SOURCE}."


@dataclass(frozen=True, slots=True)
class Table:
    """A table of figures. ``benchmarks`` is a regular expression over the suite's names,
    ``note`` what a reader of the figures has to know."""

    title: str
    frame: pd.DataFrame
    lacks: str
    benchmarks: str
    note: str = ""

    def command(self, commit: str, machine: str) -> str:
        """The asv command that measures it at a commit on a machine."""
        chosen = f"python -m asv_benchmarks.tiers core --benchmarks {shlex.quote(self.benchmarks)}"
        return reproduce.run(f'--bench "$({chosen})" {commit[:12]}^!', machine)


def tables(points: pd.DataFrame) -> Iterator[Table]:
    """Every table, computed from the points of one commit (``data.points``)."""
    found = pairs.families(points)
    ratios = headlines.ceiling(found)
    yield Table(
        "Distance to the ceiling",
        headlines.to_ceiling(ratios) if len(ratios) else pd.DataFrame(),
        "a benchmark with a control of the same shape",
        "control|forward|backward|entropy",
        "Time over that of a cuBLAS product of the same shape, which writes the logits. The floor "
        "is the products that the benchmark cannot do without.",
    )
    yield from cited(points, found)


def cited(points: pd.DataFrame, found: pairs.Families) -> Iterator[Table]:
    """The tables that the reference pull requests have as well."""
    yield Table(
        "Combined against two passes",
        headlines.combined(found),
        "a combined and a two-pass benchmark of one shape",
        "entropy|forward|activity",
    )
    tuned = references.TUNED
    yield Table(
        "Chosen schedule against the fixed one",
        headlines.tuned(found),
        "a benchmark of the family fixed; the reference PRs' autotuned loop changed the time by "
        f"{wording.MINUS}{-tuned.mean} % on average, {wording.MINUS}{-tuned.median} % in the "
        f"median, and was faster on {tuned.faster} of {tuned.shapes} shapes",
        "fixed|entropy",
    )
    yield Table(
        "Compile and tuning probe",
        headlines.compiled(points),
        f"a benchmark of the family compile; the reference PRs had {_listed(references.COMPILE)}",
        "compile",
    )
    yield Table(
        "Largest errors against the oracle",
        headlines.errors(points),
        f"a benchmark of the family accuracy; the reference PRs had {_listed(references.ERRORS)}",
        "accuracy",
        "Absolute errors grow with the values: the suite's upstream gradients are N(0, 1) for "
        "every token, the reference PRs' inputs are their own.",
    )


def _listed(figures: Mapping[str, tuple[str, str]]) -> str:
    return ", ".join(f"{name} {value}" for name, value in figures.values())
