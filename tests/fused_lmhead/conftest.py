"""Fixtures of the kernel tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch


@pytest.fixture(scope="session")
def printed_by(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Callable[..., Any]:
    """Run a script of this folder in a process of its own, with real compilation and an empty
    cache; what the last line that it printed says, as JSON."""

    def run(script: str, *arguments: str) -> Any:
        environment = {key: value for key, value in os.environ.items() if "TRITON" not in key}
        environment |= {
            "TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton")),
            "PYTHONPATH": str(pytestconfig.rootpath),
            "FUSED_LMHEAD_TUNING": "table",
        }
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name(script)), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=250,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.fixture(scope="session")
def quick_launches() -> None:
    """Skip where this Triton's launches are the ordinary ones."""
    pytest.importorskip("triton")
    from fused_lmhead.launching import _known_protocol

    if not _known_protocol():
        pytest.skip("this Triton's launches are the ordinary ones")


@pytest.fixture(autouse=True)
def poison_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """``torch.empty`` and its kin hand out NaN, so that an unwritten value shows."""
    real_empty, real_empty_like = torch.empty, torch.empty_like
    real_new_empty = torch.Tensor.new_empty

    def poisoned(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.fill_(float("nan")) if tensor.is_floating_point() else tensor

    monkeypatch.setattr(torch, "empty", lambda *a, **k: poisoned(real_empty(*a, **k)))
    monkeypatch.setattr(torch, "empty_like", lambda *a, **k: poisoned(real_empty_like(*a, **k)))
    monkeypatch.setattr(
        torch.Tensor, "new_empty", lambda self, *a, **k: poisoned(real_new_empty(self, *a, **k))
    )
