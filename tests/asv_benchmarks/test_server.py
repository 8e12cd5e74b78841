"""The fork server that all commits share, under asv itself, on a synthetic repository."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from asv_benchmarks.asv_hooks import Invocation

SMOKE = r"\('smoke', 2048, 1\)"
ALL = ("run", "ALL", "--interleave-rounds", "--bench", SMOKE, "--launch-method", "forkserver")

# A suite module that notes who imports it: one line a server, as a child only inherits it.
NOTING = """
import os
from pathlib import Path

with Path({file!r}).open("a") as file:
    file.write(f"{{os.getpid()}}\\n")
"""


def servers(toy: Any, tmp_path: Path) -> Path:
    """Have the suite note the processes that import it, but for asv's own discovery."""
    noted = tmp_path / "servers"
    noting = NOTING.format(file=str(noted))
    only = 'if os.environ.get("LMHEAD_BENCH_COMMIT") and "discover" not in sys.argv'
    text = noting.replace("with Path", f"import sys\n{only}:\n  with Path").replace(
        "    file.write", "      file.write"
    )
    family = toy.folder / "asv_benchmarks" / "toy.py"
    family.write_text(text + family.read_text())
    return noted


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


def test_all_commits_and_rounds_share_one_and_each_is_measured_itself(toy, tmp_path: Path) -> None:
    for milliseconds in (1, 30, 1):
        toy.sleeping(milliseconds, f"{milliseconds} ms")
    noted = servers(toy, tmp_path)
    run = toy.asv(*ALL)
    assert run.returncode == 0, run.stdout + run.stderr
    (server,) = set(map(int, noted.read_text().split()))
    assert not alive(server)
    order = []
    for commit in toy.commits:
        rounds = toy.rounds(commit)
        assert {line["commit"] for line in rounds} == {commit}
        assert {line["status"] for line in rounds} == {"ok"}
        assert toy.pooled(commit) == toy.result(commit)["samples"]
        order += [(line["started_at"], line["round"]) for line in rounds]
    assert [number for _, number in sorted(order)] == [0, 0, 0, 1, 1, 1]
    first, second, third = (statistics.median(toy.result(c)["samples"]) for c in toy.commits)
    assert max(first, third) < 15 < 30 <= second


# A suite module that takes a while, and notes when its process began to import it and ended.
SLOW = """
import sys, time
from pathlib import Path

began = time.time()
time.sleep(1 if "discover" in sys.argv else 4)  # the server is awaited, not begun again
with Path({file!r}).open("a") as file:
    file.write(f"{{'discover' in sys.argv}} {{began}} {{time.time()}}\\n")
"""


def imports(toy: Any, tmp_path: Path) -> Path:
    """Have the suite note by whom it is imported, and when."""
    noted = tmp_path / "imports"
    family = toy.folder / "asv_benchmarks" / "toy.py"
    family.write_text(SLOW.format(file=str(noted)) + family.read_text())
    return noted


def test_the_suite_is_imported_while_asv_discovers_it(toy, tmp_path: Path) -> None:
    toy.sleeping(1, "only")
    noted = imports(toy, tmp_path)
    run = toy.asv(*ALL)
    assert run.returncode == 0, run.stdout + run.stderr
    lines = [line.split() for line in noted.read_text().splitlines()]
    assert sorted(who for who, *_ in lines) == ["False", "True"]
    assert max(float(began) for _, began, _ in lines) < min(float(ended) for *_, ended in lines)


def test_no_server_is_begun_that_nobody_needs(toy, tmp_path: Path) -> None:
    toy.sleeping(1, "only")
    noted = servers(toy, tmp_path)
    run = toy.asv(*ALL[:-1], "spawn", "--attribute", "rounds=1")
    assert run.returncode == 0, run.stdout + run.stderr
    assert len(noted.read_text().split()) == 1, "the one benchmark's own process"
    found = toy.asv("run", "--bench", "just-discover")
    assert found.returncode == 0, found.stdout + found.stderr
    assert len(noted.read_text().split()) == 1
    checked = toy.asv("check")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert len(noted.read_text().split()) == 2, "asv's own, which checks"


@pytest.mark.parametrize(
    ("command", "forks"),
    [
        ("run HEAD^!", True),
        ("--config other.json continuous a b", True),
        ("run --launch-method spawn", False),
        ("run --launch-method=spawn", False),
        ("find a..b forward", False),
        ("find --launch-method forkserver a..b forward", True),
        ("profile forward", False),
        ("update", False),
    ],
)
def test_who_uses_the_fork_server_of_the_configuration(command: str, forks: bool) -> None:
    conf = SimpleNamespace(launch_method="forkserver")
    assert Invocation(command.split()).forks(conf) is forks
    assert not Invocation(["run"]).forks(SimpleNamespace(launch_method=None))


@pytest.mark.parametrize("lingers_s", [0.0, 0.2])
def test_a_server_that_cannot_be_begun_early_is_tried_again(
    lingers_s: float, toy, tmp_path: Path
) -> None:
    """A suite that breaks whoever imports it first but asv's discovery, once. Its socket is
    closed before the process has ended."""
    toy.sleeping(1, "only")
    flag = tmp_path / "flag"
    family = toy.folder / "asv_benchmarks" / "toy.py"
    breaking = (
        "import os, sys\nfrom pathlib import Path\n"
        f"if 'discover' not in sys.argv and not Path({str(flag)!r}).exists():\n"
        f"    Path({str(flag)!r}).touch()\n    os.closerange(3, 256)\n"
        f"    import time\n    time.sleep({lingers_s})\n    os._exit(7)\n"
    )
    family.write_text(breaking + family.read_text())
    run = toy.asv(*ALL)
    assert flag.exists()
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_package_that_the_suite_imports_is_never_taken_for_a_commit(toy) -> None:
    family = toy.folder / "asv_benchmarks" / "toy.py"
    early = 'import os\nif os.environ.get("LMHEAD_BENCH_COMMIT"):\n    import fused_lmhead\n'
    family.write_text(early + family.read_text())
    for milliseconds in (1, 30):
        toy.sleeping(milliseconds, f"{milliseconds} ms")
    run = toy.asv(*ALL)
    assert run.returncode == 2, run.stdout + run.stderr
    for commit in toy.commits:
        for line in toy.rounds(commit):
            assert line["samples"] == []
            assert "was imported with the suite" in line["reason"]


def interrupted(toy: Any, running: Path, times: int = 1) -> None:
    """Start a run, interrupt it once the file ``running`` says something, await its end."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("ASV", "LMHEAD"))}
    environ |= {"HOME": str(toy.home), "CUDA_VISIBLE_DEVICES": ""}
    environ.pop("PYTHONPATH", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "asv", *ALL],
        cwd=toy.folder,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    patience = time.monotonic() + 60
    while not (running.exists() and running.read_text()) and time.monotonic() < patience:
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    for _ in range(times - 1):
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
    process.wait(timeout=30)
    time.sleep(0.2)


# As one that waits for a GPU in C: Python does not see the interrupt.
DEAF = """
import os, signal, time
from pathlib import Path


def work():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Path({file!r}).write_text(str(os.getpid()))
    time.sleep(15)
"""


# A server whose import takes longer than anybody waits.
ENDLESS = """
import os, sys, time
from pathlib import Path

if "discover" not in sys.argv:
    Path({file!r}).write_text(str(os.getpid()))
    time.sleep(60)
"""


def test_a_run_interrupted_at_its_discovery_does_not_wait_for_the_server(
    toy, tmp_path: Path
) -> None:
    toy.sleeping(1, "only")
    noted = tmp_path / "importing"
    family = toy.folder / "asv_benchmarks" / "toy.py"
    family.write_text(ENDLESS.format(file=str(noted)) + family.read_text())
    began = time.monotonic()
    interrupted(toy, noted)
    assert time.monotonic() - began < 30
    assert not alive(int(noted.read_text()))


@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupted_run_leaves_none_behind(times: int, toy, tmp_path: Path) -> None:
    noted, working = servers(toy, tmp_path), tmp_path / "working"
    toy.commit(DEAF.format(file=str(working)), "deaf")
    interrupted(toy, working, times)
    left = [int(pid) for file in (noted, working) for pid in file.read_text().split()]
    assert len(set(left)) == 2
    assert not any(map(alive, left))


# asv, but results cannot be saved.
FAILING = """
import sys
from asv import main, results

def save(*_):
    raise OSError("the disk is full")

results.Results.save = save
sys.argv[0] = "asv"
main.main()
"""


def test_a_run_that_breaks_leaves_none_behind(toy, tmp_path: Path) -> None:
    noted = servers(toy, tmp_path)
    toy.sleeping(1, "only")
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("ASV", "LMHEAD"))}
    environ |= {"HOME": str(toy.home), "CUDA_VISIBLE_DEVICES": ""}
    environ.pop("PYTHONPATH", None)
    command = [sys.executable, "-c", FAILING, *ALL]
    run = subprocess.run(
        command, cwd=toy.folder, env=environ, capture_output=True, text=True, check=False
    )
    assert "the disk is full" in run.stderr
    (server,) = map(int, noted.read_text().split())
    assert not alive(server)


KILLING = """
import os, signal, time
from pathlib import Path


def work():
    file = Path({file!r})
    if not file.exists():
        file.write_text(str(os.getpid()))
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(15)
"""


def test_a_server_that_was_killed_is_replaced(toy, tmp_path: Path) -> None:
    noted, killer = servers(toy, tmp_path), tmp_path / "killer"
    killing = toy.commit(KILLING.format(file=str(killer)), "kills its server, once")
    good = toy.sleeping(1, "good")
    run = toy.asv(*ALL, "--show-stderr")
    assert run.returncode == 2, run.stdout + run.stderr
    assert len(noted.read_text().split()) == 2
    assert not alive(int(killer.read_text()))
    # The first round was lost with the server.
    assert [line["status"] for line in toy.rounds(killing)] == ["ok"]
    assert [line["status"] for line in toy.rounds(good)] == ["ok", "ok"]


def test_bytecode_of_another_commit_is_never_run(toy, tmp_path: Path) -> None:
    """Two sources of one size and time, told to keep bytecode where git does not clean."""
    hook = toy.home / "hooks" / "post-checkout"
    hook.parent.mkdir()
    hook.write_text("#!/bin/sh\ntouch -d @1600000000 fused_lmhead/__init__.py\n")
    hook.chmod(0o755)
    (toy.home / ".gitconfig").write_text(f"[core]\n\thooksPath = {hook.parent}\n")
    first, second = toy.sleeping(1.5, "first"), toy.sleeping(31.5, "second")
    sizes = {len(toy.git("show", f"{c}:fused_lmhead/__init__.py")) for c in toy.commits}
    assert len(sizes) == 1
    outside = {"PYTHONPYCACHEPREFIX": str(tmp_path / "outside"), "PYTHONDONTWRITEBYTECODE": ""}
    run = toy.asv(*ALL, **outside)
    assert run.returncode == 0, run.stdout + run.stderr
    written = toy.folder.glob(".asv/env/*/project/fused_lmhead/__pycache__/*.pyc")
    assert {path.name.split(".")[0] for path in written} == {"__init__"}
    assert max(toy.pooled(first)) < 15 < 30 < min(toy.pooled(second))
