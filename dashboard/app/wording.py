"""Numbers, times and verdicts as people read them; no streamlit, no frames.

Quantities keep three significant digits and move to the unit that suits their
size. Ratios are head/base, above 1 worse.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from decimal import Decimal

from dashboard.models import Commit, Verdict

# Typographic signs, named since they look like plain ones.
DASH = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
TIMES = "\N{MULTIPLICATION SIGN}"

NONE = DASH
"""What a cell shows where nothing is known."""

NEWER_HAVE_FEWER = "Fewer series were measured of newer commits."
"""Where a sweep is shown, though newer commits were measured."""

# Steps of a unit that is rescaled, smallest first: (name, size in the first unit named).
_LADDERS: tuple[tuple[tuple[str, float], ...], ...] = (
    (("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)),
    (("B", 1.0), ("KiB", 2.0**10), ("MiB", 2.0**20), ("GiB", 2.0**30)),
)
_ALIASES = {"seconds": "s", "second": "s", "us": "µs", "bytes": "B", "byte": "B", "abs": ""}

TITLES = {
    "forward": "Forward",
    "forward_entropy": "Forward + entropy",
    "forward_backward": "Forward + backward",
    "forward_backward_entropy": "Forward + backward, differentiable entropy",
    "two_pass": "Two passes",
    "two_pass_backward": "Two passes + backward",
    "fixed": "Fixed schedule, five stages",
    "fixed_three_stages": "Fixed schedule, three stages",
    "chunked": "Chunked torch",
    "materialised": "Materialised logits",
    "materialised_backward": "Materialised logits + backward",
    "control": "Control (cuBLAS)",
    "bandwidth.Bandwidth": "Control (copy bandwidth)",
    "host": "Host time of a call",
    "compile.Cold": "First call, no cache",
    "compile.WarmDisk": "First call, cache on disk",
    "compile.KnownBucket": "First call in a bucket that is on disk",
    "compile.SameBucket": "Another length in a used bucket",
    "compile.NewBucket": "First call in a new bucket",
    "compile.Compilations": "Kernels compiled",
    "compile.Candidates": "Schedules tried out",
    "compile.Registers": "Registers a thread",
    "compile.Spills": "Registers spilled",
    "compile.SharedMemory": "Shared memory",
    "memory.Forward": "Peak memory, forward + entropy",
    "memory.ForwardBackward": "Peak memory, forward + backward",
    "accuracy.LogProb": "Largest error, log-prob",
    "accuracy.Entropy": "Largest error, entropy",
    "accuracy.HiddenGradient": "Largest error, gradient of hidden",
    "accuracy.WeightGradient": "Largest error, gradient of weight",
    "parallel.Forward": "Two ranks, forward",
    "parallel.ForwardBackward": "Two ranks, forward + backward",
    "parallel.CollectiveShare": "Two ranks, share of collectives",
}
"""Headings of the suite's families and, where a family has several, benchmarks."""

# Word and sign: a verdict is never told by colour alone.
VERDICTS: dict[Verdict, tuple[str, str]] = {
    Verdict.REGRESSED: ("▲", "regressed"),
    Verdict.FAILED: ("✕", "failed"),
    Verdict.MISSING: ("∅", "missing"),
    Verdict.INCONCLUSIVE: ("?", "inconclusive"),
    Verdict.NOT_COMPARABLE: ("≠", "not comparable"),
    Verdict.NEW: ("+", "new"),
    Verdict.IMPROVED: ("▼", "improved"),
    Verdict.UNCHANGED: ("=", "unchanged"),
}
EXPLAINED = VERDICTS[Verdict.NOT_COMPARABLE][0]
"""The sign of what something beside the code explains."""


def verdict_words(verdict: Verdict) -> str:
    """Sign and word of a verdict, such as ``▲ regressed``."""
    return " ".join(VERDICTS[verdict])


def family_title(family: str) -> str:
    """A group's heading; a name this project does not know stays as it is."""
    return TITLES.get(family, family)


def significant(value: float, digits: int = 3) -> str:
    """``value`` with ``digits`` significant digits, never in exponent form up to 1e6."""
    if not math.isfinite(value):
        return "∞" if value > 0 else (f"{MINUS}∞" if value < 0 else NONE)
    if value == 0:
        return "0"
    value = _rounded(value, digits)  # first: 9.999 has one decimal less than its size says
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    if abs(value) >= 1e6 or abs(value) < 1e-4:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(decimals, 0)}f}"


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits - 1}e}")


def display_unit(values: Sequence[float], unit: str) -> tuple[float, str]:
    """The factor and the unit that bring the largest of ``values`` near 1 to 1000."""
    name = _ALIASES.get(unit, unit)
    largest = max((abs(v) for v in values if math.isfinite(v)), default=0.0)
    for ladder in _LADDERS:
        sizes = dict(ladder)
        if name in sizes and largest > 0:
            base = largest * sizes[name]
            chosen = ladder[0]
            for step in ladder:
                if base >= step[1]:
                    chosen = step
            return sizes[name] / chosen[1], chosen[0]
    return 1.0, name


def seconds(unit: str) -> float | None:
    """How many seconds a unit of time is; ``None`` for other units."""
    return dict(_LADDERS[0]).get(_ALIASES.get(unit, unit))


def quantity(value: float | None, unit: str, digits: int = 3) -> str:
    """``12.6 ms``; the unit follows the size of the value."""
    if value is None or math.isnan(value):
        return NONE
    # What rounding makes 1,000 of a unit is 1 of the next.
    factor, name = display_unit([_rounded(value, digits)], unit)
    is_count = not any(name in dict(ladder) for ladder in _LADDERS) and value == round(value, 0)
    shown = (
        f"{value:,.0f}" if is_count and abs(value) < 1e6 else significant(value * factor, digits)
    )
    return f"{shown} {name}".rstrip()


def quantity_interval(low: float | None, high: float | None, unit: str) -> str:
    """``12.5 – 12.8 ms``, both ends in one unit."""
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return NONE
    factor, name = display_unit([high], unit)
    return f"{significant(low * factor, 4)} {DASH} {significant(high * factor, 4)} {name}".rstrip()


def error(value: float) -> str:
    """``2.34e-5``, as the reference PRs write their errors."""
    digits, exponent = f"{value:.2e}".split("e")
    return f"{digits}e{int(exponent)}"


def ratio(value: float | None) -> str:
    """``×1.043``."""
    return NONE if value is None or math.isnan(value) else f"{TIMES}{value:.3f}"


def ratio_interval(low: float | None, high: float | None) -> str:
    """``1.031 – 1.055``."""
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return NONE
    return f"{low:.3f} {DASH} {high:.3f}"


def change(value: float | None) -> str:
    """A ratio as a signed percentage: ``+4.3 %``."""
    if value is None or not math.isfinite(value):
        return NONE
    percent = (value - 1) * 100
    if abs(percent) < 0.05:
        return "±0.0 %"
    return f"{percent:+.1f} %".replace("-", MINUS)


def level_change(value: float | None) -> str:
    """A change known to be one, however small: ``+0.01 %`` where :func:`change` has none."""
    text = change(value)
    if value is None or value == 1 or text != "±0.0 %":
        return text
    percent = Decimal(f"{(value - 1) * 100:.1g}")
    return f"{percent:+f} %".replace("-", MINUS)


def ratio_and_change(value: float | None) -> str:
    """``×1.043 (+4.3 %)``."""
    return NONE if value is None or math.isnan(value) else f"{ratio(value)} ({change(value)})"


def count(number: int, singular: str, plural: str | None = None) -> str:
    """``1 series``, ``3 commits``: the number with its noun."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def listed(names: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def moment(when: datetime | None) -> str:
    """``2026-03-01 14:05 UTC``."""
    return NONE if when is None else when.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def age(when: datetime, now: datetime) -> str:
    """How long ago, in the largest unit that fits: ``3 hours ago``."""
    seconds = (now - when).total_seconds()
    if seconds < 90:
        return "just now"
    for name, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= size * (1.5 if name != "minute" else 1):
            return f"{count(round(seconds / size), name)} ago"
    return "just now"


def short_hash(commit: str) -> str:
    """The first seven digits of a commit hash, as git abbreviates it."""
    return commit[:7]


_CARD = re.compile(r"\b(GPU-[0-9a-f]{8})-[0-9a-f-]+")


def short_cards(text: str) -> str:
    """``text`` with the UUIDs of cards in it cut to ``GPU-44319026``, which tells them apart."""
    return _CARD.sub(r"\1", text)


_TILE = ("block_m", "block_n", "block_k")
_SCHEDULE_WORDS = {"num_warps": "warps", "num_stages": "stages", "group_m": "group"}


def _schedule_parts(text: str | None) -> dict[str, str]:
    """A schedule's JSON by property: the tile first, in one piece."""
    try:
        found = json.loads(text) if text else None
    except ValueError:
        found = text
    if not isinstance(found, dict):
        return {} if found is None else {"schedule": str(found)}
    rest = dict(found)
    parts = {}
    if all(name in rest for name in _TILE):
        parts["tile"] = TIMES.join(str(rest.pop(name)) for name in _TILE)
    return parts | {_SCHEDULE_WORDS.get(name, name): str(value) for name, value in rest.items()}


def schedule(text: str | None, without: Collection[str] = ()) -> str:
    """A schedule's JSON as ``tile 128×256×64, group 8, warps 8, stages 3``, the rest by name;
    ``without`` some properties."""
    parts = _schedule_parts(text)
    told = [f"{name} {value}" for name, value in parts.items() if name not in without]
    return ", ".join(told) or NONE


def schedule_change(before: str | None, after: str | None, without: Collection[str] = ()) -> str:
    """What differs of two schedules, ``without`` some properties: ``group 8 → 16``; nothing
    where they are equal."""
    old, new = _schedule_parts(before), _schedule_parts(after)
    return ", ".join(
        f"{name} {old.get(name, NONE)} → {new.get(name, NONE)}"
        for name in dict.fromkeys([*new, *old])
        if old.get(name) != new.get(name) and name not in without
    )


def commit_title(commit: Commit) -> str:
    """``3e5b35f v0.2 Make it fast``: hash, tags and subject of a commit."""
    return " ".join([short_hash(commit.hash), *commit.tags, commit.subject or ""]).rstrip()


def shape_label(model: str | None, tokens: int | None, tp: int | None) -> str:
    """``nemotron-super · 8,192 tokens · TP 1``; parts that are unknown are left out."""
    parts = [
        model,
        None if tokens is None else f"{tokens:,} tokens",
        None if tp is None else f"TP {tp}",
    ]
    return " · ".join(part for part in parts if part)


_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~$:&^=])")

# Would turn the page's own words around too.
_BIDI_CONTROLS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")

# Looked for in the text that is left once the backslashes are gone.
_MADE_LATE = re.compile(
    r"""
    (?<=:)(?=//)                         # http://…, a link
    | (?<=www)(?=\.)                     # www.…, a link
    | (?=@)                              # me@…, a link
    | (?<=:)(?=[\w+/-]+:)                # :material/home:, :smile:
    | (?<=-)(?=[->]) | (?<=[<>~])(?=[=-])  # ->, --, <=, arrows and signs
    """,
    re.IGNORECASE | re.VERBOSE,
)
_WORD_JOINER = "\N{WORD JOINER}"


def escape(text: str) -> str:
    """``text`` so that Streamlit's Markdown shows it literally, on one line.

    Backslashes every mark that Markdown, GitHub's additions, LaTeX (``$``) and
    Streamlit's directives (``:red[…]``) react to; a newline would end the
    paragraph and is a space instead. Addresses, icons and arrows are made from
    the text behind the backslashes: an invisible word joiner breaks those up.
    Controls of the direction of writing are left out.
    """
    shown = " ".join(_BIDI_CONTROLS.sub("", text).split())
    return _MARKDOWN.sub(r"\\\1", _MADE_LATE.sub(_WORD_JOINER, shown))
