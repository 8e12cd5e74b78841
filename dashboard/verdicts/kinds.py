"""What a series measures, as far as verdicts differ by it."""

from __future__ import annotations

from dashboard.models import Series

# The family whose code no commit of the project changes.
CONTROL_FAMILY = "control"

TIME_UNITS = frozenset({"s", "seconds", "ms", "us", "µs", "ns"})

# Families of times that are no call's on the GPU, and of a noise of another size: compilers' and
# interpreters' runs.
_OTHER_TIMES = frozenset({"compile", "host"})


def is_call_time(series: Series) -> bool:
    """Whether it is the time of a call on the GPU; controls, which no commit changes, are not."""
    timed = series.unit in TIME_UNITS and not series.higher_is_better
    return timed and series.family not in {*_OTHER_TIMES, CONTROL_FAMILY}
