"""End a process that is about to be killed for its time limit, with a reason.

asv kills without a word, and a process that waits for a GPU never sees a
signal; a thread still runs.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

MARGIN = 0.95


class Watchdog:
    """Calls ``on_expiry(reason)`` after ``MARGIN`` of ``limit_s``, then ends the process."""

    def __init__(
        self,
        limit_s: float,
        on_expiry: Callable[[str], None],
        leave: Callable[[int], object] = os._exit,
    ) -> None:
        self._limit_s = limit_s
        self._on_expiry = on_expiry
        self._leave = leave
        self._timer = threading.Timer(limit_s * MARGIN, self._expire)
        self._timer.daemon = True

    def start(self) -> None:
        """Start the clock."""
        self._timer.start()

    def stop(self) -> None:
        """The work is done in time."""
        self._timer.cancel()

    def _expire(self) -> None:
        reason = f"TimeoutError: no result within {self._limit_s * MARGIN:g} s"
        print(reason, file=sys.stderr, flush=True)
        try:
            self._on_expiry(reason)
        finally:
            self._leave(1)
