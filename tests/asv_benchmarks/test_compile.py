"""First calls: the figures, that they are shared, and a fresh process on the CPU."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from asv_benchmarks import first_calls as child
from asv_benchmarks import probe
from asv_benchmarks.compile import NAMES, figures, take_figure
from asv_benchmarks.fresh import Call, FreshProcessError, cold_environ, first_calls
from asv_benchmarks.tiers import COMPILE

ROOT = Path(__file__).resolve().parents[2]


def call(ms: float, compilations: int | None = 0, candidates: int | None = None) -> dict[str, Any]:
    """A synthetic entry of a report."""
    return {"ms": ms, "compilations": compilations, "candidates": candidates}


COLD = {
    "calls": [call(9000.0, 4, 14), call(6.0), call(4000.0, 2, 14)],
    "kernels": [
        {"name": "partials", "registers": 240, "spills": 0, "shared_bytes": 200_000},
        {"name": "merge", "registers": 40, "spills": 2, "shared_bytes": 512},
    ],
    "schedule": {"block_m": 128},
}
WARM = {"calls": [call(300.0), call(20.0)]}


def test_figures_come_from_two_processes() -> None:
    assert figures(COLD, WARM) == {
        "Cold": 9000.0,
        "WarmDisk": 300.0,
        "KnownBucket": 20.0,
        "SameBucket": 6.0,
        "NewBucket": 4000.0,
        "Compilations": 4,
        "Candidates": 14,
        "Registers": 240,
        "Spills": 2,
        "SharedMemory": 200_000,
    }
    unknown = figures({**COLD, "kernels": []}, WARM)
    assert (unknown["Registers"], unknown["Spills"]) == (None, None)
    assert {name.split(".")[1] for name in COMPILE} == set(NAMES)


def test_one_measurement_serves_every_benchmark_once(tmp_path: Path) -> None:
    path = tmp_path / "left" / "figures.json"
    measured = []

    def measure() -> dict[str, Any]:
        measured.append(1)
        return {"figures": figures(COLD, WARM), "schedule": COLD["schedule"]}

    values = {name: take_figure(path, name, measure)["value"] for name in NAMES}
    assert values == figures(COLD, WARM)
    assert len(measured) == 1
    take_figure(path, "Cold", measure)
    assert len(measured) == 2, "a further round is measured anew"
    take_figure(path, "Spills", measure)
    assert len(measured) == 2


def test_a_failure_is_every_benchmarks_and_is_not_repeated(tmp_path: Path) -> None:
    tries = []

    def fail() -> dict[str, Any]:
        tries.append(1)
        raise FreshProcessError("ended with 1: broken")

    for name in NAMES:
        with pytest.raises(FreshProcessError, match="broken"):
            take_figure(tmp_path / "figures.json", name, fail)
    assert len(tries) == 1


def test_a_fresh_process_measures_the_package_it_is_given(tmp_path: Path) -> None:
    shape = {"h": 32, "v": 100, "entropy": True}
    calls = [Call(tokens=64, **shape), Call(tokens=65, **shape)]  # type: ignore[typeddict-item]
    report = first_calls(tmp_path, ROOT, "cpu", calls)
    assert [entry["tokens"] for entry in report["calls"]] == [64, 65]
    assert all(entry["ms"] > 0 for entry in report["calls"])
    assert report["kernels"] == []
    # Not an installed copy instead of the checkout's, which has none.
    lacking = "No module named 'fused_lmhead'|not from the checkout"
    with pytest.raises(FreshProcessError, match=lacking):
        first_calls(tmp_path, tmp_path, "cpu", calls)
    with pytest.raises(FreshProcessError, match=r"more than 0\.01 s"):
        first_calls(tmp_path, ROOT, "cpu", calls, timeout_s=0.01)


def test_a_cold_process_finds_no_cache_and_no_suite(tmp_path: Path) -> None:
    outside = {"LMHEAD_BENCH_RUN": "r", "ASV_COMMIT": "c", "TRITON_CACHE_DIR": "/warm", "PATH": "p"}
    environ = cold_environ(tmp_path, ROOT, outside)
    assert environ["TRITON_CACHE_DIR"] == str(tmp_path / "triton")
    assert environ["PYTHONPATH"] == str(ROOT)
    assert environ["PATH"] == "p"
    assert not [name for name in environ if name.startswith(("LMHEAD_BENCH_", "ASV_"))]
    assert outside["TRITON_CACHE_DIR"] == "/warm"
    assert "asv_benchmarks" not in Path(child.__file__).read_text().split('"""')[2]


def test_compilations_are_counted_by_tritons_hooks() -> None:
    knobs = pytest.importorskip("triton").knobs
    before = (knobs.compilation.listener, knobs.runtime.jit_post_compile_hook)
    counter = child.Compilations()
    try:
        assert counter.listen()
        for cache_hit in (False, False, True):
            knobs.compilation.listener(
                src=None, metadata={}, metadata_group={}, times=None, cache_hit=cache_hit
            )
        kernel = SimpleNamespace(function=7)
        function = SimpleNamespace(device_caches={0: ({"key": kernel},)})
        for _ in range(2):
            knobs.runtime.jit_post_compile_hook(fn=SimpleNamespace(jit_function=function))
    finally:
        knobs.compilation.listener, knobs.runtime.jit_post_compile_hook = before
    assert (counter.compiled, counter.found) == (2, 1)
    assert counter.kernels() == [kernel]


def test_a_search_remembered_from_disk_has_tried_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    package = SimpleNamespace(__name__="fused_lmhead")
    searches = [
        SimpleNamespace(candidates=(1, 2, 3), remembered=False),
        SimpleNamespace(candidates=(1, 2, 3), remembered=True),
    ]
    tuning = SimpleNamespace(searches=lambda: searches)
    monkeypatch.setattr(child.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(child.importlib, "import_module", lambda name: tuning)
    assert child.searched(package) == 3
    monkeypatch.setattr(child.importlib, "import_module", lambda name: SimpleNamespace())
    assert child.searched(package) is None
    monkeypatch.setattr(child.importlib.util, "find_spec", lambda name: None)
    assert child.searched(package) is None


def test_the_probes_table_has_the_references_beside_it() -> None:
    rows = probe.rows_of(COLD, {"calls": [call(300.0), call(20.0)]})
    text = probe.table([rows, rows, rows], [900.0, 1200.0, 1500.0])
    assert "| cold, empty caches | 9.00 s | 9.00 s | 4 + 14 | 9.00 s | 4 + 14 | 13.27 s |" in text
    assert "| same bucket | 6.00 ms |" in text
    assert "median first call over the sweep, 3 shapes | - | 1.20 s |" in text
    assert "14.9 s" in text


@pytest.mark.gpu
def test_a_cold_process_compiles_and_a_warm_one_does_not(tmp_path: Path) -> None:
    shape = {"h": 256, "v": 4096, "entropy": True}
    calls = [Call(tokens=512, **shape), Call(tokens=513, **shape)]  # type: ignore[typeddict-item]
    cold = first_calls(tmp_path, ROOT, "gpu", calls)
    assert cold["calls"][0]["compilations"] > 0
    assert cold["calls"][1]["compilations"] == 0
    assert all(kernel["registers"] > 0 for kernel in cold["kernels"])
    assert cold["kernels"]
    warm = first_calls(tmp_path, ROOT, "gpu", calls)
    assert warm["calls"][0]["compilations"] == 0
    assert warm["calls"][0]["ms"] < cold["calls"][0]["ms"]
    assert any((tmp_path / "triton").iterdir())
