"""`lmhead-perf` as a user calls it, in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def lmhead_perf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs it with arguments: exit code, stdout, stderr. In an empty folder, or in ``folder``."""
    from dashboard import cli

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LMHEAD_PERF_STORE", raising=False)

    def call(*arguments: object, folder: Path | None = None) -> tuple[int, str, str]:
        if folder is not None:
            monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["lmhead-perf", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        out, err = capfd.readouterr()
        return int(caught.value.code or 0), out, err

    return call
