"""What a report says besides the verdicts: who accepted what, and where to look further."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dashboard.acknowledged import Acknowledgement
from dashboard.models import Series


@dataclass(frozen=True, slots=True)
class Context:
    """``acknowledged`` regressions do not fail; ``images`` are addresses of charts.

    ``recent`` are the last commits and values (in the unit) of regressed series, in order.
    ``dashboard`` is the address at which the app is served, such as https://perf.example.org.
    ``settings`` names the file of the settings that were used, ``None`` for the defaults.
    """

    acknowledged: Mapping[Series, Acknowledgement] = field(default_factory=dict)
    images: Mapping[Series, str] = field(default_factory=dict)
    recent: Mapping[Series, tuple[tuple[str, float], ...]] = field(default_factory=dict)
    dashboard: str | None = None
    settings: str | None = None
