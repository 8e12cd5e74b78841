"""Decided before any test module imports triton: interpreter or GPU."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

if not any(Path("/dev").glob("nvidia[0-9]*")):
    # Triton's own library is decorated when triton is first imported, for good.
    os.environ.setdefault("TRITON_INTERPRET", "1")

_MAIN = sys.modules["__main__"]


@pytest.fixture(autouse=True)
def one_main_module() -> Iterator[None]:
    """AppTest leaves its script as ``__main__``, and spawned ranks would run that again."""
    yield
    sys.modules["__main__"] = _MAIN
