"""What became of a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from dashboard.store.discover import SourceFile


@dataclass(frozen=True, slots=True)
class FileState:
    """``read``, ``partial`` (some lines rejected) or ``rejected``; ``run_id`` is the run that
    the file belongs to, ``kept_run_id`` that of an earlier content which stays."""

    file: SourceFile
    status: str
    reason: str | None = None
    rows: int = 0
    run_id: int | None = None
    kept_run_id: int | None = None

    @classmethod
    def of_lines(
        cls,
        file: SourceFile,
        count: int,
        rejected: tuple[tuple[int, str], ...],
        note: str | None = None,
        run_id: int | None = None,
    ) -> Self:
        """The state of a file of lines of which ``count`` went in."""
        if not rejected:
            return cls(file, "read", note, count, run_id)
        number, reason = rejected[0]
        more = f" and {len(rejected) - 1} more" if len(rejected) > 1 else ""
        text = f"line {number}: {reason}{more}; {count} lines went in"
        return cls(file, "partial" if count else "rejected", text, count, run_id)
