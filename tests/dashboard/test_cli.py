"""The command line: names, exit codes, one line for a mistake, data on stdout."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dashboard

ROOT = Path(dashboard.__file__).parent.parent


@pytest.fixture
def run(lmhead_perf: Callable[..., tuple[int, str, str]]) -> Callable[..., tuple[int, str, str]]:
    """Runs `lmhead-perf` with arguments in an empty folder: exit code, stdout, stderr."""
    return lmhead_perf


def assert_told(result: tuple[int, str, str], words: str) -> None:
    """Exit 2, nothing on stdout, one line without a traceback."""
    code, out, err = result
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("lmhead-perf: ")
    assert words in err


def test_ingest_twice(run: Any, history: Any) -> None:
    code, out, _ = run("ingest", history.results, "--store", "s.duckdb", "--json")
    first = json.loads(out)
    assert code == 0
    assert first["files"] == {"read": 11, "unchanged": 0, "rejected": 0}
    assert (first["runs"], first["series"], first["measurements"]) == (4, 6, 24)
    assert first["rejected"] == []
    assert first["seconds"] > 0
    second = json.loads(run("ingest", history.results, "--store", "s.duckdb", "--json")[1])
    assert second["files"] == {"read": 0, "unchanged": 11, "rejected": 0}
    assert second["measurements"] == 24


def test_ingest_reports_rejected_files(run: Any, history: Any, tmp_path: Path) -> None:
    shutil.copytree(history.results, tmp_path / "results")
    (tmp_path / "results" / "synthetic" / "bad.json").write_text("{")
    code, out, err = run("ingest", "results", "--store", "s.duckdb", "--json")
    assert code == 2
    document = json.loads(out)
    assert document["runs"] == 4
    (rejected,) = document["rejected"]
    assert rejected["path"] == "synthetic/bad.json"
    assert "not JSON" in rejected["reason"]
    assert "rejected synthetic/bad.json: not JSON" in err
    assert run("ingest", "results", "--store", "s.duckdb")[0] == 2  # as long as it is there
    (tmp_path / "results" / "synthetic" / "bad.json").unlink()
    assert run("ingest", "results", "--store", "s.duckdb")[0] == 0


def test_ingest_tells_of_rejected_lines_by_its_exit_code(
    run: Any, tmp_path: Path, make_history: Callable[..., Any]
) -> None:
    made = make_history(tmp_path / "results")
    with made.rounds_file(3).open("a") as file:
        file.write('{"schema": 1, "mach')
    code, out, err = run("ingest", "results", "--store", "s.duckdb")
    assert code == 2
    assert "18 lines went in" in err
    assert "1 rejected" in out


def test_ingest_finds_the_results_of_asv_and_the_store_of_the_environment(
    run: Any, history: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(history.results, tmp_path / "suite" / "results")
    (tmp_path / "asv.conf.json").write_text(
        '{\n  // where they are\n  "results_dir": "suite/results"\n}'
    )
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    monkeypatch.setenv("LMHEAD_PERF_STORE", str(tmp_path / "env.duckdb"))
    assert run("ingest")[0] == 0
    assert (tmp_path / "env.duckdb").is_file()
    assert run("check")[0] == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("asv.conf.json", '{"results_dir": "results", // where\n "version": 1}'),
        ("asv.conf.json", '{/* ours */ "url": "https://example.com", "results_dir": "results",}'),
        ("asv.conf.jsonc", '{"results_dir": "results"}'),
    ],
)
def test_the_configuration_is_read_as_asv_reads_it(
    run: Any, history: Any, tmp_path: Path, name: str, text: str
) -> None:
    pytest.importorskip("json5")
    shutil.copytree(history.results, tmp_path / "results")
    (tmp_path / name).write_text(text)
    assert run("ingest", "--store", "s.duckdb")[0] == 0


def test_the_default_store(run: Any, history: Any, tmp_path: Path) -> None:
    assert run("ingest", history.results)[0] == 0
    assert (tmp_path / ".asv" / "history.duckdb").is_file()


def test_ingest_without_anything_to_read(run: Any, tmp_path: Path) -> None:
    assert_told(run("ingest", "nowhere"), "no results folder at nowhere")
    assert_told(run("ingest"), "no asv.conf.json here or above")
    (tmp_path / "asv.conf.json").write_text("{")
    assert_told(run("ingest"), "cannot read")
    (tmp_path / "asv.conf.json").write_text('{"results_dir": 5}')
    assert_told(run("ingest"), "has no results_dir")


def test_check_json(run: Any, history: Any, history_store: Path) -> None:
    base, head = history.commits[0], history.commits[3]
    wishes = ("--base", base, "--head", head[:8], "--store", history_store)
    code, out, _ = run("check", *wishes, "--format", "json")
    document = json.loads(out)
    assert code == 0
    assert (document["base"]["commit"], document["head"]["commit"]) == (base, head)
    assert document["summary"] == {"unchanged": 6}
    assert len(document["series"]) == 6
    entry = document["series"][0]
    assert {"benchmark", "params", "machine", "environment", "unit", "base", "head", "ratio",
            "interval", "verdict", "reason"} <= entry.keys()  # fmt: skip
    assert entry["ratio"] == pytest.approx(entry["head"] / entry["base"])
    low, high = entry["interval"]
    assert low < entry["ratio"] < high


@pytest.fixture
def slow_store(tmp_path: Path, make_history: Callable[..., Any], recipe: Any) -> Path:
    """A store whose last commit is 3 % slower in one benchmark."""
    from dashboard.store.ingest import ingest

    factors = {("forward.Forward.track_time", 3): 1.03}
    made = make_history(tmp_path / "results", recipe(factors=factors, noise=0.0002, rounds=5))
    ingest(tmp_path / "slow.duckdb", made.results)
    return tmp_path / "slow.duckdb"


def test_check_exit_codes(run: Any, slow_store: Path) -> None:
    assert run("check", "--store", slow_store)[0] == 1
    assert run("check", "--store", slow_store, "--threshold", "5")[0] == 0
    assert run("check", "--store", slow_store, "--threshold", "5", "--fail-on", "unchanged")[0] == 1


def test_check_uses_the_settings_of_the_project(run: Any, slow_store: Path, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.lmhead-perf]\nminimum_effect = 0.05\n")
    assert run("check", "--store", slow_store)[0] == 0
    assert run("check", "--store", slow_store, "--threshold", "1")[0] == 1
    (tmp_path / "pyproject.toml").write_text("[tool.lmhead-perf]\nminimum_efect = 0.05\n")
    assert_told(run("check", "--store", slow_store), "minimum_efect")


def test_no_threshold_is_for_exact_series_and_the_help_says_so(
    run: Any, slow_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wishes = ("check", "--store", slow_store, "--threshold", "50")
    assert run(*wishes)[0] == 0
    (tmp_path / "pyproject.toml").write_text('[tool.lmhead-perf]\nexact = ["forward.*"]\n')
    code, out, _ = run(*wishes)
    assert code == 1
    assert "compared exactly" in out
    monkeypatch.setenv("COLUMNS", "300")
    for command in ("check", "history"):
        told = run(command, "--help")[1]
        assert "those that the settings call exact: of these any difference counts" in told


@pytest.mark.parametrize("name", ["text", "markdown", "json", "junit"])
def test_check_writes_every_format(
    run: Any, history_store: Path, tmp_path: Path, name: str
) -> None:
    code, out, _ = run("check", "--store", history_store, "--format", name)
    assert code == 0
    assert "unchanged" in out
    code, silent, _ = run("check", "--store", history_store, "--format", name, "--output", "f")
    assert (code, silent) == (0, "")
    assert (tmp_path / "f").read_text("utf-8") == out


def test_check_mistakes_are_one_line(run: Any, history_store: Path, tmp_path: Path) -> None:
    from dashboard.store import open_store

    assert_told(run("check"), "no store at")
    assert_told(run("check", "--store", history_store, "--head", "fffffff"), "'fffffff'")
    assert_told(run("check", "--store", history_store, "--threshold", "0"), "--threshold")
    assert_told(run("check", "--store", history_store, "--threshold", "nan"), "--threshold")
    assert_told(run("check", "--store", history_store, "--output", "no/file"), "no/file")
    assert_told(run("check", "--store", tmp_path), "no store at")
    open_store(tmp_path / "empty.duckdb", read_only=False).close()
    assert_told(run("check", "--store", "empty.duckdb"), "no measured commits")
    (tmp_path / "text").write_text("no database")
    assert_told(run("check", "--store", "text"), "text is not a readable store")


def test_dashboard_and_demo_mistakes_are_one_line(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_told(run("dashboard"), "no store at")
    monkeypatch.setattr("dashboard.demo.find_spec", lambda name: None)
    assert_told(run("demo"), "no measured history is shipped")


def test_hosts(run: Any, history_store: Path) -> None:
    from dashboard.serve import Server, serving

    dashboard_of = ("dashboard", "--store", history_store, "--host")
    assert_told(run(*dashboard_of, ""), "--host is empty")
    assert_told(run(*dashboard_of, "no.such.invalid"), "--host no.such.invalid cannot be listened")
    assert_told(run(*dashboard_of, "x" * 64), "cannot be listened at")
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("no IPv6 here")
    with serving(str(history_store), None, "::1") as server:
        assert isinstance(server, Server)
        assert server.address.startswith("http://[::1]:")
        server.wait_until_served()


def test_a_wrong_option_is_exit_2(run: Any) -> None:
    assert run("check", "--format", "html")[0] == 2
    assert run("nonsense")[0] == 2


def test_it_starts_fast_and_without_the_heavy_ones() -> None:
    program = (
        "import sys; sys.argv = ['lmhead-perf', '--help']\n"
        "from dashboard.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'streamlit', 'pandas', 'scipy', 'duckdb', 'git', 'altair', 'pyarrow', 'torch'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "100"},
    )
    assert time.monotonic() - began < 3  # 0.2 s on an idle machine
    assert done.stderr == "[]\n"
    for command in ("ingest", "check", "dashboard", "demo", "export"):
        assert command in done.stdout
