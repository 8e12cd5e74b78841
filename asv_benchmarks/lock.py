"""One GPU, one run: advisory file locks, which the kernel releases with their holder.

A run holds the GPU's ``run`` lock from its first commit to its end; each
benchmark process holds the ``process`` lock too, so that what a killed run left
behind cannot share the GPU with the next one.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

Scope = Literal["run", "process"]


class BusyError(RuntimeError):
    """Another process holds the lock."""


class FileLock:
    """Held from ``acquire`` to ``release`` or to the end of the process.

    ``what`` names what is locked, for messages.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        self.what = what
        self._descriptor: int | None = None

    def _open(self) -> int:
        try:
            # Without O_CREAT first: in a sticky /tmp, Linux denies O_CREAT on a file
            # that another user made.
            return os.open(self.path, os.O_RDWR)
        except FileNotFoundError:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            os.fchmod(descriptor, 0o666)  # whatever the umask
            return descriptor

    def acquire(
        self,
        timeout_s: float | None = None,
        on_wait: Callable[[str], None] | None = None,
        poll_s: float = 0.2,
    ) -> None:
        """Take the lock, waiting up to ``timeout_s`` (None: without end).

        ``on_wait`` is told once who holds it. Raises BusyError when time is up.
        """
        if self._descriptor is not None:
            return
        descriptor = self._open()
        started = time.monotonic()
        told = False
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                holder = os.pread(descriptor, 64, 0).decode(errors="replace").strip()
                message = f"{self.what} is used by process {holder or '?'} ({self.path})"
                if timeout_s is not None and time.monotonic() - started >= timeout_s:
                    os.close(descriptor)
                    raise BusyError(message) from None
                if on_wait is not None and not told:
                    on_wait(message)
                    told = True
                time.sleep(poll_s)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """Give it back; nothing happens if it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def gpu_lock(gpu_uuid: str, scope: Scope, folder: Path | None = None) -> FileLock:
    """The lock of one GPU, the same for every user and checkout of this machine."""
    folder = folder or Path(tempfile.gettempdir())
    return FileLock(folder / f"lmhead-bench-{gpu_uuid}.{scope}.lock", f"GPU {gpu_uuid}")
