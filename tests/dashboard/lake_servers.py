"""Servers that the DuckLake tests start for themselves: PostgreSQL, and an S3 API on loopback."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

USER = "lake"


def postgres_programs() -> Path | None:
    """The folder of PostgreSQL's server programs; None where it is not installed."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "pg_ctl").is_file()), None)


@contextmanager
def postgres(programs: Path) -> Iterator[Path]:
    """A running server that listens at a socket in the folder it yields."""
    # a socket's path may have 107 bytes, which pytest's folders can exceed
    with tempfile.TemporaryDirectory(prefix="lake-pg-") as name:
        folder = Path(name)
        # PostgreSQL refuses to run as root
        account = pwd.getpwnam("nobody") if os.getuid() == 0 else None
        if account is not None:
            os.chown(folder, account.pw_uid, account.pw_gid)
            folder.chmod(0o755)
        user = {} if account is None else {"user": account.pw_uid, "group": account.pw_gid}

        def call(program: str, *arguments: str) -> None:
            subprocess.run(
                [programs / program, *arguments],
                check=True, cwd=folder, stdout=subprocess.DEVNULL, **user,
            )  # fmt: skip

        data = str(folder / "data")
        call("initdb", "-D", data, "-A", "trust", "-U", USER, "-E", "UTF8")
        options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
        call("pg_ctl", "-D", data, "-o", options, "-l", str(folder / "log"), "-w", "start")
        try:
            yield folder
        finally:
            call("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")


def create_database(programs: Path, server: Path, name: str) -> str:
    """Make a database; the address of a lake whose catalogue it is."""
    subprocess.run([programs / "createdb", "-h", server, "-U", USER, name], check=True)
    return f"ducklake:postgres:host={server} user={USER} dbname={name}"


@contextmanager
def objects() -> Iterator[str]:
    """An S3 API in a process of its own; yields its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{address}/moto-api/", timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(10)


def create_bucket(address: str, name: str) -> None:
    """Make a bucket."""
    request = urllib.request.Request(f"{address}/{name}", method="PUT")
    urllib.request.urlopen(request, timeout=10).close()
