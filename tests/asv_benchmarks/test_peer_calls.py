"""What each peer of the comparison calls: ours, and other projects by their signatures."""

from __future__ import annotations

import os
import sys
import types
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from fake_peers import fake, nll, right  # noqa: E402

from asv_benchmarks.inputs import make_inputs  # noqa: E402
from asv_benchmarks.peer_calls import PEERS, PRODUCT, backward  # noqa: E402
from asv_benchmarks.peer_turns import check, truth_of  # noqa: E402
from asv_benchmarks.workloads import SMOKE  # noqa: E402


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
