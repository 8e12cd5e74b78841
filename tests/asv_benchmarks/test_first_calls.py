"""The script of the fresh processes: what becomes of it, its children and their children."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fresh_checkouts import TORCH, WORKING, checkout, outliving

from asv_benchmarks import first_calls as child
from asv_benchmarks.fresh import SCRIPT, Call, FreshProcessError, cold_and_warm, first_calls

ROOT = Path(__file__).resolve().parents[2]
CALLS = [Call(tokens=16, h=8, v=32, entropy=True)]

linux = pytest.mark.skipif(sys.platform != "linux", reason="a signal that Linux has")

# Notes its process and the script's, and hangs.
HANGING = """
import os, time
from pathlib import Path

noted = Path(__file__).with_name("processes")
noted.with_suffix(".part").write_text(f"{os.getpid()} {os.getppid()}")
noted.with_suffix(".part").rename(noted)
time.sleep(60)
"""


def report_of(folder: Path, package: str, **options: Any) -> dict[str, Any]:
    """What a process reports that imports a package of that source."""
    made = checkout(folder / "checkout", package, **options.pop("stand_ins", {}))
    return first_calls(folder / "caches", made, "cpu", CALLS, **options)


@pytest.mark.parametrize(
    ("package", "reason"),
    [
        ("import os; os._exit(0)", "failed: it ended with 0 and wrote no report"),
        ("import sys; sys.exit(0)", "failed: it ended with 0 and wrote no report"),
        ("import os; os._exit(3)", "failed: status 3"),
        ("import os; os.kill(os.getpid(), 11)", "was killed by signal 11"),
        (r"raise ValueError('first\nsecond\n   ^')", "failed: second"),
        ("raise ValueError('x' * 5_000_000)", f"failed: ValueError: {'x' * 488}"),
        (r"import os; os.write(2, b'not \xff UTF-8'); os._exit(1)", "failed: not \ufffd UTF-8"),
    ],
    ids=["_exit", "exit", "status", "signal", "lines", "long", "bytes"],
)
def test_a_process_that_fails_says_how_in_one_line(
    tmp_path: Path, package: str, reason: str
) -> None:
    with pytest.raises(FreshProcessError) as caught:
        report_of(tmp_path, package)
    assert str(caught.value) == f"a fresh process {reason}"


def test_a_warm_process_without_a_report_fails_the_round(tmp_path: Path) -> None:
    cached = 'Path(os.environ["TRITON_CACHE_DIR"])'
    package = f"""
import os
from pathlib import Path

if {cached}.exists():
    os._exit(0)

def fused_linear_logprob(*_, **__):
    {cached}.mkdir(exist_ok=True)
"""
    with pytest.raises(FreshProcessError, match="wrote no report"):
        cold_and_warm(checkout(tmp_path, package), "cpu", 16, 8, 32, entropy=True)


def test_a_report_of_an_earlier_process_is_none_of_this_one(tmp_path: Path) -> None:
    assert report_of(tmp_path, WORKING)["calls"]
    with pytest.raises(FreshProcessError, match="wrote no report"):
        report_of(tmp_path, "import os; os._exit(0)")


def test_a_process_may_write_what_is_not_utf_8(tmp_path: Path) -> None:
    assert report_of(tmp_path, rf"import os; os.write(2, b'\xff'){WORKING}")["calls"]


def test_threads_may_still_write_to_the_caches(tmp_path: Path) -> None:
    package = f"""
import os, threading, time
from pathlib import Path

def write_later():
    time.sleep(0.3)
    Path(os.environ["XDG_CACHE_HOME"]).write_text("late")

threading.Thread(target=write_later).start()
{WORKING}"""
    assert report_of(tmp_path, package)["calls"]
    assert (tmp_path / "caches" / "xdg_cache_home").read_text() == "late"


def test_a_process_left_behind_costs_no_time_and_is_killed(tmp_path: Path) -> None:
    package = f"""
import subprocess
from pathlib import Path

left = subprocess.Popen(["sleep", "60"])
Path(__file__).with_name("left").write_text(str(left.pid))
{WORKING}"""
    begun = time.monotonic()
    assert report_of(tmp_path, package)["calls"]
    assert time.monotonic() - begun < 30
    left = int((tmp_path / "checkout" / "fused_lmhead" / "left").read_text())
    assert not outliving([left])


def test_given_variables_come_last(tmp_path: Path) -> None:
    package = f"""
import os
assert os.environ["XDG_CACHE_HOME"] == "/given"
{WORKING}"""
    assert report_of(tmp_path, package, variables={"XDG_CACHE_HOME": "/given"})["calls"]


def test_a_process_checks_where_triton_caches(tmp_path: Path) -> None:
    triton = """
from types import SimpleNamespace
knobs = SimpleNamespace(compilation=None, cache=SimpleNamespace(dir="/another"))
"""
    with pytest.raises(FreshProcessError, match="RuntimeError: Triton caches in /another, not in"):
        report_of(tmp_path, WORKING, stand_ins={"triton": triton})


def test_nothing_is_forked_where_torch_imports_the_package(tmp_path: Path) -> None:
    with pytest.raises(FreshProcessError, match="initialised CUDA or imported fused_lmhead"):
        report_of(tmp_path, WORKING, stand_ins={"torch": f"import fused_lmhead{TORCH}"})


def test_nothing_is_forked_from_a_process_with_a_cuda_context(tmp_path: Path) -> None:
    with pytest.raises(FreshProcessError, match="initialised CUDA or imported fused_lmhead"):
        report_of(tmp_path, WORKING, stand_ins={"torch": TORCH.replace("False", "True")})


@linux
def test_too_long_a_process_is_killed(tmp_path: Path) -> None:
    with pytest.raises(FreshProcessError, match="took more than 4 s"):
        report_of(tmp_path, HANGING, timeout_s=4)
    noted = (tmp_path / "checkout" / "fused_lmhead" / "processes").read_text()
    assert not outliving(map(int, noted.split())), "the forked process outlived its script"


@linux
@pytest.mark.parametrize("killer", [signal.SIGKILL, signal.SIGTERM])
def test_script_and_process_end_with_their_caller(tmp_path: Path, killer: signal.Signals) -> None:
    made = checkout(tmp_path / "checkout", HANGING)
    noted = made / "fused_lmhead" / "processes"
    code = f"""
from pathlib import Path
from asv_benchmarks.fresh import first_calls

first_calls(Path({str(tmp_path / "caches")!r}), Path({str(made)!r}), "cpu", {CALLS!r})
"""
    caller = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    try:
        ends = time.monotonic() + 20
        while not noted.exists() and time.monotonic() < ends:
            time.sleep(0.05)
        processes = [int(process) for process in noted.read_text().split()]
    finally:
        caller.send_signal(killer)
        caller.wait()
    assert len(processes) == 2
    assert not outliving(processes)


@linux
def test_a_script_whose_caller_has_ended_does_nothing(tmp_path: Path) -> None:
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"parent": 1, "groups": [], "budget_s": 0}))
    done = subprocess.run([sys.executable, "-P", SCRIPT, spec], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "process 1, which was to wait for this one, has ended\n"


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
    monkeypatch.setattr(child, "end_with", lambda _: None)
    monkeypatch.setattr(child, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    cuda = SimpleNamespace(is_initialized=lambda: False)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.delitem(sys.modules, "fused_lmhead", raising=False)
    child.main({"parent": 0, "groups": ["ab", "cd", "ef"], "budget_s": budget_s})
    assert "".join(forked) == begun


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
