"""The benchmark of two ranks: its second process, its samples; over gloo, on a CPU."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

from asv_benchmarks.parallel import (  # noqa: E402
    PROTOCOL,
    SCRIPT,
    CollectiveShare,
    Forward,
    ForwardBackward,
    Pair,
)
from asv_benchmarks.workloads import Workload  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SMOKE = Workload("smoke", 2048, 2)


def test_both_ranks_make_every_call_and_the_second_ends() -> None:
    pair = Pair(SMOKE, "cpu", backward=True, share=False, checkout=ROOT)
    try:
        samples = pair.sample(3)
        pair.verify()
        pair.share = True
        shares = pair.sample(3)
        logprob, d_hidden, d_weight = pair._outputs
    finally:
        pair.close()
    assert all(sample > 0 for sample in samples)
    assert all(0 < share < 100 for share in shares)
    assert logprob.shape == (2048,)
    assert d_hidden.shape == (2048, 64)
    assert d_weight.shape == (500, 64)
    # Log-probs of 1000 ids of unit variance: were the shards not merged, they would be larger.
    assert float(logprob.mean()) == pytest.approx(-math.log(1000) - 0.5, abs=0.1)
    assert pair._peer.returncode == 0
    assert not dist.is_initialized()
    real = dist.all_reduce
    assert real.__module__.startswith("torch.")


def test_without_two_gpus_it_is_skipped_with_the_reason() -> None:
    with pytest.raises(NotImplementedError, match="needs 2 GPUs, found 0"):
        Forward().prepare(torch, SMOKE, "cpu")


def test_the_second_rank_refuses_another_checkout(tmp_path: Path) -> None:
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"package": str(tmp_path)}))
    done = subprocess.run(
        [sys.executable, "-P", str(SCRIPT), str(spec)],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "fused_lmhead was imported from" in done.stderr


def test_long_calls_take_the_minimum_and_shares_the_median() -> None:
    workload = Workload("nemotron-super", 8192, 2)
    plans = {family: family().plan(workload) for family in (Forward, ForwardBackward)}
    assert {plan.protocol for plan in plans.values()} == {PROTOCOL}
    assert plans[Forward].statistic == "median"
    assert plans[ForwardBackward].statistic == "minimum"
    assert CollectiveShare().plan(workload).statistic == "median"


def test_short_calls_are_sampled_one_by_one() -> None:
    plan = Forward().plan(Workload("nemotron-super", 2048, 4))
    assert (plan.protocol, plan.group, plan.warming) == (PROTOCOL, 1, 0)
