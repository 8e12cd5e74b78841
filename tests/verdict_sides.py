"""One side of a comparison from plain numbers, for tests of the verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from statistics import median

from dashboard.models import Round, Side, Status

START = datetime(2026, 1, 1, tzinfo=UTC)


def side(
    values: Sequence[float], first: float = 0.0, step: float = 2.0, card: str | None = "card-1"
) -> Side:
    """A side whose rounds start ``first`` minutes after START and every ``step`` minutes."""
    rounds = tuple(
        Round((v,), v, started_at=START + timedelta(minutes=first + step * i), gpu_uuid=card)
        for i, v in enumerate(values)
    )
    return Side("c", Status.OK, float(median(values)), rounds)
