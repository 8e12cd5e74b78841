"""First calls: the figures, that they are shared, and the time they get; the probe's table."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from fresh_checkouts import checkout

pytest.importorskip("torch")

from asv_benchmarks import compile as suite
from asv_benchmarks import probe
from asv_benchmarks.compile import NAMES, figures, summary, take_figure
from asv_benchmarks.conditions import NoMonitor
from asv_benchmarks.fresh import FreshProcessError
from asv_benchmarks.tiers import COMPILE
from asv_benchmarks.watchdog import MARGIN
from asv_benchmarks.workloads import SMOKE_TOKENS, Head


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


# Of a second and a third pair of processes, made up.
PAIRS = [
    (COLD, WARM),
    ({**COLD, "calls": [call(12_000.0, 4, 14), call(5.0), call(4100.0)]}, WARM),
    ({**COLD, "calls": [call(9500.0, 5, 14), call(7.0), call(3900.0)]}, WARM),
]


def test_figures_come_from_pairs_of_processes() -> None:
    assert figures([(COLD, WARM)]) == {
        "Cold": [9000.0],
        "WarmDisk": [300.0],
        "KnownBucket": [20.0],
        "SameBucket": [6.0],
        "NewBucket": [4000.0],
        "Compilations": [4],
        "Candidates": [14],
        "Registers": [240],
        "Spills": [2],
        "SharedMemory": [200_000],
    }
    three = figures(PAIRS)
    assert three["Cold"] == [9000.0, 12_000.0, 9500.0]
    assert three["Compilations"] == [4, 4, 5]
    unknown = figures([({**COLD, "kernels": []}, WARM)] * 2)
    assert (unknown["Registers"], unknown["Spills"], unknown["Candidates"]) == ([], [], [14, 14])
    assert {name.split(".")[1] for name in COMPILE} == set(NAMES)


def test_a_count_stays_one_that_occurred() -> None:
    assert summary([9000.0, 12_000.0, 9500.0], "ms") == 9500.0
    assert summary([9000.0, 10_000.0], "ms") == 9500.0
    assert summary([4.0, 5.0], "kernels") == 5.0


def test_one_measurement_serves_every_benchmark_once(tmp_path: Path) -> None:
    path = tmp_path / "left" / "figures.json"
    measured = []

    def measure() -> dict[str, Any]:
        measured.append(1)
        return {"figures": figures(PAIRS), "schedule": COLD["schedule"]}

    samples = {name: take_figure(path, name, measure)["samples"] for name in NAMES}
    assert samples == figures(PAIRS)
    assert len(measured) == 1
    take_figure(path, "Cold", measure)
    assert len(measured) == 2, "a further round is measured anew"
    take_figure(path, "Spills", measure)
    assert len(measured) == 2


def figure_of(kind: type[suite._Figure], made: Path) -> suite._Figure:
    """A benchmark of that checkout as it is when ``begin`` is called."""
    figure = kind()
    figure.started = time.perf_counter()
    figure.values = {"model": "smoke", "tokens": SMOKE_TOKENS, "tp": 1}
    figure.handover = SimpleNamespace(checkout=made, run="r", commit="c")  # type: ignore[assignment]
    figure.monitor = NoMonitor()
    return figure


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A package that has what the benchmarks call."""
    monkeypatch.setattr(suite, "fused_function", lambda *_: None)
    return ModuleType("fused_lmhead")


def test_a_rounds_three_samples_and_their_median_reach_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: ModuleType
) -> None:
    asked = []

    def pairs_of(*_: object, **__: object) -> list[tuple[Any, Any]]:
        asked.append(1)
        return PAIRS

    def begun(kind: type[suite._Figure]) -> suite._Figure:
        figure = figure_of(kind, tmp_path / "c")
        figure.begin(package, "cpu")
        return figure

    monkeypatch.setattr(suite, "cold_and_warm", pairs_of)
    timing = begun(suite.Cold).take(package, "cpu")
    assert (timing.samples, timing.value) == ((9000.0, 12_000.0, 9500.0), 9500.0)
    assert (timing.plan.samples, timing.plan.statistic) == (3, "median")
    assert begun(suite.Compilations).take(package, "cpu").value == 4.0
    assert len(asked) == 1, "the second figure was left by the first"
    without = [({**COLD, "kernels": []}, WARM)] * 3
    monkeypatch.setattr(suite, "cold_and_warm", lambda *_, **__: without)
    begun(suite.Cold)
    with pytest.raises(NotImplementedError, match="does not tell Registers"):
        begun(suite.Registers)


def test_a_variable_sets_the_pairs_of_a_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: ModuleType
) -> None:
    asked = []

    def pairs_of(*_: object, pairs: int, **__: object) -> list[tuple[Any, Any]]:
        asked.append(pairs)
        return PAIRS[:pairs]

    monkeypatch.setattr(suite, "cold_and_warm", pairs_of)
    monkeypatch.delenv(suite.VARIABLE, raising=False)
    figure_of(suite.Cold, tmp_path / "three" / "c").begin(package, "cpu")
    monkeypatch.setenv(suite.VARIABLE, "1")
    one = figure_of(suite.Cold, tmp_path / "one" / "c")
    one.begin(package, "cpu")
    assert (asked, one.samples) == ([3, 1], (9000.0,))
    for text in ("none", "0", "-1", "\u00b2"):
        monkeypatch.setenv(suite.VARIABLE, text)
        with pytest.raises(ValueError, match=f"PAIRS='{text}' is not a number of at least 1"):
            figure_of(suite.Cold, tmp_path / "none" / "c").begin(package, "cpu")


def test_the_processes_get_the_time_that_waiting_for_the_gpu_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: ModuleType
) -> None:
    given = []

    def pairs_of(*_: object, timeout_s: float, **__: object) -> list[tuple[Any, Any]]:
        given.append(timeout_s)
        return PAIRS

    monkeypatch.setattr(suite, "cold_and_warm", pairs_of)
    figure = figure_of(suite.Cold, tmp_path / "c")
    figure.started -= 60  # seconds, as if it had waited
    figure.begin(package, "cpu")
    assert given == [pytest.approx(figure.timeout * MARGIN - 60 - suite.SPARE_S, abs=2)]


def test_a_process_that_hangs_fails_before_the_watchdog_ends_the_benchmark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: ModuleType
) -> None:
    folders = tmp_path / "tmp"
    folders.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folders))
    made = checkout(tmp_path / "round" / "checkout", "import time; time.sleep(60)")
    monkeypatch.setattr(suite.Cold, "timeout", 10.0)
    figure = figure_of(suite.Cold, made)
    with pytest.raises(FreshProcessError, match=r"took more than 4\.\d* s"):
        figure.begin(package, "cpu")
    assert figure.elapsed() < figure.timeout * MARGIN
    assert not list(folders.iterdir()), "its caches are removed"
    another = figure_of(suite.Spills, made)
    with pytest.raises(FreshProcessError, match=r"took more than 4\.\d* s"):
        another.begin(package, "cpu")
    assert another.elapsed() < 1, "the reason is left for the others"


def test_a_failure_is_every_benchmarks_and_is_not_repeated(tmp_path: Path) -> None:
    tries = []

    def fail() -> dict[str, Any]:
        tries.append(1)
        raise FreshProcessError("a fresh process failed: broken")

    for name in NAMES:
        with pytest.raises(FreshProcessError, match="broken"):
            take_figure(tmp_path / "figures.json", name, fail)
    assert len(tries) == 1


def test_the_probes_table_has_the_references_beside_it() -> None:
    rows = probe.rows_of(PAIRS)
    text = probe.table([rows, rows, rows], [900.0, 1200.0, 1500.0])
    assert "| cold, empty caches | 9.50 s | 9.50 s | 4 + 14 | 9.50 s | 4 + 14 | 13.27 s |" in text
    assert "| same bucket | 6.00 ms |" in text
    assert "median first call over the sweep, 3 shapes | - | 1.20 s |" in text
    assert "14.9 s" in text


def test_the_probe_says_of_how_many_pairs_its_medians_are() -> None:
    head, other = Head("one", 4096, 131072), Head("other", 4224, 130560)
    lines = probe.heading("Some GPU", head, other, [PAIRS, PAIRS[:2], PAIRS[:1]])
    assert lines.startswith("Some GPU; H 4096, V 131072; 20,000 tokens,")
    assert "H 4224, V 130560. Medians of pairs of processes:" in lines
    assert lines.endswith("3 without entropy, 2 with it, 1 searched.")
