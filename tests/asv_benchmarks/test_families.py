"""What the families call: the right outputs on a CPU, and nothing at import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import fused_lmhead  # noqa: E402
from asv_benchmarks.backward import ForwardBackward  # noqa: E402
from asv_benchmarks.baselines import chunked_entropy  # noqa: E402
from asv_benchmarks.control import Control  # noqa: E402
from asv_benchmarks.entropy import ForwardEntropy, TwoPass  # noqa: E402
from asv_benchmarks.forward import Forward  # noqa: E402
from asv_benchmarks.inputs import make_inputs  # noqa: E402
from asv_benchmarks.workloads import TIERS, Workload  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SMOKE = TIERS["smoke"]
FAMILIES = (Forward, ForwardEntropy, ForwardBackward, TwoPass, Control)


def oracle(workload: Workload) -> dict[str, torch.Tensor]:
    """Materialised logits in fp64."""
    inputs = make_inputs(workload, "cpu")
    hidden = inputs.hidden.double().requires_grad_()
    weight = inputs.weight.double().requires_grad_()
    logits = hidden @ weight.T
    logprobs = torch.log_softmax(logits, dim=-1)
    chosen = logprobs.gather(1, inputs.target[:, None])[:, 0]
    d_hidden, d_weight = torch.autograd.grad(chosen, (hidden, weight), inputs.upstream.double())
    return {
        "logits": logits.detach(),
        "logprob": chosen.detach(),
        "entropy": -(logprobs.exp() * logprobs).sum(-1).detach(),
        "d_hidden": d_hidden,
        "d_weight": d_weight,
    }


EXPECTED = {
    "forward": ("logprob",),
    "forward_entropy": ("logprob", "entropy"),
    "forward_backward": ("logprob", "d_hidden", "d_weight"),
    "two_pass": ("logprob", "entropy"),
    "control": ("logits",),
}


@pytest.mark.parametrize("workload", SMOKE, ids=lambda w: w.model)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.family)
def test_a_family_times_what_it_says(family, workload: Workload) -> None:
    outputs = family().prepare(fused_lmhead, workload, "cpu")()
    truth = oracle(workload)
    assert len(outputs) == len(EXPECTED[family.family])
    for output, name in zip(outputs, EXPECTED[family.family], strict=True):
        assert not output.requires_grad
        torch.testing.assert_close(output.double(), truth[name], rtol=1e-4, atol=1e-4)


def test_the_families_declare_what_the_dashboard_groups_by() -> None:
    declared = {f.family: (f.entropy, f.unit, f.higher_is_better, f.version) for f in FAMILIES}
    assert declared == {
        "forward": ("off", "ms", False, "1"),
        "forward_entropy": ("metric", "ms", False, "1"),
        "forward_backward": ("off", "ms", False, "1"),
        "two_pass": ("metric", "ms", False, "1"),
        "control": ("off", "ms", False, "1"),
    }
    assert TwoPass().describe(fused_lmhead, SMOKE[0], "cpu") == {"entropy_chunk": 1024}
    assert Control().describe(fused_lmhead, SMOKE[0], "cpu") is None


def test_inputs_are_the_same_every_time_and_never_zeros() -> None:
    one, other = make_inputs(SMOKE[0], "cpu"), make_inputs(SMOKE[0], "cpu")
    assert torch.equal(one.hidden, other.hidden)
    assert torch.equal(one.weight, other.weight)
    assert torch.equal(one.target, other.target)
    assert one.hidden.std() == pytest.approx(1, rel=0.05)
    assert one.weight.std() == pytest.approx(64**-0.5, rel=0.05)
    assert one.upstream.unique().numel() > 2000
    assert 0 <= one.target.min() < one.target.max() < 1000


def test_chunks_do_not_change_the_entropy() -> None:
    inputs = make_inputs(SMOKE[0], "cpu")
    whole = chunked_entropy(inputs.hidden, inputs.weight, chunk=2048)
    torch.testing.assert_close(chunked_entropy(inputs.hidden, inputs.weight, chunk=300), whole)


def test_logits_beyond_the_controls_memory_are_skipped() -> None:
    with pytest.raises(NotImplementedError, match="would take 121 GiB"):
        Control().prepare(fused_lmhead, Workload("qwen3.6-35b-a3b", 262144, 1), "gpu")


DISCOVER = """
import json, sys
import torch
def forbidden(*a, **k): raise RuntimeError("a CUDA call at import")
for name in ("is_available", "device_count", "init", "_lazy_init", "current_device"):
    setattr(torch.cuda, name, forbidden)
from asv_runner.discovery import _discover
_discover((sys.argv[1], sys.argv[2]))
assert not any(name.split(".")[0] == "fused_lmhead" for name in sys.modules), "fused_lmhead"
assert not torch.cuda.is_initialized()
"""


def test_importing_the_suite_touches_neither_cuda_nor_the_kernels(tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    command = [sys.executable, "-c", DISCOVER, str(ROOT / "asv_benchmarks"), str(found)]
    environ = {**os.environ, "LMHEAD_BENCH_DEVICE": "gpu"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    benchmarks = {benchmark["name"]: benchmark for benchmark in json.loads(found.read_text())}
    assert set(benchmarks) == {
        "backward.ForwardBackward.track_time",
        "control.Control.track_time",
        "entropy.ForwardEntropy.track_time",
        "entropy.TwoPass.track_time",
        "forward.Forward.track_time",
    }
    for benchmark in benchmarks.values():
        assert benchmark["param_names"] == ["model", "tokens", "tp"]
        assert benchmark["rounds"] == 3
        assert benchmark["unit"] == "ms"
        assert benchmark["version"] == "1"


@pytest.mark.slow
def test_the_smoke_tier_runs_on_a_clone_of_this_repository(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    cloned = subprocess.run(
        ["git", "clone", "-q", f"file://{ROOT}", str(clone)], capture_output=True, check=False
    )
    if cloned.returncode or not (clone / "asv_benchmarks" / "environment.py").is_file():
        pytest.skip("no git repository whose HEAD has the suite")
    home = tmp_path / "home"
    home.mkdir()
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("ASV", "LMHEAD"))}
    environ |= {"HOME": str(home), "CUDA_VISIBLE_DEVICES": ""}
    results = clone / "fresh"
    conf = json.loads((clone / "asv.conf.json").read_text()) | {"results_dir": "fresh"}
    (clone / "asv.conf.json").write_text(json.dumps(conf))

    def asv(*arguments: str) -> str:
        command = [sys.executable, "-m", "asv", *arguments]
        done = subprocess.run(
            command, cwd=clone, env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    asv("machine", "--yes")
    asv("run", "HEAD^!")
    (path,) = (results / "rounds").iterdir()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert {line["status"] for line in lines} == {"ok"}
    assert len(lines) == len(FAMILIES) * len(SMOKE) * 3
    assert {line["family"] for line in lines} == set(EXPECTED)
    assert all(line["environment"].endswith("-cpu") and line["gpu"] is None for line in lines)
