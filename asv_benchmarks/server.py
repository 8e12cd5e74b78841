"""One fork server for all commits and rounds of an asv invocation (asv 0.6.6, pinned).

asv starts one for each commit and round: each imports torch and the suite anew, nine seconds
of a GPU's time. What differs between commits is a few variables and what lies in the one
checkout folder, and the server imports nothing from there; so it can stay. Each process that
it forks finds the variables of its commit in its working folder (``handover.take_over``).
"""

from __future__ import annotations

import atexit
import functools
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from asv.runner import ForkServer, Spawner

from asv_benchmarks.handover import leave


class SharedServer(ForkServer):  # type: ignore[misc]  # asv has no types
    """asv's fork server, which ends with asv instead of with a commit."""

    def __init__(self, env: Any, root: str) -> None:
        self._preimported: tuple[bool, str] | None = None
        super().__init__(env, root)
        atexit.register(self.end)

    def _stdout_reader(self) -> None:
        # asv waits for this thread to see whether the server has died before it listens. The
        # reading goes on in a daemon, since Python's end waits for all others, then calls ``end``.
        self._reader = threading.Thread(target=super()._stdout_reader, daemon=True)
        self._reader.start()
        while self._reader.is_alive() and not Path(self.socket_name).exists():
            time.sleep(0.05)

    def preimport(self) -> tuple[bool, str]:
        """Import the suite, once."""
        if self._preimported is None:
            self._preimported = super().preimport()
        return self._preimported

    def run(
        self,
        name: str,
        params_str: str,
        profile_path: str,
        result_file_name: str,
        timeout: float,
        cwd: str,
    ) -> Any:
        """Have a benchmark run for the commit that is checked out now."""
        leave(Path(cwd), self.env.process_environ(dict(os.environ)))
        return super().run(name, params_str, profile_path, result_file_name, timeout, cwd)

    def close(self) -> None:
        """Nothing: asv is done with a commit and a round, not with the server."""

    def end(self) -> None:
        """End it and what it has started."""
        atexit.unregister(self.end)
        self.stdout_reader_thread = self._reader
        super().close()


_servers: dict[tuple[str, str], SharedServer] = {}


def sharing(original: Callable[..., Spawner], environment_class: type) -> Callable[..., Spawner]:
    """``get_spawner`` that gives environments of this class the server that runs already."""

    @functools.wraps(original)
    def get_spawner(env: Any, benchmark_dir: str, launch_method: str | None) -> Spawner:
        shared = launch_method == "forkserver" and isinstance(env, environment_class)
        if not shared:
            return original(env, benchmark_dir, launch_method)
        place = (str(env.name), str(Path(benchmark_dir).absolute()))
        if place not in _servers:
            _servers[place] = SharedServer(env, benchmark_dir)
        server = _servers[place]
        server.env = env
        return server

    return get_spawner
