"""The versions that benchmarks have now, read from their source."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from asv_benchmarks import versions
from asv_benchmarks.tiers import TIERS, series_of
from asv_benchmarks.versions import VersionError, version_of


def test_the_versions_read_are_those_of_the_classes() -> None:
    benchmarks = {benchmark for tier in TIERS for benchmark, _ in series_of(tier)}
    for benchmark in benchmarks:
        module, name, _ = benchmark.split(".")
        known = getattr(importlib.import_module(f"asv_benchmarks.{module}"), name)
        assert version_of(benchmark) == known.version, benchmark
    assert len({version_of(benchmark) for benchmark in benchmarks}) > 1


@pytest.mark.parametrize("name", ["host.Nobody.track_time", "nowhere.Host.track_time", "x", ""])
def test_what_the_suite_does_not_have_has_no_version(name: str) -> None:
    assert version_of(name) is None


def test_versions_come_from_bases_and_are_written_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a synthetic suite of two modules."""
    (tmp_path / "basis.py").write_text('class Basis:\n    version: str = "7"\n')
    (tmp_path / "families.py").write_text(
        "from asv_benchmarks.basis import Basis as B\nN = '9'\n"
        "class Plain(B, abstract=True): pass\nclass Heir(Plain):\n    version: str\n"
        "class Own(Plain):\n    version = '8'\nclass Made(B):\n    version = N\n"
        "class Mixed(Other, B): pass\nclass Other: pass\n"
    )
    monkeypatch.setattr(versions, "SUITE", tmp_path)
    versions.names_in.cache_clear()
    version_of.cache_clear()
    try:
        assert version_of("families.Heir.track_time") == "7"
        assert version_of("families.Own.track_time") == "8"
        assert version_of("families.Mixed.track_time") == "7"
        with pytest.raises(VersionError, match=r"version of families\.Made is not written out"):
            version_of("families.Made.track_time")
    finally:
        versions.names_in.cache_clear()
        version_of.cache_clear()
