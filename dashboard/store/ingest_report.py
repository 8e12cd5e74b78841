"""What an ingest tells of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.store.claims import Claims
from dashboard.store.discover import DEFINITIONS, SourceFile
from dashboard.store.states import FileState

_NO_DEFINITIONS = "is not there: parameters and units have names only where rounds tell them"


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What an ingest did. ``runs``, ``series`` and ``measurements`` count the whole store;
    ``notes`` are (path, what the reader should know of a file that went in); ``gone`` the paths
    that the store has of this source and the folder has no more, ``pruned`` those forgotten."""

    read: int
    unchanged: int
    rejected: tuple[tuple[str, str], ...]
    notes: tuple[tuple[str, str], ...]
    gone: tuple[str, ...]
    pruned: tuple[str, ...]
    runs: int
    series: int
    measurements: int
    seconds: float


def reported(
    files: Sequence[SourceFile],
    claims: Claims,
    states: Mapping[str, FileState],
    **more: Any,
) -> IngestReport:
    """Sort the files: read now, unchanged, rejected now or still; with what is to be known."""
    read, unchanged = 0, 0
    rejected: list[tuple[str, str]] = []
    told: list[tuple[str, str]] = []
    for file in files:
        known = claims.known(file)
        state = states.get(file.path) or known
        assert state is not None  # what is not known was read
        status, reason = state.status, state.reason
        if status != "rejected":
            read += known is None
            unchanged += known is not None
        if file.path in states and reason and status == "read":
            told.append((file.path, reason))
        if status in ("rejected", "partial"):
            rejected.append((file.path, reason or "unreadable"))
    kinds = {file.kind for file in files}
    if "result" in kinds and "benchmarks" not in kinds:
        told.append((DEFINITIONS, _NO_DEFINITIONS))
    return IngestReport(read, unchanged, tuple(rejected), tuple(told), **more)
