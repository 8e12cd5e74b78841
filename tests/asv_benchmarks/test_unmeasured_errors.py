"""What of a synthetic history cannot be told, and the one line that says so."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from measured_histories import GPU, KERNEL, ON_H200, History, begun

from asv_benchmarks import place
from asv_benchmarks.device import DeviceError, Gpu
from asv_benchmarks.place import Place
from asv_benchmarks.unmeasured import main


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    """One of a root commit, which one stands in."""
    made = begun(tmp_path / "repository")
    monkeypatch.chdir(made.folder)
    return made


def error(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that was said."""
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.split("\n")[:-1]
    assert line.startswith("unmeasured: ")
    return line.removeprefix("unmeasured: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--range", "nope"], "bad revision 'nope'"),
        (["--range=--all"], "bad revision '--all'"),
        (["--range", "main..nope"], "bad revision 'main..nope'"),
        (["fused_lmhead/nope"], "no commit in 'main' touches 'fused_lmhead/nope'"),
        ([KERNEL, "fused_lmhead/kern"], "no commit in 'main' touches 'fused_lmhead/kern'"),
        (["/fused_lmhead"], "no commit in 'main' touches '/fused_lmhead'"),
        ([""], "no commit in 'main' touches ''"),
        ([KERNEL, "--range", "main..main"], f"no commit in 'main..main' touches '{KERNEL}'"),
        (["--machine", "h20O"], "results has no machine 'h20O', and asv does not know the machine"),
        (["--environment", "virtualenv"], "'virtualenv' ends neither in -gpu nor in -cpu"),
        (
            ["--environment", "checkout-py2.7-gpu"],
            "has no rounds of 'h200' in 'checkout-py2.7-gpu'",
        ),
        (["--tier", "six", "--environment", "checkout-py3.12-cpu"], "tier 'six' runs on a cpu"),
    ],
)
def test_what_cannot_be_told_is_said_in_one_line(
    arguments: list[str], said: str, history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    root = history.commits["root"]
    history.measure(root, [], environment="checkout-py3.12-cpu")
    history.measure(root, [], environment="checkout-py2.7-gpu", machine="h100")
    assert main([*ON_H200, *arguments]) == 1
    assert said in error(capsys)


def test_results_that_are_none_are_named(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    root = history.commits["root"]
    history.measure(root, [])
    rounds = Place(history.folder / "results", root, GPU, "h200").rounds
    rounds.write_text("[]\n")
    assert main([*ON_H200]) == 1
    assert f"line 1 of {rounds} is no round" in error(capsys)
    rounds.unlink()
    rounds.mkdir()
    assert main([*ON_H200]) == 1
    assert str(rounds) in error(capsys)


@pytest.mark.parametrize("text", ["{", "3", "[]", '{"version": 1, "repo": ".", "results_dir": 3}'])
def test_a_configuration_that_is_none_is_named(
    text: str, history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = history.folder / "asv.conf.json"
    conf.write_text(text)
    assert main([*ON_H200]) == 1
    assert str(conf) in error(capsys)
    conf.unlink()
    assert main([*ON_H200]) == 1
    assert "asv.conf" in error(capsys)


def test_a_folder_without_git_and_a_driver_without_nvml_are_named(
    history: History, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(history.folder / ".git")
    assert main([*ON_H200]) == 1
    assert "not a git repository" in error(capsys)

    def broken() -> Gpu | None:
        raise DeviceError("NVML does not start")

    monkeypatch.setattr(place, "visible_gpu", broken)
    assert main(["--machine", "h200"]) == 1
    assert error(capsys) == "NVML does not start"


@pytest.mark.parametrize("option", [["--tier", "nope"], ["--rounds", "0"], ["--nope"]])
def test_options_that_are_none_are_the_parsers_errors(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(option)
    assert ended.value.code == 2
    assert option[-1] in capsys.readouterr().err
