"""Which commits of a synthetic history change the kernels and lack synthetic rounds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from measured_histories import KERNEL, ON_H200, History, begun

from asv_benchmarks import place, unmeasured
from asv_benchmarks.device import Gpu
from asv_benchmarks.tiers import FORWARD, HOST, TIERS, select, series_of
from asv_benchmarks.unmeasured import contents, main, meaning
from asv_benchmarks.workloads import SMOKE

ROOT = Path(__file__).resolve().parents[2]
CORE = series_of("core")


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    """One of a root commit, which one stands in."""
    made = begun(tmp_path / "repository")
    monkeypatch.chdir(made.folder)
    return made


@pytest.fixture
def listed(history: History, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """The subjects of what is listed for the H200."""

    def call(*arguments: str) -> list[str]:
        assert main([*ON_H200, *arguments]) == 0
        names = {commit: subject for subject, commit in history.commits.items()}
        return [names[commit] for commit in capsys.readouterr().out.split()]

    return call


@pytest.mark.parametrize(
    ("before", "after", "alike"),
    [
        ("a = 1", "a = 1  # one", True),
        ("f(1,\n  2)", "f(1, 2,)", True),
        ("a = 'x' 'y'", 'a = "xy"', True),
        ('"""Module."""\na = 1', "a = 1", True),
        ('def f():\n    """Old."""\n    a()', 'def f():\n    """New."""\n    a()', True),
        ('class A:\n    """Old."""', "class A:\n    pass", True),
        ('async def f():\n    """Old."""\n    a()', "async def f():\n    a()", True),
        ("a = '\\d'", "a = '\\\\d'", True),
        ("a = 1", "a = 1.0", False),
        ("a = 'x'", "a = 'y'", False),
        ("def f():\n    a()\n    'x'", "def f():\n    a()", False),
        ("@g\ndef f(): pass", "def f(): pass", False),
    ],
)
def test_the_meaning_is_without_comments_docstrings_and_layout(
    before: str, after: str, alike: bool
) -> None:
    assert meaning(before.encode()) is not None
    assert (meaning(before.encode()) == meaning(after.encode())) is alike


@pytest.mark.parametrize("text", [b"def (", b"a = \0", b"\xff", b"(" * 5000, b"-" * 200000 + b"1"])
def test_what_is_no_python_means_nothing(text: bytes) -> None:
    assert meaning(text) is None


def test_files_are_read_whole_and_at_once(history: History) -> None:
    texts = {"a.py": "\n\n x y z\n", "b.py": "", "c.py": "no newline"}
    history.commit("three", texts)
    blobs = {name: history.git("rev-parse", f"main:{name}") for name in texts}
    found = contents(history.folder, [*blobs.values(), *blobs.values(), "0" * 40])
    assert found == {blobs[name]: text.encode() for name, text in texts.items()}
    assert contents(history.folder, []) == {}


def test_commits_are_listed_by_what_they_change(
    history: History, listed: Callable[..., list[str]]
) -> None:
    commit = history.commit
    commit("comment", {KERNEL: "# About f.\ndef f(a):\n    a()\n"})
    commit("docstring", {KERNEL: '"""f."""\ndef f(a):\n    """Calls."""\n    a()\n'})
    commit("layout", {KERNEL: '"""f."""\n\n\ndef f(a,\n):\n    """Calls."""\n    a( )\n'})
    commit("code", {KERNEL: '"""f."""\n\n\ndef f(a):\n    """Calls."""\n    a(1)\n'})
    commit("parallel", {"fused_lmhead/parallel/groups.py": "a = 1\n"})
    commit("parallels", {"fused_lmhead/parallels.py": "a = 1\n"})
    commit("table", {"fused_lmhead/tuning/table.json": "{}"})
    commit("table's layout", {"fused_lmhead/tuning/table.json": "{ }"})
    commit("added", {"fused_lmhead/fünf.py": "# Nothing yet.\n"})
    commit("comment and code", {"fused_lmhead/fünf.py": "# 5\n", KERNEL: "def f(a):\n    a(2)\n"})
    commit("removed", {"fused_lmhead/fünf.py": None})
    commit("broken", {KERNEL: "def f(a:\n"})
    commit("comment in what is broken", {KERNEL: "def f(a:  # why?\n"})
    commit("mended", {KERNEL: "def f(a):\n    a(3)\n"})
    history.git("mv", KERNEL, "fused_lmhead/kernels/renamed.py")
    commit("renamed", {})
    commit("elsewhere", {"dashboard/app.py": "a = 1\n"})
    commit("nothing", {})
    assert listed() == [
        *("root", "code", "parallels", "table", "table's layout", "added", "comment and code"),
        *("removed", "broken", "comment in what is broken", "mended", "renamed"),
    ]
    assert listed("fused_lmhead/parallel", "dashboard/app.py") == ["parallel", "elsewhere"]
    assert listed("./fused_lmhead/parallel/") == ["parallel"]
    assert listed("fused_lmhead/tuning", "--range", f"{history.commits['table']}..main") == [
        "table's layout"
    ]
    assert "comment" not in listed(".")
    assert len(listed(".")) == 14
    assert listed("--range", "main..main") == []


def test_a_files_mode_is_no_code_and_a_link_no_file(
    history: History, listed: Callable[..., list[str]]
) -> None:
    (history.folder / KERNEL).chmod(0o755)
    history.commit("mode")
    history.commit("text", {KERNEL: "other.py"})
    (history.folder / KERNEL).unlink()
    (history.folder / KERNEL).symlink_to("other.py")
    history.commit("a link in its stead")
    assert listed() == ["root", "text", "a link in its stead"]


def test_a_merge_is_held_against_its_first_parent(
    history: History, listed: Callable[..., list[str]]
) -> None:
    history.git("checkout", "-q", "-b", "side")
    history.commit("side", {KERNEL: "def f(a):\n    a(1)\n"})
    history.git("checkout", "-q", "-b", "other", "main")
    history.commit("other", {"fused_lmhead/other.py": "a = 1\n"})
    history.git("checkout", "-q", "main")
    history.commit("docs", {"README": "a"})
    history.git("merge", "-q", "--no-ff", "-m", "merge", "side")
    history.note("merge")
    history.git("merge", "-q", "--no-ff", "-s", "ours", "-m", "nothing of other", "other")
    history.note("nothing of other")
    found = listed()
    assert sorted(found) == ["merge", "other", "root", "side"]
    assert found.index("root") < found.index("side") < found.index("merge"), "oldest first"


def test_a_name_that_is_not_utf8_changes_the_kernels_too(
    history: History, listed: Callable[..., list[str]]
) -> None:
    path = history.folder / "fused_lmhead" / os.fsdecode(b"\xff.py")
    for subject, text in (("new", "a = 0"), ("changed", "a = 1"), ("told", "a = 1  # one")):
        path.write_text(f"{text}\n")
        history.commit(subject)
    assert listed() == ["root", "new", "changed"]


def test_settings_of_the_users_git_change_nothing(
    history: History, listed: Callable[..., list[str]]
) -> None:
    for name, value in (("log.showRoot", "false"), ("diff.renames", "copies")):
        history.git("config", name, value)
    history.git("mv", KERNEL, "fused_lmhead/renamed.py")
    history.commit("renamed")
    assert listed() == ["root", "renamed"]


def test_what_is_measured_whole_is_left_out_and_the_rest_counted(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    (whole, part, none) = (
        history.commit(name, {KERNEL: f"a = {number}\n"})
        for number, name in enumerate(("whole", "part", "none of \u2028 it"))
    )
    history.measure(history.commits["root"], CORE[:20], "skipped")
    history.measure(history.commits["root"], CORE[20:], "failed")
    history.measure(whole, CORE)
    history.measure(part, CORE[1:])
    history.measure(part, CORE[:1], version="an earlier one")
    history.measure(none, CORE, machine="h100")
    history.measure(none, CORE, environment="checkout-py3.12-cpu")
    assert main([*ON_H200]) == 0
    out, err = capsys.readouterr()
    assert out == f"{part}\n{none}\n"
    assert err.split("\n") == [
        f"{part[:8]} part: 1 of {len(CORE)} series missing",
        f"{none[:8]} none of \u2028 it: {len(CORE)} of {len(CORE)} series missing",
        "2 of 4 kernel-changing commits lack the tier core; 1 of them in part",
        "",
    ]
    assert main([*ON_H200, "--retry-failed"]) == 0
    out, err = capsys.readouterr()
    assert out.split() == [history.commits["root"], part, none]
    assert f"root: {len(CORE) - 20} of {len(CORE)} series missing" in err
    assert main([*ON_H200, "--rounds", "2", "--tier", "six", KERNEL]) == 0
    out, err = capsys.readouterr()
    assert len(out.split()) == 4
    assert f"4 of 4 commits that change {KERNEL} lack the tier six; 3 of them in part" in err


def test_the_present_versions_rounds_complete_a_commit(
    history: History, listed: Callable[..., list[str]]
) -> None:
    root = history.commits["root"]
    host = [pair for pair in CORE if pair[0] == HOST]
    history.measure(root, [pair for pair in CORE if pair[0] != HOST])
    history.measure(root, host, version="1")
    assert listed() == ["root"]
    history.measure(root, host)
    assert listed() == []


def test_the_device_is_the_environments(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    cpu = f"checkout-py{sys.version_info.major}.{sys.version_info.minor}-cpu"
    assert main(["--machine", "h200", "--environment", cpu]) == 0
    smoke = len(series_of("smoke"))
    err = capsys.readouterr().err
    assert f"root: {smoke} of {smoke} series missing" in err
    assert "lack the tier smoke; 0 of them in part" in err
    assert main(["--machine", "h200", "--environment", cpu, "--tier", "core"]) == 0
    assert "root: 1 of 1 series missing" in capsys.readouterr().err, "the bandwidth's"


@pytest.mark.parametrize(("gpu", "tier"), [(None, "smoke"), (Gpu(0, "GPU-1", "H", "580"), "core")])
def test_this_machine_is_asked_about_unless_told_otherwise(
    gpu: Gpu | None,
    tier: str,
    history: History,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(place, "visible_gpu", lambda: gpu)
    monkeypatch.setattr(unmeasured, "own_machine", lambda: "h200")
    assert main([]) == 0
    assert f"1 of 1 kernel-changing commits lack the tier {tier}" in capsys.readouterr().err


def test_it_needs_neither_torch_nor_a_gpu(history: History, tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    absent.mkdir()
    for name in ("torch", "triton", "pynvml"):
        (absent / f"{name}.py").write_text("raise RuntimeError('not to be imported')\n")
    # The suite is asked of the repository that one stands in, wherever it lies itself.
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(absent), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "asv_benchmarks.unmeasured", *ON_H200],
        cwd=history.folder, env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [history.commits["root"]]


def test_asv_takes_the_list_and_then_nothing_lacks(
    toy: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toy.rename("forward", "Forward")
    toy.commit(None, "without the package")
    toy.sleeping(1, "first")
    toy.commit("# Has no work.\n", "skipped")
    monkeypatch.chdir(toy.folder)
    monkeypatch.setenv("HOME", str(toy.home))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setitem(TIERS, "smoke", (select(SMOKE, FORWARD),))
    assert main(["--machine", "toy-machine"]) == 0
    hashes = capsys.readouterr().out
    assert hashes.split() == toy.commits[1:]
    (toy.home / "hashes").write_text(hashes)
    run = toy.asv(
        *("run", f"HASHFILE:{toy.home / 'hashes'}", "--machine", "toy-machine"),
        *("--attribute", "rounds=1", "--bench", "forward"),
    )
    assert run.returncode in (0, 2), run.stderr
    assert [line["status"] for line in toy.rounds(toy.commits[2])] == ["skipped", "skipped"]
    assert main(["--machine", "toy-machine"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "0 of 2 kernel-changing commits lack the tier smoke; 0 of them in part\n"
