"""Fresh processes with fresh caches: what they are given, and how they come in pairs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from fresh_checkouts import checkout

from asv_benchmarks import first_calls as child
from asv_benchmarks.fresh import (
    CACHES,
    LAST_BYTES,
    PAIRS,
    Call,
    FreshProcessError,
    cache_variables,
    clean_environ,
    cold_and_warm,
    failure,
    first_calls,
    last_words,
)
from asv_benchmarks.records import LONGEST_REASON

ROOT = Path(__file__).resolve().parents[2]

# Notes what the process is like that imports it, and caches a file. It may fail in its third.
NOTING = """
import json, os, sys
from pathlib import Path

notes = Path(__file__).with_name("notes.jsonl")
before = notes.read_text().splitlines() if notes.exists() else []
if len(before) == 2 and os.environ.get("FAIL"):
    raise ValueError("no third process")
caches = Path(os.environ["TRITON_CACHE_DIR"])
others = ("XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR", "CUDA_CACHE_PATH")
torch = sys.modules.get("torch")
note = {
    "process": os.getpid(),
    "parent": os.getppid(),
    "triton": os.environ["TRITON_CACHE_DIR"],
    "others": [os.environ[name] for name in others],
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
"""


def pairs_of(made: Path, **options: Any) -> tuple[list[Any], list[dict[str, Any]]]:
    """The pairs of reports, and what their processes noted."""
    pairs = cold_and_warm(made, "cpu", 16, 8, 32, entropy=True, **options)
    notes = (made / "fused_lmhead" / "notes.jsonl").read_text().splitlines()
    return pairs, list(map(json.loads, notes))


def test_a_fresh_process_measures_the_package_it_is_given(tmp_path: Path) -> None:
    pytest.importorskip("torch")
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


def test_each_pair_has_caches_of_its_own_and_a_process_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("TRITON_CACHE_DIR", "/warm")
    made = checkout(tmp_path, NOTING, torch=None)
    pairs, notes = pairs_of(made, variables={"GIVEN": "this"})
    assert len(pairs) == PAIRS == 3
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
    assert len(folders) == 3 * len(CACHES)
    assert not [folder for folder in folders if Path(folder).exists()], "they are removed"


def test_the_budget_ends_further_pairs_but_never_the_first(tmp_path: Path) -> None:
    pairs, notes = pairs_of(checkout(tmp_path, NOTING), budget_s=0.0)
    assert (len(pairs), len(notes)) == (1, 2)


def test_a_later_process_that_fails_fails_the_round(tmp_path: Path) -> None:
    with pytest.raises(FreshProcessError, match="failed: ValueError: no third process"):
        pairs_of(checkout(tmp_path, NOTING), variables={"FAIL": "1"})


def test_a_process_finds_no_cache_that_exists_and_no_suite(tmp_path: Path) -> None:
    caches = ("TRITON_HOME", "TRITON_OVERRIDE_DIR", "PYTORCH_KERNEL_CACHE_PATH", *CACHES)
    ways = ("TRITON_CACHE_MANAGER", "TRITON_REMOTE_CACHE_BACKEND", "TRITON_KERNEL_OVERRIDE")
    further = ("TRITON_ALWAYS_COMPILE", "FUSED_LMHEAD_TUNING", "LMHEAD_BENCH_RUN", "ASV_COMMIT")
    kept = ("PATH", "TRITON_PTXAS_PATH", "TRITON_LIBCUDA_PATH", "TRITON_INTERPRET")
    outside = dict.fromkeys((*caches, *ways, *further, *kept, "PYTHONPATH"), "/warm")
    before = dict(outside)
    assert clean_environ(ROOT, outside) == dict.fromkeys(kept, "/warm") | {"PYTHONPATH": str(ROOT)}
    assert outside == before
    assert all(Path(folder).parent == tmp_path for folder in cache_variables(tmp_path).values())
    assert {"TRITON_CACHE_DIR", "CUDA_CACHE_PATH"} < set(cache_variables(tmp_path))
    assert "asv_benchmarks" not in Path(child.__file__).read_text().split('"""')[2]


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("", ""),
        (" \n\t\n", ""),
        ("Traceback\n  File x\nValueError: one\n\n", "ValueError: one"),
        ("SyntaxError: first\nsecond\n   ^\n", "second"),
        ("  alone\n", "alone"),
        ("x" * 9000, "x" * LONGEST_REASON),
        ("early\n" + "-" * LAST_BYTES, "-" * LONGEST_REASON),
    ],
    ids=["empty", "blank", "traceback", "lines", "indented", "long", "huge"],
)
def test_the_last_words_are_one_short_line(tmp_path: Path, written: str, words: str) -> None:
    stderr = tmp_path / "stderr.txt"
    stderr.write_text(written)
    assert last_words(stderr) == words


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (1, "failed: words"),
        (128 + 11, "was killed by signal 11"),  # a process
        (-9, "was killed by signal 9"),  # the script itself
        (255, "failed: words"),  # exit(-1): there is no signal 127
    ],
)
def test_a_status_is_a_signals_where_there_is_such_a_signal(
    tmp_path: Path, status: int, said: str
) -> None:
    stderr = tmp_path / "stderr.txt"
    stderr.write_text("words\n")
    assert failure(status, stderr) == f"a fresh process {said}"


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
