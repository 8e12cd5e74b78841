"""The wheel, installed alone into a new environment, serves the shipped history."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """The bin folder of a new environment with nothing but the built wheel and its extra."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "-q", "--wheel", "--outdir", folder, pytestconfig.rootpath],
        check=True,
    )
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    bin_folder = folder / "venv" / "bin"
    subprocess.run([bin_folder / "pip", "install", "-q", f"{wheel}[dashboard]"], check=True)
    return bin_folder


def test_demo_serves_the_shipped_history_without_torch(installed: Path, tmp_path: Path):
    missing = subprocess.run(
        [installed / "python", "-c", "import torch"], capture_output=True, text=True
    )
    assert "ModuleNotFoundError" in missing.stderr
    started = time.monotonic()
    demo = subprocess.Popen(
        [installed / "lmhead-perf", "demo"],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        printed = ""
        assert demo.stdout is not None
        for line in demo.stdout:
            printed += line
            if address := re.search(r"http://\S+:\d+", line):
                break
        else:
            pytest.fail(f"no address printed:\n{printed}")
        while True:
            try:
                with urllib.request.urlopen(address[0] + "/_stcore/health", timeout=1) as answer:
                    assert answer.read() == b"ok"
                    break
            except OSError:
                assert demo.poll() is None, printed
                assert time.monotonic() - started < 60
                time.sleep(0.1)
        assert time.monotonic() - started < 15, "from command to served page"
    finally:
        demo.terminate()
        demo.wait(timeout=20)
