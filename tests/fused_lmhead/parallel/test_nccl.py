"""Two GPUs through NCCL: bf16 against one GPU, the cases of gloo in fp32, one schedule, no
second compilation, a dead peer. ``pytest -m gpu tests/fused_lmhead/parallel -s``"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch
from parallel_cases import TWO, Case, assembled, expected
from parallel_gpu import SHAPES, on_two_gpus, wait_for_a_dead_peer
from problems import Solution, make_problem, oracle, rounding, same_dtype_torch
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException

from fused_lmhead.parallel.processes import run_ranks

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs"),
]

LOGPROB_GATE, HIDDEN_GATE, WEIGHT_GATE = 1.91e-6, 2.34e-5, 2.80e-5
TIMEOUT_S = 10.0


@pytest.fixture(scope="module")
def two_gpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where both ranks left what they found, with a fresh cache of compiled kernels."""
    folder = tmp_path_factory.mktemp("gpus")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(folder / "triton"))
        run_ranks(on_two_gpus, 2, str(folder), transport="nccl", timeout_s=120.0)
    return folder


def found(folder: Path) -> list[dict]:
    return [torch.load(folder / f"found-{rank}.pt") for rank in range(2)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bf16_shards_err_no_more_than_torch_on_one_gpu(shape, two_gpus: Path):
    m, h, v, _ = shape
    problem = make_problem(m, h, v, torch.bfloat16, "cuda")
    truth = oracle(problem, 1.0, torch.float32)
    allowed = same_dtype_torch(problem, 1.0).errors(truth)
    one, other = (rank[f"{m}-{h}-{v}"] for rank in found(two_gpus))
    assert torch.equal(one["logprob"], other["logprob"])
    assert torch.equal(one["entropy"], other["entropy"])
    got = Solution(
        one["logprob"].double().cuda(),
        one["entropy"].double().cuda(),
        (one["d_hidden"].double() + other["d_hidden"].double()).cuda(),
        torch.cat([one["d_weight"], other["d_weight"]]).double().cuda(),
    )
    for name, error in got.errors(truth).items():
        print(f"{name}: {error:.3e}, torch {allowed[name]:.3e}")
        # Each rank rounds its part of d_hidden once more than one GPU does.
        parts = 2 if name == "d_hidden" else 1
        assert error <= max(allowed[name], parts * rounding(truth, name, torch.bfloat16)), name


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_d_hidden_summed_on_the_gpus_is_the_sum_of_the_parts(shape, two_gpus: Path):
    m, h, v, _ = shape
    ranks = found(two_gpus)
    one, other = (rank[f"{m}-{h}-{v}-summed"] for rank in ranks)
    assert torch.equal(one, other)
    parts = sum(rank[f"{m}-{h}-{v}"]["d_hidden"].double() for rank in ranks)
    step = torch.finfo(torch.bfloat16).eps * float(parts.abs().max())
    assert float((one.double() - parts).abs().max()) <= step


@pytest.mark.parametrize("case", TWO, ids=lambda case: case.name)
def test_the_cases_of_gloo_hold_through_nccl(case: Case, two_gpus: Path):
    got, wanted = assembled(case, two_gpus), expected(case)
    for one, other in zip(got.results, wanted.results, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=LOGPROB_GATE)
    torch.testing.assert_close(got.d_hidden, wanted.d_hidden, rtol=0, atol=HIDDEN_GATE)
    torch.testing.assert_close(got.d_weight, wanted.d_weight, rtol=0, atol=WEIGHT_GATE)


def test_both_ranks_use_one_schedule(two_gpus: Path):
    one, other = found(two_gpus)
    for m, h, v, split in SHAPES:
        if 2 * split == v:
            name = f"{m}-{h}-{v}-schedule"
            assert one[name] == other[name]


def test_nothing_is_compiled_twice(two_gpus: Path):
    first, second = (rank["compilations"] for rank in found(two_gpus))
    assert first["alone"], "the first rank compiled nothing: this test would prove nothing"
    hashes = [key for _, key, _ in first["alone"]]
    assert len(set(hashes)) == len(hashes)
    # The second rank's kernels are the first one's, found on disk.
    assert sorted(key for _, key, _ in second["alone"]) == sorted(hashes)
    assert all(on_disk for _, _, on_disk in second["alone"])
    # Neither sharing the vocabulary nor another length of the bucket asks for a new one.
    assert first["together"] == second["together"] == []


def test_a_dead_peer_ends_in_an_error(tmp_path: Path):
    started = time.monotonic()
    with pytest.raises((ProcessExitedException, ProcessRaisedException)):
        run_ranks(wait_for_a_dead_peer, 2, str(tmp_path), transport="nccl", timeout_s=TIMEOUT_S)
    assert (tmp_path / "called").exists()
    assert not (tmp_path / "returned").exists()
    assert time.monotonic() - started < 120
