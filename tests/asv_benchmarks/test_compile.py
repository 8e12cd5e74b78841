"""First calls: the figures, that they are shared, and fresh processes on the CPU."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from asv_benchmarks import compile as suite
from asv_benchmarks import first_calls as child
from asv_benchmarks import probe
from asv_benchmarks.compile import NAMES, figures, summary, take_figure
from asv_benchmarks.conditions import NoMonitor
from asv_benchmarks.fresh import (
    Call,
    FreshProcessError,
    cache_variables,
    clean_environ,
    cold_and_warm,
    first_calls,
)
from asv_benchmarks.tiers import COMPILE
from asv_benchmarks.workloads import SMOKE_TOKENS

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


def test_a_rounds_three_samples_and_their_median_reach_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def pairs_of(*_: object, pairs: int, **__: object) -> list[tuple[Any, Any]]:
        asked.append(pairs)
        return PAIRS[:pairs]

    monkeypatch.setattr(suite, "cold_and_warm", pairs_of)
    package = ModuleType("fused_lmhead")
    package.fused_linear_logprob = lambda return_entropy: None  # type: ignore[attr-defined]
    monkeypatch.setattr(suite, "fused_function", lambda *_: None)

    def begun(kind: type[suite._Figure], device: str = "cpu") -> suite._Figure:
        figure = kind()
        figure.values = {"model": "smoke", "tokens": SMOKE_TOKENS, "tp": 1}
        figure.handover = SimpleNamespace(checkout=tmp_path / "c", run="r", commit="c")  # type: ignore[assignment]
        figure.monitor = NoMonitor()
        figure.begin(package, device)  # type: ignore[arg-type]
        return figure

    timing = begun(suite.Cold).take(package, "cpu")
    assert (timing.samples, timing.value) == ((9000.0, 12_000.0, 9500.0), 9500.0)
    assert (timing.plan.samples, timing.plan.statistic) == (3, "median")
    assert begun(suite.Compilations).take(package, "cpu").value == 4.0
    assert asked == [3], "the second figure was left by the first"
    without = [({**COLD, "kernels": []}, WARM)] * 3
    monkeypatch.setattr(suite, "cold_and_warm", lambda *_, **__: without)
    begun(suite.Cold)
    with pytest.raises(NotImplementedError, match="does not tell Registers"):
        begun(suite.Registers)


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
    with pytest.raises(FreshProcessError, match=r"took more than 0\.01 s"):
        first_calls(tmp_path, ROOT, "cpu", calls, timeout_s=0.01)


# A package that notes what the process is like that imports it, and caches a file. It may
# take long in its first process, or fail in its third.
NOTING = """
import json, os, sys, time
from pathlib import Path

notes = Path(__file__).with_name("notes.jsonl")
before = notes.read_text().splitlines() if notes.exists() else []
if len(before) == 2 and os.environ.get("FAIL"):
    raise ValueError("no third process")
caches = Path(os.environ["TRITON_CACHE_DIR"])
torch = sys.modules.get("torch")
note = {
    "process": os.getpid(),
    "parent": os.getppid(),
    "triton": os.environ["TRITON_CACHE_DIR"],
    "others": [os.environ["XDG_CACHE_HOME"], os.environ["TORCHINDUCTOR_CACHE_DIR"]],
    "cached": sorted(path.name for path in caches.glob("*")),
    "given": os.environ.get("GIVEN"),
    "triton_imported": "triton" in sys.modules,
    "torch_imported": torch is not None,
    "cuda": torch is not None and torch.cuda.is_initialized(),
}
with notes.open("a") as file:
    file.write(json.dumps(note) + "\\n")

def fused_linear_logprob(hidden, weight, target, backend, return_entropy):
    caches.mkdir(exist_ok=True)
    (caches / f"{hidden.shape[0]}-tokens").touch()
    time.sleep(float(os.environ.get("SLEEP", "0")))
"""


@pytest.fixture
def noting(tmp_path: Path) -> Path:
    """A checkout with that package."""
    package = tmp_path / "checkout" / "fused_lmhead"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(NOTING)
    return package.parent


def pairs_of(checkout: Path, **options: Any) -> tuple[list[Any], list[dict[str, Any]]]:
    """Up to three pairs of reports, and what their processes noted."""
    pairs = cold_and_warm(checkout, "cpu", 16, 8, 32, entropy=True, pairs=3, **options)
    notes = (checkout / "fused_lmhead" / "notes.jsonl").read_text().splitlines()
    return pairs, list(map(json.loads, notes))


def test_each_pair_has_caches_of_its_own_and_a_process_each(
    noting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", "/warm")
    pairs, notes = pairs_of(noting, variables={"GIVEN": "this"})
    assert len(pairs) == 3
    assert [[entry["tokens"] for entry in pairs[2][k]["calls"]] for k in (0, 1)] == [
        [16, 17, 32],
        [16, 32],
    ]
    # Forked from one script that had imported torch, and nothing else that caches.
    assert len(notes) == len({note["process"] for note in notes}) == 6
    assert len({note["parent"] for note in notes}) == 1
    assert os.getpid() not in {note["parent"] for note in notes}
    assert all(note["torch_imported"] and not note["triton_imported"] for note in notes)
    assert not any(note["cuda"] for note in notes)
    assert {note["given"] for note in notes} == {"this"}
    cold, warm = notes[::2], notes[1::2]
    assert [note["cached"] for note in cold] == [[], [], []]
    assert all(len(note["cached"]) == 3 for note in warm)
    assert [note["triton"] for note in cold] == [note["triton"] for note in warm]
    folders = {folder for note in cold for folder in [note["triton"], *note["others"]]}
    assert len(folders) == 9
    assert not [folder for folder in folders if Path(folder).exists()], "they are removed"


def test_the_budget_ends_further_pairs_but_never_the_first(noting: Path) -> None:
    pairs, notes = pairs_of(noting, budget_s=0.0)
    assert (len(pairs), len(notes)) == (1, 2)


@pytest.mark.parametrize(
    ("budget_s", "begun"), [(0, "ab"), (19, "ab"), (21, "abcd"), (99, "abcdef")]
)
def test_no_pair_is_begun_out_of_budget(
    monkeypatch: pytest.MonkeyPatch, budget_s: float, begun: str
) -> None:
    clock, forked = [1000.0], []

    def fork(process: str) -> None:
        forked.append(process)
        clock[0] += 10  # seconds, made up

    monkeypatch.setattr(child, "fork", fork)
    monkeypatch.setattr(child, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: False)
    monkeypatch.delitem(sys.modules, "fused_lmhead", raising=False)
    child.main({"groups": ["ab", "cd", "ef"], "budget_s": budget_s})
    assert "".join(forked) == begun


def test_nothing_is_forked_from_a_process_with_a_cuda_context(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(child, "fork", lambda _: pytest.fail("forked"))
    monkeypatch.delitem(sys.modules, "fused_lmhead", raising=False)
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
    with pytest.raises(RuntimeError, match="initialised CUDA"):
        child.main({"groups": ["ab"], "budget_s": 0})


def test_a_later_process_that_fails_fails_the_round(noting: Path) -> None:
    with pytest.raises(FreshProcessError, match="ended with 1: ValueError: no third process"):
        pairs_of(noting, variables={"FAIL": "1"})


def runs(process: int) -> bool:
    """Whether it exists and is no zombie."""
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(sys.platform != "linux", reason="a signal that Linux has")
def test_too_long_a_process_is_killed(noting: Path) -> None:
    calls = [Call(tokens=16, h=8, v=32, entropy=True)]
    with pytest.raises(FreshProcessError, match="took more than 8 s"):
        first_calls(noting / "caches", noting, "cpu", calls, timeout_s=8, variables={"SLEEP": "60"})
    note = json.loads((noting / "fused_lmhead" / "notes.jsonl").read_text())
    ends = time.monotonic() + 10
    while runs(note["process"]) and time.monotonic() < ends:
        time.sleep(0.05)
    assert not runs(note["process"]), "the forked process outlived its script"


def test_a_process_finds_no_cache_that_exists_and_no_suite(tmp_path: Path) -> None:
    outside = {"LMHEAD_BENCH_RUN": "r", "ASV_COMMIT": "c", "TRITON_CACHE_DIR": "/warm", "PATH": "p"}
    assert clean_environ(ROOT, outside) == {"PATH": "p", "PYTHONPATH": str(ROOT)}
    assert outside["TRITON_CACHE_DIR"] == "/warm"
    assert all(Path(folder).parent == tmp_path for folder in cache_variables(tmp_path).values())
    assert "asv_benchmarks" not in Path(child.__file__).read_text().split('"""')[2]


def test_a_triton_that_caches_elsewhere_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    knobs = pytest.importorskip("triton").knobs
    monkeypatch.setenv("TRITON_CACHE_DIR", "/one")
    child.check_cache()  # Triton 3.6 reads the variable anew, although it was imported before.
    monkeypatch.setattr(knobs, "cache", SimpleNamespace(dir="/another"))
    with pytest.raises(RuntimeError, match="caches in /another, not in /one"):
        child.check_cache()


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
    rows = probe.rows_of(PAIRS)
    text = probe.table([rows, rows, rows], [900.0, 1200.0, 1500.0])
    assert "| cold, empty caches | 9.50 s | 9.50 s | 4 + 14 | 9.50 s | 4 + 14 | 13.27 s |" in text
    assert "| same bucket | 6.00 ms |" in text
    assert "median first call over the sweep, 3 shapes | - | 1.20 s |" in text
    assert "14.9 s" in text


@pytest.mark.gpu
def test_cold_processes_compile_and_warm_ones_do_not() -> None:
    pairs = cold_and_warm(ROOT, "gpu", 512, 256, 4096, entropy=True, pairs=2)
    assert len(pairs) == 2
    for cold, warm in pairs:
        assert cold["calls"][0]["compilations"] > 0
        assert cold["calls"][1]["compilations"] == 0
        assert cold["kernels"]
        assert all(kernel["registers"] > 0 for kernel in cold["kernels"])
        assert [entry["compilations"] for entry in warm["calls"]] == [0, 0]
        assert warm["calls"][0]["ms"] < cold["calls"][0]["ms"]
    (one, _), (other, _) = pairs
    assert one["calls"][0]["compilations"] == other["calls"][0]["compilations"]


@pytest.mark.gpu
def test_the_kernels_of_a_cold_process_stay_in_its_caches(tmp_path: Path) -> None:
    first_calls(tmp_path, ROOT, "gpu", [Call(tokens=512, h=256, v=4096, entropy=True)])
    assert any(Path(cache_variables(tmp_path)["TRITON_CACHE_DIR"]).iterdir())
