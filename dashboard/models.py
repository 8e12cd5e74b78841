"""The records that travel between the rooms of the dashboard.

All are frozen values without behaviour that needs a database, a repository or
a browser. Units: a measurement's value is in its series' ``unit``; ratios are
pure numbers, above 1 worse for every unit; clocks in MHz, power in W,
temperature in °C; times are timezone-aware UTC.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Status(StrEnum):
    """What became of a measurement or a round."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"


class Verdict(StrEnum):
    """What a comparison of two commits says of one series."""

    REGRESSED = "regressed"
    FAILED = "failed"
    MISSING = "missing"
    INCONCLUSIVE = "inconclusive"
    NOT_COMPARABLE = "not_comparable"
    NEW = "new"
    IMPROVED = "improved"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit, as the repository or the shipped ``commits.jsonl`` has it.

    ``position`` counts first-to-last in topological order; ``None`` where the
    commit is unknown to both and only its date places it.
    """

    hash: str
    date: datetime
    tree: str | None = None
    parents: tuple[str, ...] = ()
    author: str | None = None
    author_date: datetime | None = None
    subject: str | None = None
    tags: tuple[str, ...] = ()
    position: int | None = None


CARD_CONDITION = "GPU card"
"""The name of what changes where another card of the same model measured."""


@dataclass(frozen=True, slots=True)
class Series:
    """One benchmark at one parameter combination on one machine and environment."""

    benchmark: str
    params: tuple[tuple[str, str], ...]
    machine: str
    environment: str
    unit: str
    family: str | None = None
    model: str | None = None
    tokens: int | None = None
    tp: int | None = None
    higher_is_better: bool = False

    @property
    def label(self) -> str:
        """``benchmark(name=value, …)``."""
        inside = ", ".join(f"{name}={value}" for name, value in self.params)
        return f"{self.benchmark}({inside})" if inside else self.benchmark


@dataclass(frozen=True, slots=True)
class Round:
    """One process: its samples (series' unit) and the conditions it ran under.

    ``gap_ms`` is the idle time before each sample, 0 where they were not paced; ``run`` the
    invocation of asv that made it.
    """

    samples: tuple[float, ...]
    value: float | None
    status: Status = Status.OK
    reason: str | None = None
    started_at: datetime | None = None
    gpu_uuid: str | None = None
    sm_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    clock_event_reasons: tuple[str, ...] = ()
    gap_ms: float | None = None
    run: str | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """A series at one commit: one side of a comparison.

    ``rounds`` is empty where only the pooled value is known; a comparison then
    has no interval of its own. ``others`` are all of the commit's rounds that a run behind
    one of the two values took. ``statistic`` is what a round's value is of its samples,
    ``minimum`` or ``median``; ``protocol`` how these were taken.
    """

    commit: str
    status: Status
    value: float | None
    rounds: tuple[Round, ...] = ()
    reason: str | None = None
    version: str | None = None
    gpu: str | None = None
    driver: str | None = None
    torch: str | None = None
    triton: str | None = None
    statistic: str | None = None
    protocol: str | None = None
    others: tuple[Round, ...] = ()


@dataclass(frozen=True, slots=True)
class Pair:
    """The same series at base and head; ``None`` where it was not measured."""

    series: Series
    base: Side | None
    head: Side | None


@dataclass(frozen=True, slots=True)
class SeriesVerdict:
    """The verdict of one series.

    ``ratio`` is head/base (base/head where higher is better), so above 1 is
    worse; ``None``, with ``difference`` = head - base in the unit, where a side
    is 0. ``low`` and ``high`` bound the ratio at 95 %, not adjusted for the
    number of series; both ``None`` where nothing carries an interval. ``run`` is the
    invocation of asv whose rounds were compared, where these are not the latest ones.
    """

    series: Series
    verdict: Verdict
    reason: str
    base: float | None = None
    head: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    difference: float | None = None
    threshold: float | None = None
    rounds_needed: int | None = None
    run: str | None = None


@dataclass(frozen=True, slots=True)
class CheckReport:
    """All verdicts of two commits, worst first, and what the reader must know.

    ``left_out`` series of base were not to be measured at head, as a note says. ``unsure``: a
    file of the two commits could not be read, as a note says; nothing wrong is then not certain.
    """

    base: Commit
    head: Commit
    verdicts: tuple[SeriesVerdict, ...]
    notes: tuple[str, ...] = field(default=())
    left_out: int = 0
    unsure: bool = False

    def count(self, verdict: Verdict) -> int:
        """How many series got this verdict."""
        return sum(v.verdict is verdict for v in self.verdicts)
