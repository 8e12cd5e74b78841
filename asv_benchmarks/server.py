"""One fork server for all commits and rounds of an asv invocation (asv 0.6.6, pinned).

asv starts one for each commit and round: each imports torch and the suite anew while the GPU
waits. What differs between commits is a few variables and what lies in the one
checkout folder, and the server imports nothing from there; so it can stay. Each process that
it forks finds the variables of its commit in its working folder (``handover.take_over``).
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from asv import util
from asv.runner import ForkServer, Spawner

from asv_benchmarks.handover import leave

GRACE_S = 0.5


class LastingServer(ForkServer):  # type: ignore[misc]  # asv has no types
    """asv's fork server, which ends with asv instead of with a commit."""

    def __init__(self, env: Any, root: str) -> None:
        super().__init__(env, root)
        atexit.register(self.close)
        self._preimported: tuple[bool, str] = (False, "")
        # A daemon: whoever ends meanwhile does not wait for it, but calls ``close``.
        self._importing = threading.Thread(target=self._import, daemon=True)
        self._importing.start()

    def _import(self) -> None:
        self._preimported = self.preimport()

    def preimported(self) -> tuple[bool, str]:
        """Whether the suite could be imported, and what that said; waits until it is."""
        self._importing.join()
        return self._preimported

    def _stdout_reader(self) -> None:
        # asv waits for this thread to see whether the server has died before it listens. The
        # reading goes on in a daemon: Python's end waits for all others, then calls ``close``.
        self._reader = threading.Thread(target=super()._stdout_reader, daemon=True)
        self._reader.start()
        while self._reader.is_alive() and not Path(self.socket_name).exists():
            time.sleep(0.05)

    def has_ended(self, within_s: float = 0.0) -> bool:
        """Whether the process has ended, or does so in time. Leaves it to be reaped."""
        ends = time.monotonic() + within_s
        while self.server_proc.returncode is None:
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            try:
                if os.waitid(os.P_PID, self.server_proc.pid, options):
                    break
            except ChildProcessError:  # another thread has seen it end and reaped it
                break
            if time.monotonic() >= ends:
                return False
            time.sleep(0.01)
        return True

    def close(self) -> None:
        """End it and whatever it has started, even what does not heed an interrupt."""
        atexit.unregister(self.close)
        self.stdout_reader_thread = self._reader
        # A benchmark may wait for the GPU in C and outlive the server. Its group is the
        # server's, whose id stays taken until asv reaps it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.server_proc.pid, signal.SIGINT)
            try:
                self.has_ended(GRACE_S)
            finally:  # another interrupt is no reason to leave it
                os.killpg(self.server_proc.pid, signal.SIGKILL)
        super().close()


class SharedServer(Spawner):  # type: ignore[misc]
    """The server of an environment, started when first needed and again where it has died."""

    def __init__(self, env: Any, benchmark_dir: str) -> None:
        super().__init__(env, benchmark_dir)
        self._server: LastingServer | None = None
        self._beginning: threading.Thread | None = None

    def begin(self) -> None:
        """Start the server in the background. What goes wrong is told by who needs it."""
        if self._server is None and self._beginning is None:
            self._beginning = threading.Thread(target=self._start_quietly)
            self._beginning.start()

    def _start_quietly(self) -> None:
        with contextlib.suppress(Exception):
            self._server = LastingServer(self.env, self.benchmark_dir)

    def _running(self) -> LastingServer:
        if self._beginning is not None:
            self._beginning.join()
        if self._server is not None:
            imported, _ = self._server.preimported()
            # One that dies of it closes its socket a moment before it has ended.
            if self._server.has_ended(0.0 if imported else GRACE_S):
                self._server.close()
                self._server = None
        if self._server is None:
            self._server = LastingServer(self.env, self.benchmark_dir)
        return self._server

    def preimport(self) -> tuple[bool, str]:
        """Import the suite, once a server."""
        return self._running().preimported()

    def run(
        self,
        name: str,
        params_str: str,
        profile_path: str,
        result_file_name: str,
        timeout: float,
        cwd: str,
    ) -> Any:
        """Have a benchmark run for the commit that is checked out now.

        Where the server dies meanwhile, this benchmark has failed and the next has a new one.
        """
        server = self._running()
        leave(Path(cwd), self.env.process_environ(dict(os.environ)))
        try:
            return server.run(name, params_str, profile_path, result_file_name, timeout, cwd)
        except (OSError, RuntimeError, util.UserError) as error:
            if not server.has_ended(GRACE_S):
                raise
            return f"asv: the fork server ended during this benchmark: {error}", 1

    def interrupt(self) -> None:
        """Say nothing of what the server says when it is interrupted."""
        super().interrupt()
        if self._server is not None:
            self._server.interrupt()

    def close(self) -> None:
        """Nothing: asv is done with a commit and a round, not with the server."""


class Servers:
    """The server of each environment and suite."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str], SharedServer] = {}

    def of(self, env: Any, benchmark_dir: str) -> SharedServer:
        """That of ``env``, which may be another object of the same name by now."""
        place = (str(env.name), str(Path(benchmark_dir).absolute()))
        server = self._of.setdefault(place, SharedServer(env, benchmark_dir))
        server.env = env
        return server


def sharing(
    original: Callable[..., Spawner], environment_class: type, servers: Servers
) -> Callable[..., Spawner]:
    """``get_spawner`` that gives environments of this class the server that runs already."""

    @functools.wraps(original)
    def get_spawner(env: Any, benchmark_dir: str, launch_method: str | None) -> Spawner:
        if launch_method == "forkserver" and isinstance(env, environment_class):
            return servers.of(env, benchmark_dir)
        return original(env, benchmark_dir, launch_method)

    return get_spawner
