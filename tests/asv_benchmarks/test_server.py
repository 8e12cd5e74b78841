"""The fork server that all commits share, under asv itself, on a synthetic repository."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

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


def test_an_interrupted_run_leaves_none_behind(toy, tmp_path: Path) -> None:
    toy.sleeping(4000, "long")
    noted = servers(toy, tmp_path)
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("ASV", "LMHEAD"))}
    environ |= {"HOME": str(toy.home), "CUDA_VISIBLE_DEVICES": ""}
    environ.pop("PYTHONPATH", None)
    process = subprocess.Popen(
        ["python", "-m", "asv", *ALL],
        cwd=toy.folder,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    patience = time.monotonic() + 60
    while not noted.exists() and time.monotonic() < patience:
        time.sleep(0.05)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    process.wait(timeout=30)
    time.sleep(0.2)
    assert not any(map(alive, map(int, noted.read_text().split())))
