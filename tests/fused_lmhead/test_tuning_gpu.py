"""On a GPU: every candidate's values, what first calls cost, what a call costs the host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from problems import make_problem, oracle, rounding, same_dtype_torch, solve

from fused_lmhead import fused_linear_logprob

pytest.importorskip("triton")

from fused_lmhead.schedules import Schedule
from fused_lmhead.tuning.candidates import backward_candidates, forward_candidates, pruned

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]

# Rows in whole 16 bytes, and not; nothing that a tile divides.
SHAPES = [(300, 2880, 20_108), (257, 333, 4099)]


def fitting(dtype: torch.dtype) -> list[Schedule]:
    from fused_lmhead.tuning.gpus import gpu_of

    gpu = gpu_of(torch.device("cuda", torch.cuda.current_device()))
    size = dtype.itemsize
    every = dict.fromkeys((*forward_candidates(size), *backward_candidates(size)))
    return list(pruned(every, 16_384, 4096, 131_072, size, gpu))


@pytest.mark.parametrize("with_entropy", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_candidate_is_right_on_odd_shapes(shape, dtype: torch.dtype, with_entropy: bool):
    problem = make_problem(*shape, dtype, "cuda")
    expected = oracle(problem, 1.0, torch.float64 if dtype is torch.float32 else torch.float32)
    allowed = same_dtype_torch(problem, 1.0).errors(expected)
    for tile in fitting(dtype):

        def fused(hidden, weight, target, tile=tile):
            options = {"backend": "triton", "schedule": tile}
            if with_entropy:
                options |= {"return_entropy": True, "entropy_requires_grad": True}
                return fused_linear_logprob(hidden, weight, target, **options)
            return fused_linear_logprob(hidden, weight, target, **options), torch.tensor(0.0)

        if not with_entropy:
            hidden = problem.hidden.detach()
            logprob, _ = fused(hidden, problem.weight, problem.target)
            error = float((logprob.double() - expected.logprob).abs().max())
            assert error <= max(2e-6, allowed["logprob"]), tile
            continue
        for name, error in solve(problem, fused).errors(expected).items():
            least = 2e-6 if dtype is torch.float32 else rounding(expected, name, dtype)
            if dtype is torch.float32 and name.startswith("d_"):
                least = 2.34e-5
            assert error <= max(least, allowed[name]), (name, tile)


def first_calls(tmp_path: Path, root: Path, mode: str, h: int, v: int, *tokens: int) -> Any:
    environment = os.environ | {
        "TRITON_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": str(root),
        "FUSED_LMHEAD_TUNING": mode,
    }
    script = Path(__file__).with_name("cold_process.py")
    done = subprocess.run(
        [sys.executable, str(script), *map(str, (h, v, *tokens))],
        env=environment,
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"\n{mode}, H {h}, V {v}")
    for name, value in found.items():
        print(f"  {name:40}{value}")
    assert "is dropped" not in done.stderr, done.stderr
    return found


# The goals are 2.5 s, 6 s, 0.3 s, 2 s and 150 us on an H200 with 16 cores; here twice that,
# since a test must not fail for its neighbours' load.
def test_a_cold_process_with_the_table(tmp_path: Path, pytestconfig: pytest.Config):
    root = pytestconfig.rootpath
    found = first_calls(tmp_path, root, "table", 4096, 131_072, 8192, 6000, 3000)
    assert found["first call"]["seconds"] <= 5
    for later in ("same call", "same bucket"):
        assert found[later]["compiled"] == 0
    assert found["other bucket"]["seconds"] <= 0.6
    assert all(not value["searched"] for value in found.values() if isinstance(value, dict))
    assert found["host microseconds"] <= 300
    assert found["host microseconds, each a new length"] <= 300


@pytest.mark.parametrize(("h", "v"), [(4096, 32_768), (8192, 131_072)])
def test_a_cold_search(h: int, v: int, tmp_path: Path, pytestconfig: pytest.Config):
    # A vocabulary that no table knows.
    found = first_calls(tmp_path, pytestconfig.rootpath, "search", h, v + 64, 8192, 6000, 3000)
    (searched,) = found["first call"]["searched"]
    assert searched[0] == "forward"
    assert searched[1] >= 14
    assert found["first call"]["seconds"] <= 12
    for later in ("same call", "same bucket"):
        assert found[later]["compiled"] == 0
        assert found[later]["searched"] == []
    assert found["other bucket"]["compiled"] == 0
    assert found["other bucket"]["seconds"] <= 4
    # The same cache, another process: nothing is compiled anew, and nothing timed.
    again = first_calls(tmp_path, pytestconfig.rootpath, "search", h, v + 64, 8192, 6000, 3000)
    assert again["first call"]["seconds"] < found["first call"]["seconds"] / 2
