"""What an address asks for and the store may not have: a machine, commits; no streamlit.

An address outlives the store it was copied from: another machine measures, a commit is
forgotten, a hash is mistyped. What is shown instead is then said by name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from dashboard.app import wording

SHORTEST_PREFIX = 4
"""Digits of a hash below which an address names no commit."""
_MOST_NAMED = 3
_LONGEST = 40  # characters that are repeated of what an address asks for

Measured = Mapping[str, Collection[str]]
"""The hashes of the commits that each machine measured, the machine measured last first."""


def fitting(asked: str, hashes: Iterable[str]) -> list[str]:
    """The hashes that begin with ``asked``; none where that is too short to name one."""
    if len(asked) < SHORTEST_PREFIX:
        return []
    return [name for name in hashes if name.startswith(asked)]


def machine_of(measured: Measured, commits: Collection[str]) -> str:
    """The machine to show unless another is chosen: the one measured last.

    Where that lacks one of the ``commits`` asked for, and a single other one has all of them
    that any has, that one.
    """
    there = [name for name in commits if _machines_with(measured, name)]
    having = [
        machine
        for machine, hashes in measured.items()
        if all(fitting(name, hashes) for name in there)
    ]
    return having[0] if len(having) == 1 else next(iter(measured))


def of_commits(
    measured: Measured, known: Collection[str], machine: str, commits: Mapping[str, str]
) -> list[str]:
    """A sentence for each of the ``commits`` asked for (by what they are, such as ``base``) that
    a machine has no results of. ``known`` are the hashes of all commits."""
    said = []
    for role, asked in commits.items():
        named = f"{role} {_shortened(asked)}"
        others = _machines_with(measured, asked)
        if machine in others:
            continue
        if others:
            elsewhere = f"not {machine} but {_list(others)} measured"
            said.append(f"The address names {named}, which {elsewhere}.")
        elif fitting(asked, known):
            said.append(f"The address names {named}, which was never measured.")
        else:
            said.append(f"The address names {named}, which is no commit of this store.")
    return said


def of_switch(measured: Measured, machine: str, commits: Mapping[str, str]) -> str:
    """Why ``machine`` is shown and not the one measured last."""
    first = next(iter(measured))
    named = " and ".join(
        f"{role} {_shortened(asked)}"
        for role, asked in commits.items()
        if fitting(asked, measured[machine])
    )
    return f"Shown is {machine}, which measured {named}. {first}, measured last, did not."


def of_places(kind: str, asked: Sequence[str], there: Collection[str]) -> list[str]:
    """A sentence for each machine (or whatever ``kind`` it is) asked for that is not there."""
    return [
        f"The address names {kind} {_shortened(name)}, which this store does not have."
        for name in asked
        if name not in there
    ]


def _machines_with(measured: Measured, asked: str) -> list[str]:
    return [machine for machine, hashes in measured.items() if fitting(asked, hashes)]


def _list(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    told = list(names[:_MOST_NAMED]) + ([f"{more} more"] if more > 0 else [])
    return wording.listed(told)


def _shortened(asked: str) -> str:
    """What an address asks for, of a length that a sentence bears; a dash where it is empty."""
    shown = asked if len(asked) <= _LONGEST else f"{asked[:_LONGEST]}…"
    return shown or wording.NONE
