"""The numbers of series: hashes of what names them, remembered while files are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dashboard.store.tables import identifier

# A suite may have millions of parameter combinations: no more than about these are remembered.
_MOST = 200_000


class Identity(NamedTuple):
    """What makes a series the one it is; ``values`` are asv's repr strings."""

    benchmark: str
    values: tuple[str, ...]
    machine: str
    environment: str


class SeriesNumbers:
    """Numbers series; not for several threads at once."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str, str], dict[tuple[str, ...], int]] = {}
        self._count = 0

    def of(
        self,
        benchmark: str,
        combinations: Sequence[tuple[str, ...]],
        machine: str,
        environment: str,
    ) -> list[int]:
        """The numbers of a benchmark's series."""
        if self._count > _MOST:
            self._numbers, self._count = {}, 0
        known = self._numbers.setdefault((benchmark, machine, environment), {})
        before = len(known)
        found = []
        for values in combinations:
            number = known.get(values)
            if number is None:
                number = identifier(benchmark, machine, environment, *values)
                known[values] = number
            found.append(number)
        self._count += len(known) - before
        return found
