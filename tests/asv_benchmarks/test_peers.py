"""The comparison with other projects as a command, with fake peers on the CPU."""

from __future__ import annotations

import argparse
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("torch")

from fake_peers import fake, nll, right

from asv_benchmarks import peers as peers_module
from asv_benchmarks.peer_calls import PEERS, PRODUCT, backward, forward
from asv_benchmarks.peers import chosen_peers, main, shape
from asv_benchmarks.workloads import SMOKE

SMALL = "smoke:2048:1"


def test_the_installed_peers_are_timed_and_the_others_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")

    def breaks(inputs: Any, device: Any) -> Any:
        raise ImportError("no such kernel")

    peers = [
        PRODUCT,
        fake("right", right),
        fake("absent", right, needs=("no_such_package",)),
        fake("broken", breaks),
        fake("wrong", lambda inputs, device: forward(lambda *t: nll(*t) + 1, inputs)),
        fake(
            "gradients",
            lambda inputs, device: backward(nll, inputs, -inputs.upstream),
            "forward + backward",
        ),
    ]
    assert main(["--shapes", SMALL, "--commit", "abc"], peers) == 0
    printed = capsys.readouterr().out
    (header,) = [line for line in printed.splitlines() if "| right |" in line]
    assert header == "| M, H, V | cuBLAS product, ms | right | broken | wrong |"
    (cells,) = [line for line in printed.splitlines() if "no such kernel |" in line]
    ratio, broken, wrong = cells.strip("| ").split(" | ")[2:]
    assert float(ratio) > 0
    assert broken == "ImportError: no such kernel"
    assert wrong == "MismatchError: log-prob differs from ours by 1"
    assert "| M, H, V | cuBLAS product, ms | gradients |" in printed
    assert "Commit: abc" in printed
    assert printed.strip().endswith("not installed: no_such_package.")
    assert "absent" not in printed


def test_what_does_not_fit_the_time_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    peers = [PRODUCT, fake("right", right)]
    assert main(["--shapes", SMALL, "smoke-odd:2048:1", "--seconds", "1e-9"], peers) == 1
    assert "Not measured: --shapes smoke:2048:1 smoke-odd:2048:1" in capsys.readouterr().out


def test_a_broken_device_keeps_the_rows_before_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    real = peers_module.make_inputs

    def inputs_of(workload: Any, device: Any) -> Any:
        if workload == SMOKE[1]:
            raise RuntimeError("CUDA error: an illegal memory access")
        return real(workload, device)

    monkeypatch.setattr(peers_module, "make_inputs", inputs_of)
    assert main(["--shapes", SMALL, "smoke-odd:2048:1"], [PRODUCT, fake("right", right)]) == 0
    printed = capsys.readouterr()
    assert "| 2048, 64, 1000 |" in printed.out
    assert "Not measured: --shapes smoke-odd:2048:1" in printed.out
    assert "illegal memory access" in printed.err


@pytest.mark.gpu
def test_what_waits_for_the_gpu_is_timed_by_events(capsys: pytest.CaptureFixture[str]) -> None:
    def waits(inputs: Any, device: Any) -> Any:
        def function(*tensors: Any) -> Any:
            loss = nll(*tensors)
            return loss + 0 * loss.sum().item()

        return forward(function, inputs)

    peers = [
        PRODUCT,
        fake("right", right),
        fake("waits", waits),
        *(peer for peer in PEERS if peer.name.startswith("ours")),
    ]
    assert main(["--shapes", SMALL], peers) == 0
    printed = capsys.readouterr().out
    assert "| timed by |  | graph | events | graph |" in printed
    assert "| timed by |  | graph | graph |" in printed
    assert "Not timed" not in printed


def test_peers_are_chosen_by_parts_of_their_names() -> None:
    assert [peer.name for peer in chosen_peers(["cce"])] == [PRODUCT.name, "CCE", "CCE"]
    assert chosen_peers(None) == list(PEERS)
    assert len({(peer.part, peer.name) for peer in PEERS}) == len(PEERS)


@pytest.mark.parametrize("text", ["nobody:1:1", "smoke:1", "smoke:x:1", "smoke:0:1", "smoke:8:3"])
def test_a_shape_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=text):
        shape(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shapes", "nemotron-super:8192:1"], "takes a GPU"),
        (["--peers", "nobody"], "no peer that is installed"),
        (["--rounds", "0"], "--rounds"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(SystemExit):
        main(arguments)
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_importing_the_comparison_imports_nothing_that_is_compared() -> None:
    # asv imports every module of the suite before it knows the commit.
    compared = {"fused_lmhead", "liger_kernel", "cutlass", "cut_cross_entropy"}
    code = "import sys, asv_benchmarks.peers; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert "asv_benchmarks" in loaded
    assert loaded.isdisjoint(compared)


def test_a_tree_with_new_results_is_still_the_commits(toy) -> None:
    toy.sleeping(1, "first")
    results = toy.folder / "asv_benchmarks" / "results"
    results.mkdir()
    (results / "commits.jsonl").write_text("{}\n")
    toy.git("add", "-f", "asv_benchmarks/results")
    toy.git("commit", "-q", "-m", "results")
    commit = toy.git("rev-parse", "--short=12", "HEAD")
    (results / "commits.jsonl").write_text("{}\n{}\n")
    assert peers_module.commit_of(toy.folder) == commit
    (toy.folder / "asv_benchmarks" / "toy.py").write_text("changed = True\n")
    assert peers_module.commit_of(toy.folder) == f"{commit} with changes"
