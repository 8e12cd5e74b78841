"""Checkouts with made-up packages for fresh processes, and whether processes still run."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

# Takes any call and returns nothing real: the processes start without torch's long import.
TORCH = """
import sys
from unittest.mock import MagicMock

sys.modules["torch"] = MagicMock()
sys.modules["torch"].cuda.is_initialized.return_value = False
"""

WORKING = """
def fused_linear_logprob(*_, **__):
    pass
"""


def checkout(
    folder: Path, package: str = WORKING, *, torch: str | None = TORCH, triton: str = ""
) -> Path:
    """``folder`` with a ``fused_lmhead`` of that source, beside stand-ins for torch and Triton.

    ``torch`` None: without stand-ins.
    """
    (folder / "fused_lmhead").mkdir(parents=True, exist_ok=True)
    (folder / "fused_lmhead" / "__init__.py").write_text(package)
    if torch is not None:
        (folder / "torch.py").write_text(torch)
        (folder / "triton.py").write_text(triton)
    return folder


def runs(process: int) -> bool:
    """Whether it exists and is no zombie."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def outliving(processes: Iterable[int], seconds: float = 10.0) -> list[int]:
    """Those that still run after so long."""
    ends = time.monotonic() + seconds
    left = [process for process in processes if runs(process)]
    while left and time.monotonic() < ends:
        time.sleep(0.05)
        left = [process for process in left if runs(process)]
    return left
