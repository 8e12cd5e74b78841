"""What a proof's sittings say, from their rounds and their checks.

A *run value* is the median of a series' rounds at one commit of one sitting. ``base`` and
``head`` run the same code: their run values give the spread. ``planted`` and ``twin`` do a
known share of extra work on top, the same in both. What separates a pair that is alike is
noise.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from asv_benchmarks import proof_kept

# A slowdown of so many deviations of an unchanged pair exceeds, in 95 of 100 comparisons,
# what an unchanged pair shows in one of 100: the normal quantiles of 99 % and 95 %.
TOLD_DEVIATIONS = 2.326 + 1.645

# (kind, upper end in ms, largest spread asked for): warm GPU series by their length.
KINDS = (("under 2 ms", 2.0, 0.015), ("2 to 20 ms", 20.0, 0.005), ("over 20 ms", math.inf, 0.01))
COLD = ("cold", 0.15)


COMPLETE = "complete.json"

ALIKE = (("base", "head"), ("planted", "twin"))
SLOWER = (("base", "planted"), ("head", "twin"))
PAIRS = (*ALIKE, *SLOWER)
"""The comparisons of a sitting, no two of a kind with a side in common."""


@dataclass(frozen=True, slots=True)
class Sitting:
    """One complete sitting: run values by side and series, and the checks' verdicts.

    ``sides`` are base and head, and planted and twin where something was planted;
    ``verdicts`` those of a pair's second against its first, by ``first second``.
    ``facts`` are of each series: family, unit; ``planted`` its extra work, as a fraction;
    ``apart`` the largest spread among the rounds of one side. ``failed`` rounds, or skipped
    ones, are in no run value.
    """

    set: str
    rounds: int
    seconds: float
    threshold: float | None
    gpu: str
    gpu_uuid: str
    commit: str
    sides: Mapping[str, Mapping[str, float]]
    verdicts: Mapping[str, Mapping[str, str]]
    facts: Mapping[str, tuple[str, str]]
    planted: Mapping[str, float]
    apart: Mapping[str, float]
    failed: int

    def pairs(self, name: str, which: Iterable[tuple[str, str]]) -> list[tuple[float, float]]:
        """The run values of a series in the pairs that have both."""
        both = [(self.sides.get(base, {}), self.sides.get(head, {})) for base, head in which]
        return [(base[name], head[name]) for base, head in both if name in base and name in head]

    def called(self, name: str, which: Iterable[tuple[str, str]]) -> list[str]:
        """What the checks of these pairs say of a series that was measured on both sides."""
        pairs = [pair for pair in which if self.pairs(name, [pair])]
        checks = [self.verdicts.get(f"{base} {head}", {}) for base, head in pairs]
        return [check[name] for check in checks if name in check]


def load(folders: Iterable[Path]) -> list[Sitting]:
    """The complete sittings below the folders, and those kept in them, in the order of their names.

    One that is found in both forms, or twice, counts once. Raises proof_kept.KeptError for a
    file that is none.
    """
    found: list[Sitting] = []
    for folder in folders:
        here = [sitting(*proof_kept.read(path)) for path in proof_kept.files_in(folder)]
        marks = sorted(folder.glob(f"comparisons/*/{COMPLETE}"))
        here += [sitting(proof_kept.mark(path), rounds_of(path.parent)) for path in marks]
        for one in here:
            if _measured(one) not in map(_measured, found):
                found.append(one)
    return found


def _measured(one: Sitting) -> Sitting:
    """A sitting without what checks said of it."""
    return replace(one, threshold=None, verdicts={})


def rounds_of(folder: Path) -> list[dict[str, Any]]:
    """The lines of a sitting's rounds."""
    return [
        json.loads(line)
        for path in sorted(folder.glob("results/rounds/*.jsonl"))
        for line in filter(None, path.read_text(encoding="utf-8").split("\n"))
    ]


def set_label(name: str, benchmarks: str | None) -> str:
    """A set, and which of its benchmarks where not all were measured."""
    return name if benchmarks is None else f"{name} (`{benchmarks}`)"


def sitting(complete: Mapping[str, Any], lines: Iterable[Mapping[str, Any]]) -> Sitting:
    """One sitting from its mark and the lines of its rounds; failed rounds are left out."""
    side_of = {commit: side for side, commit in complete["sides"].items()}
    values: dict[str, dict[str, list[float]]] = {
        side: defaultdict(list) for side in side_of.values()
    }
    facts, planted = {}, {}
    gpu, uuid, failed = "CPU", "", 0
    for line in lines:
        if line["status"] != "ok":
            failed += 1
            continue
        name = f"{line['benchmark']}({', '.join(map(repr, line['params'].values()))})"
        values[side_of[line["commit"]]][name].append(line["value"])
        facts[name] = (line["family"], line["unit"])
        gpu, uuid = line["gpu"] or gpu, line["gpu_uuid"] or uuid
        if line.get("planted"):
            planted[name] = float(line["planted"])
    return Sitting(
        set=set_label(complete["set"], complete.get("benchmarks")),
        rounds=complete["rounds"],
        seconds=complete["seconds"],
        threshold=complete.get("threshold"),
        gpu=gpu,
        gpu_uuid=uuid,
        commit=complete["measured"],
        sides={
            side: {name: statistics.median(rounds) for name, rounds in series.items()}
            for side, series in values.items()
        },
        verdicts=complete.get("verdicts", {}),
        facts=facts,
        planted=planted,
        apart={
            name: max(spread(series[name]) for series in values.values() if name in series)
            for name in facts
        },
        failed=failed,
    )


@dataclass(frozen=True, slots=True)
class Finding:
    """What the sittings say of one series.

    ``spread`` is (max - min) / median of base's and head's run values on one card, the
    largest over the cards; ``apart`` the same of the rounds of one run, the largest;
    ``deviation`` the root mean square of the logarithms of alike pairs' ratios. ``planted`` is
    the extra work, ``slower`` the mean slowdown it makes, None where nothing was planted.
    ``seen`` of ``asked`` slower pairs were called regressed, ``false`` of ``unchanged`` alike
    ones.
    """

    series: str
    family: str
    unit: str
    value: float
    runs: int
    spread: float
    apart: float
    deviation: float
    planted: float | None
    slower: float | None
    seen: int
    asked: int
    false: int
    unchanged: int

    @property
    def told(self) -> float:
        """The smallest slowdown that is told, as a fraction."""
        return math.expm1(TOLD_DEVIATIONS * self.deviation)

    @property
    def kind(self) -> str:
        """What is asked of it goes by this."""
        if self.family == "compile":
            return COLD[0]
        if self.unit != "ms":
            return self.unit
        return next(name for name, end, _ in KINDS if self.value < end)

    @property
    def limit(self) -> float | None:
        """The largest spread asked for; None where nothing is."""
        limits = {name: limit for name, _, limit in KINDS} | {COLD[0]: COLD[1]}
        return limits.get(self.kind)


def findings(sittings: Sequence[Sitting]) -> list[Finding]:
    """A finding for each series that has base and head in some sitting."""
    names = dict.fromkeys(name for one in sittings for name in one.sides["base"])
    found = [finding(name, sittings) for name in names]
    return [one for one in found if one is not None]


def finding(name: str, sittings: Sequence[Sitting]) -> Finding | None:
    """What they say of one series; None where none has both base and head."""
    having = [one for one in sittings if one.pairs(name, ALIKE[:1])]
    if not having:
        return None
    cards: dict[tuple[str, str], list[float]] = defaultdict(list)
    for one in having:
        cards[one.gpu_uuid, one.commit] += one.pairs(name, ALIKE[:1])[0]
    values = [value for card in cards.values() for value in card]
    slowed = [one for one in having if name in one.planted]
    slower = [
        other / base - 1 for one in slowed for base, other in one.pairs(name, SLOWER) if base > 0
    ]
    calls = [call for one in slowed for call in one.called(name, SLOWER)]
    alarms = [call for one in having for call in one.called(name, ALIKE)]
    family, unit = having[0].facts[name]
    return Finding(
        series=name,
        family=family,
        unit=unit,
        value=statistics.median(values),
        runs=len(values),
        spread=max(map(spread, cards.values())),
        apart=max(one.apart[name] for one in having),
        deviation=deviation([pair for one in having for pair in one.pairs(name, ALIKE)]),
        planted=slowed[0].planted[name] if slowed else None,
        slower=statistics.fmean(slower) if slower else None,
        seen=calls.count("regressed"),
        asked=len(calls),
        false=alarms.count("regressed"),
        unchanged=len(alarms),
    )


def spread(values: Sequence[float]) -> float:
    """(max - min) / median; 0 where all are 0."""
    middle = statistics.median(values)
    return (max(values) - min(values)) / middle if middle else 0.0


def deviation(pairs: Iterable[tuple[float, float]]) -> float:
    """Root mean square of log(head / base); pairs with a 0 are left out."""
    squares = [math.log(head / base) ** 2 for base, head in pairs if base > 0 and head > 0]
    return math.sqrt(statistics.fmean(squares)) if squares else 0.0


def report(sittings: Sequence[Sitting]) -> str:
    """Markdown: what was measured, a table of kinds and families, a table of series."""
    found = findings(sittings)
    cards = len({one.gpu_uuid for one in sittings})
    models, commits = sorted({one.gpu for one in sittings}), sorted({s.commit for s in sittings})
    sets = Counter((one.set, one.rounds) for one in sittings)
    taken = ", ".join(
        f"{n} of {name} ({rounds} round{'s' if rounds > 1 else ''})"
        for (name, rounds), n in sets.items()
    )
    thresholds = sorted({f"{s.threshold:g}" for s in sittings if s.threshold is not None})
    checks = [
        [call for name in one.facts for call in one.called(name, [pair])]
        for one in sittings
        for pair in ALIKE
    ]
    checks = [check for check in checks if check]
    alarmed = sum("regressed" in check for check in checks)
    failed = sum(one.failed for one in sittings)
    lines = [
        f"Sittings: {taken}; of commit {', '.join(commit[:12] for commit in commits)}, on {cards} "
        f"{', '.join(models)}; rounds interleaved; `check --threshold {', '.join(thresholds)}`.",
        "",
        f"Alike pairs: a check calls a series regressed in {alarmed} of {len(checks)} "
        f"({sum(one.false for one in found)} series in all). Rounds that failed: {failed}.",
        "",
        "| family | series | runs | median spread | largest | told from | slower by | seen |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    families: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for one in found:
        families[one.kind, one.family].append(one)
    for (kind, family), members in sorted(families.items()):
        lines.append(family_row(f"{family}, {kind}", members))
    lines += [
        "",
        "*Spread* is (max - min)/median of the run values of base and head on one card, the "
        "largest over cards and commits; *rounds* the same of the rounds of one run; *told from* "
        "the slowdown that exceeds, in 95 of 100 comparisons, what an alike pair shows in one of "
        "100; *slower by* what the planted work makes it on average, *seen* how often that was "
        "called regressed.",
        "",
        "| series | value | runs | spread | asked for | rounds | told from | planted | slower by "
        "| seen |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [series_row(one) for one in sorted(found, key=lambda one: (one.family, one.value))]
    return "\n".join(lines)


def family_row(name: str, members: Sequence[Finding]) -> str:
    """A row of the first table."""
    spreads = [one.spread for one in members]
    slower = [one.slower for one in members if one.slower is not None]
    asked = sum(one.asked for one in members)
    return (
        f"| {name} | {len(members)} | {sum(one.runs for one in members)} "
        f"| {statistics.median(spreads):.2%} | {max(spreads):.2%} "
        f"| {max(one.told for one in members):.2%} "
        f"| {f'{statistics.fmean(slower):.2%}' if slower else '-'} "
        f"| {f'{sum(one.seen for one in members)} of {asked}' if asked else '-'} |"
    )


def series_row(one: Finding) -> str:
    """A row of the second table; a spread beyond what is asked for is marked."""
    limit = "-" if one.limit is None else f"{one.limit:.1%}"
    mark = " ✗" if one.limit is not None and one.spread > one.limit else ""
    planted = "-" if one.planted is None else f"{one.planted:.0%}"
    slower = "-" if one.slower is None else f"{one.slower:.2%}"
    seen = f"{one.seen} of {one.asked}" if one.asked else "-"
    return (
        f"| {one.series} | {one.value:.4g} {one.unit} | {one.runs} | {one.spread:.2%}{mark} "
        f"| {limit} | {one.apart:.2%} | {one.told:.2%} | {planted} | {slower} | {seen} |"
    )
