"""A large history goes in fast and within bounds; `measure_store` prints the figures.

The bounds here are loose, since a machine that runs tests has other things to do; the figures that
count are those of ``python tests/dashboard/measure_store.py`` on an idle one.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest


@pytest.mark.slow
def test_a_large_history(tmp_path: Path) -> None:
    location = Path(__file__).with_name("measure_store.py")
    spec = importlib.util.spec_from_file_location("measure_store", location)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    figures = module.measure(tmp_path, commits=100, series=1000)
    print(json.dumps(figures))
    assert figures["measurements"] == 100_000
    assert figures["ingest_memory_mib"] < 2048
    assert figures["store_share_of_json"] < 1 / 3
    assert figures["measurements"] / figures["ingest_cpu_seconds"] > 12_000
    assert figures["one_more_commit_cpu_seconds"] < 3
