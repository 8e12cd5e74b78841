"""What a proof's comparisons say, from their rounds alone.

A *run value* is the median of a series' rounds at one commit of one comparison. ``base``
and ``head`` run the same code: their run values give the spread, and what separates a pair
of them is noise. ``planted`` does a known share of extra work.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A slowdown of so many deviations of an unchanged pair exceeds, in 95 of 100 comparisons,
# what an unchanged pair shows in one of 100: the normal quantiles of 99 % and 95 %.
TOLD_DEVIATIONS = 2.326 + 1.645

# (kind, upper end in ms, largest spread asked for): warm GPU series by their length.
KINDS = (("under 2 ms", 2.0, 0.015), ("2 to 20 ms", 20.0, 0.005), ("over 20 ms", math.inf, 0.01))
COLD = ("cold", 0.15)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One complete comparison: run values by side and series, and the check's verdicts.

    ``sides`` are base, head and planted; ``verdicts`` those of head and planted against
    base, None where no check was made. ``facts`` are of each series: family, unit.
    """

    set: str
    plant: float
    threshold: float
    rounds: int
    seconds: float
    gpu: str
    gpu_uuid: str
    commit: str
    sides: Mapping[str, Mapping[str, float]]
    verdicts: Mapping[str, Mapping[str, str] | None]
    facts: Mapping[str, tuple[str, str]]
    planted: frozenset[str]


def load(folders: Iterable[Path]) -> list[Comparison]:
    """The complete comparisons below the folders, in the order of their names."""
    found = []
    for folder in folders:
        for mark in sorted(folder.glob("comparisons/*/complete.json")):
            lines = [
                json.loads(line)
                for path in sorted(mark.parent.glob("results/rounds/*.jsonl"))
                for line in filter(None, path.read_text(encoding="utf-8").split("\n"))
            ]
            found.append(comparison(json.loads(mark.read_text(encoding="utf-8")), lines))
    return found


def comparison(complete: Mapping[str, Any], lines: Iterable[Mapping[str, Any]]) -> Comparison:
    """One comparison from its mark and the lines of its rounds; failed rounds are left out."""
    side_of = {complete[side]: side for side in ("base", "head", "planted")}
    values: dict[str, dict[str, list[float]]] = {
        side: defaultdict(list) for side in side_of.values()
    }
    facts, planted = {}, set()
    gpu, uuid = "CPU", ""
    for line in lines:
        if line["status"] != "ok":
            continue
        name = f"{line['benchmark']}({', '.join(map(repr, line['params'].values()))})"
        values[side_of[line["commit"]]][name].append(line["value"])
        facts[name] = (line["family"], line["unit"])
        gpu, uuid = line["gpu"] or gpu, line["gpu_uuid"] or uuid
        if line.get("planted"):
            planted.add(name)
    return Comparison(
        set=complete["set"],
        plant=complete["plant"],
        threshold=complete["threshold"],
        rounds=complete["rounds"],
        seconds=complete["seconds"],
        gpu=gpu,
        gpu_uuid=uuid,
        commit=complete["measured"],
        sides={
            side: {name: statistics.median(rounds) for name, rounds in series.items()}
            for side, series in values.items()
        },
        verdicts=complete["verdicts"],
        facts=facts,
        planted=frozenset(planted),
    )


@dataclass(frozen=True, slots=True)
class Finding:
    """What the comparisons say of one series.

    ``spread`` is (max - min) / median of the unchanged run values of one card, the largest
    over the cards; ``deviation`` the root mean square of log(head / base), ``planted`` the
    mean of planted / base - 1, None where nothing was planted. ``seen`` of ``asked``
    planted comparisons were called regressed, ``false`` of ``unchanged`` pairs.
    """

    series: str
    family: str
    unit: str
    value: float
    runs: int
    spread: float
    deviation: float
    planted: float | None
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


def findings(comparisons: Sequence[Comparison]) -> list[Finding]:
    """A finding for each series that has base and head in some comparison."""
    names = dict.fromkeys(name for one in comparisons for name in one.sides["base"])
    found = [finding(name, comparisons) for name in names]
    return [one for one in found if one is not None]


def finding(name: str, comparisons: Sequence[Comparison]) -> Finding | None:
    """What they say of one series; None where no comparison has both sides."""
    having = [c for c in comparisons if name in c.sides["base"] and name in c.sides["head"]]
    if not having:
        return None
    cards: dict[str, list[float]] = defaultdict(list)
    for one in having:
        cards[one.gpu_uuid] += [one.sides["base"][name], one.sides["head"][name]]
    values = [value for card in cards.values() for value in card]
    pairs = [(c.sides["base"][name], c.sides["head"][name]) for c in having]
    slower = [
        c.sides["planted"][name] / c.sides["base"][name] - 1
        for c in having
        if name in c.planted and name in c.sides["planted"]
    ]
    calls = [c.verdicts["planted"] for c in having if name in c.planted]
    alarms = [c.verdicts["head"] for c in having]
    family, unit = having[0].facts[name]
    return Finding(
        series=name,
        family=family,
        unit=unit,
        value=statistics.median(values),
        runs=len(values),
        spread=max(map(spread, cards.values())),
        deviation=deviation(pairs),
        planted=statistics.fmean(slower) if slower else None,
        seen=sum(call is not None and call.get(name) == "regressed" for call in calls),
        asked=sum(call is not None for call in calls),
        false=sum(call is not None and call.get(name) == "regressed" for call in alarms),
        unchanged=sum(call is not None for call in alarms),
    )


def spread(values: Sequence[float]) -> float:
    """(max - min) / median; 0 where all are 0."""
    middle = statistics.median(values)
    return (max(values) - min(values)) / middle if middle else 0.0


def deviation(pairs: Iterable[tuple[float, float]]) -> float:
    """Root mean square of log(head / base); pairs with a 0 are left out, and equal ones."""
    squares = [math.log(head / base) ** 2 for base, head in pairs if base > 0 and head > 0]
    return math.sqrt(statistics.fmean(squares)) if squares else 0.0


def report(comparisons: Sequence[Comparison]) -> str:
    """Markdown: what was measured, a table a family, a table a series."""
    found = findings(comparisons)
    first = comparisons[0]
    cards = {one.gpu_uuid for one in comparisons}
    false = sum(one.false for one in found)
    checked = [c.verdicts["head"] for c in comparisons if c.verdicts["head"] is not None]
    alarmed = sum("regressed" in verdicts.values() for verdicts in checked)
    lines = [
        f"Comparisons: {len(comparisons)}, of commit {first.commit[:12]} with itself and with a "
        f"planted {first.plant:.1%} of extra work, on {len(cards)} {first.gpu}; "
        f"{first.rounds} rounds a side, interleaved; `check --threshold {first.threshold:g}`.",
        "",
        f"Unchanged pairs: a series is called regressed in {alarmed} of {len(checked)} "
        f"({false} series in all).",
        "",
        "| family | series | runs | median spread | largest | told from | planted | seen |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    families: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for one in found:
        families[one.family, one.kind].append(one)
    for (family, kind), members in sorted(families.items()):
        lines.append(family_row(f"{family}, {kind}", members))
    lines += [
        "",
        "*Spread* is (max - min)/median of the unchanged run values of one card; *told from* the "
        "slowdown that exceeds, in 95 of 100 comparisons, what an unchanged pair shows in one of "
        "100; *planted* the slowdown measured on average, *seen* how often it was called.",
        "",
        "| series | value | runs | spread | asked for | told from | planted | seen |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [series_row(one) for one in sorted(found, key=lambda one: (one.family, one.value))]
    return "\n".join(lines)


def family_row(name: str, members: Sequence[Finding]) -> str:
    """A row of the first table."""
    spreads = [one.spread for one in members]
    planted = [one.planted for one in members if one.planted is not None]
    asked = sum(one.asked for one in members)
    return (
        f"| {name} | {len(members)} | {sum(one.runs for one in members)} "
        f"| {statistics.median(spreads):.2%} | {max(spreads):.2%} "
        f"| {max(one.told for one in members):.2%} "
        f"| {f'{statistics.fmean(planted):.2%}' if planted else '-'} "
        f"| {f'{sum(one.seen for one in members)} of {asked}' if asked else '-'} |"
    )


def series_row(one: Finding) -> str:
    """A row of the second table; a spread beyond what is asked for is marked."""
    limit = "-" if one.limit is None else f"{one.limit:.1%}"
    mark = " ✗" if one.limit is not None and one.spread > one.limit else ""
    planted = "-" if one.planted is None else f"{one.planted:.2%}"
    seen = f"{one.seen} of {one.asked}" if one.asked else "-"
    return (
        f"| {one.series} | {one.value:.4g} {one.unit} | {one.runs} | {one.spread:.2%}{mark} "
        f"| {limit} | {one.told:.2%} | {planted} | {seen} |"
    )
