"""Decided before any test module imports triton: interpreter or GPU."""

from __future__ import annotations

import os
from pathlib import Path

if not any(Path("/dev").glob("nvidia[0-9]*")):
    # Triton's own library is decorated when triton is first imported, for good.
    os.environ.setdefault("TRITON_INTERPRET", "1")
