"""Chosen schedules as frames; no streamlit."""

from __future__ import annotations

import string

import pandas as pd

from dashboard.app import comparison, frames, wording

_MOST_NAMED = 3
# Follow from the shape: every length would be a choice of its own.
_CUTS = frozenset({"tokens_per_chunk", "columns_per_split", "tokens_per_split", "entropy_chunk"})


def bucket(tokens: int) -> int:
    """The power of two at or above a token count, which tuning is done for."""
    return 1 << max(tokens - 1, 0).bit_length()


def tile(schedule: str | None) -> str:
    """What a schedule says of its kernels, without how the work was cut for one shape."""
    return wording.schedule(schedule, without=_CUTS)


def letters(chosen: pd.DataFrame) -> dict[str, str]:
    """A letter per tile, the most frequent first; two letters beyond the 26th."""
    counted = chosen["schedule"].map(tile).value_counts()
    ordered = sorted(counted.index, key=lambda text: (-int(counted[text]), str(text)))
    names = [
        *string.ascii_uppercase,
        *(a + b for a in string.ascii_uppercase for b in string.ascii_uppercase),
    ]
    return dict(zip(map(str, ordered), names, strict=False))


def legend(
    chosen: pd.DataFrame, named: dict[str, str], most: int | None = _MOST_NAMED
) -> pd.DataFrame:
    """What each letter stands for, and how many series of which benchmarks have it.

    ``most`` benchmarks are named; ``None``: all of them.
    """
    tiles = chosen["schedule"].map(tile)
    rows = []
    for text, letter in named.items():
        headings = list(dict.fromkeys(chosen["heading"][tiles == text]))
        rows.append(
            {
                "": letter,
                "Schedule": text,
                "Series": int((tiles == text).sum()),
                "Benchmarks": _listed(headings, most),
            }
        )
    return pd.DataFrame(rows)


def choice_map(chosen: pd.DataFrame, named: dict[str, str]) -> pd.DataFrame:
    """The latest choices for ``heatmaps.heat``: bucket across, model and TP down.

    One map per ``heading``; benchmarks that agree wherever both are measured share one, whose
    ``benchmarks`` names them.
    """
    maps: dict[str, dict[tuple[str, int], dict[str, str]]] = {}
    for row in frames.records(chosen[chosen["model"].notna() & chosen["tokens"].notna()]):
        tp = None if not frames.known(row["tp"]) else int(row["tp"])
        place = (comparison.row_label(str(row["model"]), tp), bucket(int(row["tokens"])))
        letter = named[tile(row["schedule"])]
        cell = maps.setdefault(str(row["heading"]), {}).setdefault(place, {})
        cell.setdefault(letter, f"{row['shape']}: {wording.schedule(row['schedule'])}")
    rows = []
    for headings, cells in _merged(maps):
        for (label, tokens), found in cells.items():
            shown = " ".join(sorted(found))
            rows.append(
                {
                    "heading": headings[0] + _others(len(headings) - 1),
                    "benchmarks": "; ".join(headings),
                    "row": label,
                    "order": tokens,
                    "column": f"{tokens:,}",
                    "value": float(list(named.values()).index(min(found))),
                    "shown": shown,
                    "schedule": "; ".join(found.values()),
                }
            )
    return pd.DataFrame(rows)


Cells = dict[tuple[str, int], dict[str, str]]


def _merged(maps: dict[str, Cells]) -> list[tuple[list[str], Cells]]:
    """The maps with those laid together that have equal letters in all cells of both."""
    made: list[tuple[list[str], Cells]] = []
    for heading, cells in sorted(maps.items(), key=lambda item: (-len(item[1]), item[0])):
        for headings, union in made:
            if all(set(union[p]) == set(found) for p, found in cells.items() if p in union):
                headings.append(heading)
                union |= {p: found for p, found in cells.items() if p not in union}
                break
        else:
            made.append(([heading], dict(cells)))
    return made


def _others(number: int) -> str:
    return f" and {wording.count(number, 'other')}" if number else ""


def _listed(names: list[str], most: int | None) -> str:
    """The first names of a list, and how many more there are."""
    told = names[:most]
    rest = len(names) - len(told)
    return "; ".join([*told, *([f"and {rest} more"] if rest else [])])


def figures(points: pd.DataFrame) -> pd.DataFrame:
    """Each compile benchmark's newest value, and how far it lies from the point before."""
    rows = []
    for _, line in points[points["value"].notna()].groupby("series_id", sort=False):
        newest = frames.records(line.sort_values("rank", kind="stable").tail(1))[0]
        rows.append(
            {
                "Figure": newest["heading"],
                "Value": wording.quantity(frames.number(newest["value"]), str(newest["unit"])),
                "To the point before": newest["step"],
                "Commit": newest["tick"],
                "Shape": newest["shape"],
                "Rounds": newest["n"],
            }
        )
    return pd.DataFrame(rows)


def in_order(points: pd.DataFrame) -> pd.DataFrame:
    """The points in the order in which the suite's headings are listed."""
    known = {group: index for index, group in enumerate(wording.TITLES)}
    order = points["group"].map(known).fillna(len(known))
    return points.loc[order.sort_values(kind="stable").index]


def changes(
    found: pd.DataFrame, commits: pd.DataFrame, most: int | None = _MOST_NAMED
) -> pd.DataFrame:
    """One row per commit and change of a choice, newest first, with the series that changed so.

    ``most`` series are named; ``None``: all of them.
    """
    moved = found[found["before"].notna()]
    told = [
        wording.schedule_change(str(before), str(after), without=_CUTS)
        or wording.schedule_change(str(before), str(after))
        for before, after in zip(moved["before"], moved["schedule"], strict=True)
    ]
    subjects = dict(zip(commits["commit"], commits["subject"], strict=True))
    rows = []
    for (turn, change), part in moved.assign(told=told).groupby(["turn", "told"]):
        commit = str(part["commit"].iloc[0])
        names = [f"{row['heading']}, {row['shape']}" for row in frames.records(part)]
        rows.append(
            {
                "turn": turn,
                "Commit": wording.short_hash(commit),
                "Subject": frames.text(subjects.get(commit)),
                "Change": change,
                "Series": len(names),
                "Which": _listed(names, most),
            }
        )
    table = pd.DataFrame(rows)
    if table.empty:
        return table
    return table.sort_values("turn", ascending=False, kind="stable").drop(columns="turn")
