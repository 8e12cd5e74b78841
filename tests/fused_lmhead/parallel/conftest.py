"""The ranks of these tests, started once: a process takes seconds to come up."""

from __future__ import annotations

from pathlib import Path

import pytest
from parallel_cases import FOUR, run_cases
from parallel_trainers import run_two

from fused_lmhead.parallel.processes import run_ranks


@pytest.fixture(scope="session")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where two ranks over gloo left what they got, of every case and every probe."""
    pytest.importorskip("triton")
    folder = tmp_path_factory.mktemp("two")
    run_ranks(run_two, 2, str(folder))
    return folder


@pytest.fixture(scope="session")
def four_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where four ranks left what they got, of every case."""
    pytest.importorskip("triton")
    folder = tmp_path_factory.mktemp("four")
    run_ranks(run_cases, 4, FOUR, str(folder))
    return folder
