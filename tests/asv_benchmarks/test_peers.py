"""The comparison with other projects: its table, its turns, and fake peers on the CPU."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from asv_benchmarks import peers as peers_module  # noqa: E402
from asv_benchmarks.conditions import NoMonitor  # noqa: E402
from asv_benchmarks.inputs import make_inputs  # noqa: E402
from asv_benchmarks.nominal import Work  # noqa: E402
from asv_benchmarks.peer_calls import PEERS, PRODUCT, Peer, backward, forward  # noqa: E402
from asv_benchmarks.peer_table import Cell, Column, Row, table  # noqa: E402
from asv_benchmarks.peer_turns import Entrant, check, enter, take_turns, truth_of  # noqa: E402
from asv_benchmarks.peers import chosen_peers, main, shape  # noqa: E402
from asv_benchmarks.timing import MismatchError, Plan  # noqa: E402
from asv_benchmarks.workloads import SMOKE  # noqa: E402

FAST = Column("forward", "fast", "log-prob")
SLOW = Column("forward + backward", "slow")
SMALL = "smoke:2048:1"


def nll(hidden: Any, weight: Any, target: Any) -> Any:
    """What a right peer computes."""
    return torch.nn.functional.cross_entropy((hidden @ weight.T).float(), target, reduction="none")


def fake(name: str, prepare: Callable[..., Any], part: Any = "forward", **changes: Any) -> Peer:
    return Peer(name, part, Work(), changes.pop("first", "nll"), prepare, **changes)


def right(inputs: Any, device: Any) -> Any:
    return forward(nll, inputs)


def row(shape: str, fast: Cell, slow: Cell, unit: float | None = 2.0) -> Row:
    return Row(shape, unit, {FAST: fast, SLOW: slow})


def test_ratios_are_to_the_product_and_summed_up_below() -> None:
    rows = [
        row("1, 2, 3", Cell(2.0, "graph", 1e-3), Cell(8.0, "events")),
        row("4, 5, 6", Cell(8.0, "graph", 2e-3), Cell(9.0, "graph"), unit=4.0),
    ]
    forwards, backwards = table(rows, [FAST, SLOW], "product").split("\n\nforward + backward")
    assert forwards.splitlines()[2:] == [
        "| M, H, V | product, ms | fast |",
        "| --- | --- | --- |",
        "| 1, 2, 3 | 2.000 | 1.000 |",
        "| 4, 5, 6 | 4.000 | 2.000 |",
        "| geomean |  | 1.414 |",
        "| worst |  | 2.000 |",
        "| Δ log-prob |  | 2.0e-03 |",
        "| timed by |  | graph |",
        "",
        "fast: log-prob.",
    ]
    assert "| worst |  | 4.000 |" in backwards
    assert "| timed by |  | events, graph |" in backwards


def test_a_failure_is_a_cell_and_is_told_in_full_below() -> None:
    reason = "RuntimeError: a | b\n" + "long " * 30 + "end"
    rows = [
        row("1, 2, 3", Cell(3.0, "graph"), Cell(reason=reason)),
        row("4, 5, 6", Cell(reason="OutOfMemoryError"), Cell(reason=reason)),
    ]
    found = table(rows, [FAST, SLOW], "product").splitlines()
    assert "| 4, 5, 6 | 2.000 | OutOfMemoryError |" in found
    assert "| geomean |  | 1.500 (1 of 2) |" in found
    (cell,) = [line for line in found if line.startswith("| 1, 2, 3 |") and "RuntimeError" in line]
    assert "a \\| b long" in cell
    assert cell.endswith("… |")
    assert sum("long end" in line for line in found) == 2
    assert found.count("| geomean |  | - |") == 1


def test_a_shape_without_the_product_has_no_ratios() -> None:
    assert "| 1, 2, 3 | - | - |" in table([row("1, 2, 3", Cell(3.0), Cell(), None)], [FAST], "p")


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


def test_all_of_ours_agree_with_the_peer_that_plain_torch_is() -> None:
    inputs = make_inputs(SMOKE[0], "cpu")
    truth = truth_of(inputs, "cpu", with_gradients=True)
    ours = [peer for peer in PEERS if peer.name.startswith("ours")]
    assert len(ours) == 3
    plain = fake(
        "plain",
        lambda inputs, device: backward(nll, inputs, -inputs.upstream),
        "forward + backward",
    )
    mean = fake(
        "mean",
        lambda inputs, device: backward(lambda *t: nll(*t).mean(), inputs, None),
        "forward + backward",
        first="mean nll",
    )
    for peer in (*ours, plain, mean, fake("forward", right)):
        difference = check(peer, peer.prepare(inputs, "cpu")(), truth)
        assert difference is not None
        assert difference < 1e-5
    assert check(PRODUCT, PRODUCT.prepare(inputs, "cpu")(), truth) is None


def test_values_that_differ_are_not_timed() -> None:
    inputs = make_inputs(SMOKE[0], "cpu")
    truth = truth_of(inputs, "cpu", with_gradients=True)
    assert truth is not None
    both, zeros = "forward + backward", torch.zeros_like
    hidden, weight = truth.gradients
    with pytest.raises(MismatchError, match="log-prob"):
        check(fake("sign", right), (truth.logprob,), truth)
    with pytest.raises(MismatchError, match="log-prob"):
        check(fake("nan", right), (truth.logprob * float("nan"),), truth)
    with pytest.raises(MismatchError, match="entropy"):
        check(fake("entropy", right), (-truth.logprob, truth.entropy + 1), truth)
    with pytest.raises(MismatchError, match="gradient of hidden"):
        check(fake("hidden", right, both), (-truth.logprob, zeros(hidden), weight), truth)
    with pytest.raises(MismatchError, match="gradient of weight"):
        check(fake("weight", right, both), (-truth.logprob, hidden, weight * 1.2), truth)


def test_without_ours_the_others_go_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = make_inputs(SMOKE[0], "cpu")

    def fails(*arguments: Any) -> Any:
        raise RuntimeError("no kernel")

    monkeypatch.setattr("asv_benchmarks.peer_turns.ours_forward", fails)
    truth = truth_of(inputs, "cpu", with_gradients=False)
    assert truth is None
    entrant = enter(fake("right", right), SMOKE[0], inputs, truth, "cpu")
    assert (entrant.reason, entrant.difference) == ("", None)
    assert entrant.subject is not None


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **contents: Any) -> None:
    module = types.ModuleType(name)
    for key, value in contents.items():
        setattr(module, key, value)
    monkeypatch.setitem(sys.modules, name, module)


def test_other_projects_are_called_by_their_signatures(monkeypatch: pytest.MonkeyPatch) -> None:
    # Stand-ins with the parameters of liger-kernel 0.8.5 and cut-cross-entropy 25.1.
    class Cute:
        @staticmethod
        def apply(
            _input: Any,
            weight: Any,
            target: Any,
            temperature: float = 1.0,
            ignore_index: int = -100,
            m_tiles_per_cluster: int = 1,
            return_entropy: bool = False,
            selected_token_ids: Any = None,
        ) -> Any:
            assert selected_token_ids is None
            assert (temperature, ignore_index, m_tiles_per_cluster) == (1.0, -100, 1)
            assert os.environ["LIGER_SCALED_CE_SM90_VALIDATE_TARGETS"] == "0"
            logp = torch.log_softmax(_input @ weight.T, -1)
            entropy = -(logp.exp() * logp).sum(-1).bfloat16()
            return (
                (nll(_input, weight, target), entropy)
                if return_entropy
                else nll(_input, weight, target)
            )

    class Triton:
        @staticmethod
        def apply(
            _input: Any,
            weight: Any,
            target: Any,
            bias: Any = None,
            ce_weight: Any = None,
            ignore_index: int = -100,
            lse_square_scale: float = 0.0,
            label_smoothing: float = 0.0,
            reduction: str = "mean",
        ) -> Any:
            assert (bias, ce_weight, ignore_index) == (None, None, -100)
            assert (lse_square_scale, label_smoothing) == (0.0, 0.0)
            loss = nll(_input, weight, target)
            return (loss.mean() if reduction == "mean" else loss), None, None, None

    def linear_cross_entropy(
        e: Any, c: Any, targets: Any, *, reduction: str, filter_eps: float | None
    ) -> Any:
        assert (reduction, filter_eps) == ("none", None)
        return nll(e, c, targets)

    monkeypatch.setenv("LIGER_SCALED_CE_SM90_VALIDATE_TARGETS", "1")
    liger = "liger_kernel.ops"
    cute = f"{liger}.cutedsl.ops.fused_scaled_cross_entropy_sm90"
    stand_in(monkeypatch, cute, LigerFusedScaledCrossEntropySM90Function=Cute)
    triton = f"{liger}.fused_linear_cross_entropy"
    stand_in(monkeypatch, triton, LigerFusedLinearCrossEntropyFunction=Triton)
    stand_in(monkeypatch, "cut_cross_entropy", linear_cross_entropy=linear_cross_entropy)
    inputs = make_inputs(SMOKE[0], "cpu")
    truth = truth_of(inputs, "cpu", with_gradients=True)
    others = [peer for peer in PEERS if peer.needs]
    assert len(others) == 8
    for peer in others:
        difference = check(peer, peer.prepare(inputs, "cpu")(), truth)
        assert difference is not None
        assert difference < 1e-5


class FakeSubject:
    """Notes its turns; takes 1, 2, 3 … ms, or fails at its sample number ``fails_at``."""

    def __init__(self, name: str, notes: list[str], fails_at: int = -1, idle: bool = False) -> None:
        self.name, self.notes, self.fails_at, self.idle = name, notes, fails_at, idle
        self.taken = 0

    def sample(self, group: int) -> list[float]:
        self.notes.append(self.name)
        self.taken += 1
        if self.taken - 1 == self.fails_at:
            raise RuntimeError("lost")
        return [float(self.taken)]

    def poison(self) -> None:
        self.notes.append(f"poison {self.name}")

    def verify(self) -> None:
        self.notes.append(f"verify {self.name}")
        if self.idle:
            raise MismatchError("poison")


def entrant(name: str, plan: Plan, notes: list[str], **subject: Any) -> Entrant:
    return Entrant(fake(name, right), plan, FakeSubject(name, notes, **subject), "graph")


def test_samples_are_taken_in_turn_after_the_longer_gap() -> None:
    notes: list[str] = []
    short = entrant("a", Plan("graph-paced", "median", 20.0, samples=3), notes)
    long = entrant("b", Plan("graph-paced", "minimum", 60.0, samples=2), notes)
    readings = take_turns([short, long], NoMonitor(), lambda s: notes.append(f"{s * 1000:g}"))
    assert notes == [
        *("20", "a", "60", "b"),
        *("60", "a", "60", "b"),
        *("60", "a", "poison b", "60", "b"),
        *("poison a", "60", "a", "verify a", "verify b"),
    ]
    assert (short.rounds, long.rounds) == ([3.0], [2.0])
    assert len(readings) == 5
    assert short.cell().ms == 3.0


def test_the_rounds_median_is_the_value() -> None:
    one = entrant("a", Plan("graph-paced", "median", 0.0, samples=1), [])
    for _ in range(3):
        take_turns([one], NoMonitor())
    assert one.rounds == [2.0, 4.0, 6.0]
    assert one.cell().ms == 4.0


def test_who_fails_on_the_way_drops_out_and_the_others_go_on() -> None:
    notes: list[str] = []
    plan = Plan("graph-paced", "median", 0.0, samples=2)
    lost = entrant("lost", plan, notes, fails_at=1)
    idle = entrant("idle", plan, notes, idle=True)
    good = entrant("good", plan, notes)
    for _ in range(2):
        take_turns([lost, idle, good], NoMonitor())
    assert notes.count("lost") == 2
    assert notes.count("idle") == 3
    assert lost.cell().reason == "RuntimeError: lost"
    assert idle.cell().reason == "MismatchError: poison"
    assert idle.cell().ms is None
    assert len(good.rounds) == 2


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
