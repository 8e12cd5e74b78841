"""Bad input is named, with its offending values."""

from __future__ import annotations

import pytest
import torch

from fused_lmhead import fused_linear_logprob

HIDDEN = torch.randn(2, 3, 8)
WEIGHT = torch.randn(5, 8)
TARGET = torch.zeros(2, 3, dtype=torch.long)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"hidden": None}, TypeError, "hidden must be a torch.Tensor, got NoneType"),
        ({"hidden": HIDDEN.double()}, TypeError, "hidden must be .* got torch.float64"),
        ({"weight": WEIGHT.long()}, TypeError, "weight must be .* got torch.int64"),
        ({"target": TARGET.float()}, TypeError, "target must have an integer dtype.*float32"),
        ({"target": TARGET.bool()}, TypeError, "target must have an integer dtype.*bool"),
        ({"weight": WEIGHT[0]}, ValueError, r"weight must be \[V, H\].*\(8,\)"),
        ({"weight": WEIGHT[:0]}, ValueError, r"not empty, got shape \(0, 8\)"),
        ({"hidden": HIDDEN[..., :7]}, ValueError, r"hidden \(2, 3, 7\).*hidden size 8"),
        ({"target": TARGET[:1]}, ValueError, r"target \(1, 3\).*\(2, 3\)"),
        ({"target": TARGET.to("meta")}, ValueError, "one device, got cpu, cpu, meta"),
        ({"temperature": 0.0}, ValueError, "temperature must be from 1e-06 to 1e.06, got 0.0"),
        ({"temperature": float("nan")}, ValueError, "temperature must be from .* got nan"),
        ({"temperature": 10**400}, ValueError, "temperature must be from .* got 1000"),
        ({"temperature": "1"}, TypeError, "temperature must be a number, got '1'"),
        ({"chunk_size": 0}, ValueError, "chunk_size must be at least 1, got 0"),
        ({"chunk_size": 1024.0}, TypeError, "chunk_size must be an integer, got 1024.0"),
        ({"chunk_size": None}, TypeError, "chunk_size must be an integer, got None"),
        ({"backward_budget": 0}, ValueError, "backward_budget must be at least 1, got 0"),
        ({"backward_budget": 1e9}, TypeError, "backward_budget must be an integer, got 1000000000"),
        ({"keep_logits_budget": -1}, ValueError, "keep_logits_budget must be at least 0, got -1"),
        ({"keep_logits_budget": None}, TypeError, "keep_logits_budget must be an integer, got N"),
        ({"schedule": (128, 256)}, TypeError, r"schedule must be a fused_.*Schedule, got \(128"),
        ({"ignore_index": 0.5}, TypeError, "ignore_index must be an integer, got 0.5"),
        ({"ignore_index": 2**70}, ValueError, "ignore_index must fit 64 bits"),
        ({"entropy_requires_grad": True}, ValueError, "needs return_entropy=True"),
        ({"backend": "cuda"}, ValueError, "backend must be .* got 'cuda'"),
    ],
    ids=str,
)
def test_bad_input_is_named(change, error, words):
    arguments = {"hidden": HIDDEN, "weight": WEIGHT, "target": TARGET, **change}
    with pytest.raises(error, match=words):
        fused_linear_logprob(**arguments)


def test_triton_without_a_gpu_says_so(monkeypatch: pytest.MonkeyPatch):
    triton = pytest.importorskip("triton")
    monkeypatch.setattr(triton.knobs.runtime, "interpret", False)
    with pytest.raises(RuntimeError, match="needs CUDA tensors, got cpu"):
        fused_linear_logprob(HIDDEN, WEIGHT, TARGET, backend="triton")


def test_the_interpreter_refuses_bf16_products(monkeypatch: pytest.MonkeyPatch):
    triton = pytest.importorskip("triton")
    monkeypatch.setattr(triton.knobs.runtime, "interpret", True)
    with pytest.raises(RuntimeError, match="bfloat16 products wrongly"):
        fused_linear_logprob(HIDDEN, WEIGHT.bfloat16(), TARGET, backend="triton")


def test_a_missing_triton_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match="needs the triton package"):
        fused_linear_logprob(HIDDEN, WEIGHT, TARGET, backend="triton")
    assert fused_linear_logprob(HIDDEN, WEIGHT, TARGET).shape == TARGET.shape
