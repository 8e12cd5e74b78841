"""Serving the app: a Streamlit process on a free port, ended with this one."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

from dashboard.errors import InputError

STORE_VARIABLE = "LMHEAD_PERF_STORE"
_FIRST_PORT = 8501
_PORTS_TRIED = 100
_START_SECONDS = 60.0
_STOP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Server:
    """A running app."""

    address: str
    process: subprocess.Popen[bytes]

    def wait_until_served(self) -> None:
        """Return once the app answers. InputError if it ends or does not answer in time."""
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise InputError(f"the app ended with exit code {self.process.returncode}")
            try:
                with urllib.request.urlopen(f"{self.address}/_stcore/health", timeout=2):
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.05)
        raise InputError(f"the app did not answer at {self.address} in {_START_SECONDS:.0f} s")

    def wait(self) -> int:
        """Wait for the app to end; its exit code."""
        return self.process.wait()


@contextmanager
def serving(store: str, port: int | None, host: str) -> Iterator[Server]:
    """Start the app on the store; it ends with the block, on Ctrl-C and on SIGTERM too."""
    chosen = _free_port(host, port)
    previous = signal.signal(signal.SIGTERM, _as_interrupt)
    process = subprocess.Popen(
        _command(chosen, host), env=_environment(store), stdout=sys.stderr.fileno(),
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield Server(f"http://{_shown(host)}:{chosen}", process)
    finally:
        _stop(process)
        signal.signal(signal.SIGTERM, previous)


def _shown(host: str) -> str:
    """The host as an address has it."""
    if host in ("127.0.0.1", "0.0.0.0", "::", "localhost"):
        return "localhost"
    return f"[{host}]" if ":" in host else host


def _command(port: int, host: str) -> list[str]:
    options = {
        "server.port": str(port),
        "server.address": host,
        "server.headless": "true",  # no browser is opened, no e-mail address asked for
        "server.fileWatcherType": "none",
        "browser.gatherUsageStats": "false",
        "logger.level": "warning",
        "logger.hideWelcomeMessage": "true",
    }
    script = Path(__file__).parent / "app" / "main.py"
    settings = [f"--{name}={value}" for name, value in options.items()]
    return [sys.executable, "-m", "streamlit", "run", str(script), *settings]


def _environment(store: str) -> dict[str, str]:
    # Streamlit puts the script's folder on the path, not the package's
    package = str(Path(__file__).parent.parent)
    inherited = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([package, inherited]) if inherited else package
    return {**os.environ, STORE_VARIABLE: store, "PYTHONPATH": path}


def _free_port(host: str, wanted: int | None) -> int:
    if find_spec("streamlit") is None:
        raise InputError("streamlit is not installed: pip install 'fused-lmhead[dashboard]'")
    if not host:
        raise InputError("--host is empty: name an address, such as 127.0.0.1 or 0.0.0.0 for all")
    if wanted is not None:
        problem = _problem_of(host, wanted)
        if problem is not None:
            raise InputError(
                f"port {wanted} on {host} cannot be used ({_said(problem)}): try another --port"
            )
        return wanted
    for port in range(_FIRST_PORT, _FIRST_PORT + _PORTS_TRIED):
        problem = _problem_of(host, port)
        if problem is None:
            return port
        if problem.errno != errno.EADDRINUSE:
            raise InputError(f"--host {host} cannot be listened at: {_said(problem)}")
    raise InputError(f"no free port on {host} from {_FIRST_PORT}: name one with --port")


def _problem_of(host: str, port: int) -> OSError | None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except UnicodeError:  # a name that no resolver takes, such as one of 64 letters
            return OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        except OSError as error:
            return error
    return None


def _said(problem: OSError) -> str:
    return problem.strerror or str(problem)


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
