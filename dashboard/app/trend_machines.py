"""What the address of Trends asks for besides its filters: commits, and so a machine."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from dashboard.app import addressed, data, state, wording


@dataclass(frozen=True, slots=True)
class Meant:
    """``places`` to show where the address names none that is there, and ``why``; ``remarks`` on
    what it names in vain."""

    places: tuple[str, ...]
    why: state.Reason
    remarks: tuple[str, ...]


def meant(at: data.Source, series: pd.DataFrame) -> Meant:
    """What the address means, before the choices beside the charts are made.

    A machine without its environment means all of them; the commit of a point, or the one that
    values are relative to, the only machine that has it.
    """
    measured = data.measured(at)
    machines = dict(zip(series["place"], series["machine"], strict=True))
    asked = state.chosen(state.MACHINE)
    remarks = addressed.of_places("machine", asked, {*machines, *machines.values()})
    commits = _commits()
    known = [commit.hash for commit in data.known_commits(at)]
    first = next(iter(measured))
    there = [place for place in asked if place in machines]
    places = [place for place, machine in machines.items() if machine in asked]
    sentence = ""
    if not there and not places:
        machine = addressed.machine_of(measured, commits.values())
        if machine != first:
            places = [place for place, of in machines.items() if of == machine]
            sentence = addressed.of_switch(measured, machine, commits)
    shown = {machines[place] for place in there or places} or {first}
    chosen = wording.listed(sorted(shown))
    together = {chosen: frozenset[str]().union(*(measured[name] for name in shown))}
    remarks += addressed.of_commits({**measured, **together}, known, chosen, commits)
    return Meant(tuple(places), state.Reason(tuple(commits.values()), sentence), tuple(remarks))


def _commits() -> dict[str, str]:
    """The commits that the address names, by what they are."""
    found = state.asked_for(state.AGAINST)
    point = state.point()
    if point is not None:
        found["the point's commit"] = point.rpartition("@")[2]
    return {{state.AGAINST: "commit"}.get(role, role): asked for role, asked in found.items()}
