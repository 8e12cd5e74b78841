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
from asv_benchmarks.accuracy import largest_error  # noqa: E402
from asv_benchmarks.activity import (  # noqa: E402
    ForwardBackwardEntropyActive,
    TwoPassBackwardActive,
    active_rows,
)
from asv_benchmarks.backward import ForwardBackward  # noqa: E402
from asv_benchmarks.baselines import (  # noqa: E402
    chunked_entropy,
    differentiable_chunked_entropy,
)
from asv_benchmarks.chunked import Chunked  # noqa: E402
from asv_benchmarks.control import Control  # noqa: E402
from asv_benchmarks.entropy import ForwardEntropy, TwoPass  # noqa: E402
from asv_benchmarks.entropy_backward import (  # noqa: E402
    ForwardBackwardEntropy,
    TwoPassBackward,
)
from asv_benchmarks.fixed import FiveStages, ThreeStages  # noqa: E402
from asv_benchmarks.forward import Forward  # noqa: E402
from asv_benchmarks.inputs import Inputs, make_inputs  # noqa: E402
from asv_benchmarks.materialised import Materialised, MaterialisedBackward  # noqa: E402
from asv_benchmarks.memory import storage_bytes  # noqa: E402
from asv_benchmarks.nominal import nominal_ms  # noqa: E402
from asv_benchmarks.oracle import truth  # noqa: E402
from asv_benchmarks.tiers import FIRST as FIRST_NAMES  # noqa: E402
from asv_benchmarks.tiers import TIERS, series_of  # noqa: E402
from asv_benchmarks.timing import MismatchError, gpu_plan  # noqa: E402
from asv_benchmarks.workloads import SMOKE, Workload  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = ROOT / "asv_benchmarks" / "results" / "rounds"
FIRST = (Forward, ForwardEntropy, ForwardBackward, TwoPass, Control)
LATER = (
    ForwardBackwardEntropy,
    TwoPassBackward,
    Chunked,
    Materialised,
    MaterialisedBackward,
)


def autograd_truth(inputs: Inputs, with_entropy: bool) -> dict[str, torch.Tensor]:
    """Materialised logits in fp64, gradients by autograd."""
    hidden = inputs.hidden.detach().double().requires_grad_()
    weight = inputs.weight.detach().double().requires_grad_()
    logits = hidden @ weight.T
    logprobs = torch.log_softmax(logits, dim=-1)
    chosen = logprobs.gather(1, inputs.target[:, None])[:, 0]
    entropy = -(logprobs.exp() * logprobs).sum(-1)
    results, upstreams = [chosen], [inputs.upstream.double()]
    if with_entropy:
        results, upstreams = [chosen, entropy], [*upstreams, inputs.upstream_entropy.double()]
    d_hidden, d_weight = torch.autograd.grad(results, (hidden, weight), upstreams)
    return {
        "logits": logits.detach(),
        "logprob": chosen.detach(),
        "entropy": entropy.detach(),
        "d_hidden": d_hidden,
        "d_weight": d_weight,
    }


GRADIENTS = ("d_hidden", "d_weight")
EXPECTED = {
    "forward": ("logprob",),
    "forward_entropy": ("logprob", "entropy"),
    "forward_backward": ("logprob", *GRADIENTS),
    "forward_backward_entropy": ("logprob", "entropy", *GRADIENTS),
    "two_pass": ("logprob", "entropy"),
    "two_pass_backward": ("logprob", "entropy", *GRADIENTS),
    "chunked": ("logprob", "entropy"),
    "materialised": ("logprob", "entropy"),
    "materialised_backward": ("logprob", *GRADIENTS),
    "control": ("logits",),
}


# The second shape divides by no tile and no chunk.
CASES = [(family, SMOKE[0]) for family in LATER if family is not Chunked]
CASES += [(family, workload) for family in (*FIRST, Chunked) for workload in SMOKE]


def label(value: object) -> str:
    """The family's or the shape's name."""
    return getattr(value, "family", None) or getattr(value, "model", "")


@pytest.mark.parametrize(("family", "workload"), CASES, ids=label)
def test_a_family_times_what_it_says(family, workload: Workload) -> None:
    outputs = family().prepare(fused_lmhead, workload, "cpu")()
    names = EXPECTED[family.family]
    expected = autograd_truth(make_inputs(workload, "cpu"), {"entropy", *GRADIENTS} <= {*names})
    assert len(outputs) == len(names)
    for output, name in zip(outputs, names, strict=True):
        assert not output.requires_grad
        torch.testing.assert_close(output.double(), expected[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", [ForwardBackwardEntropyActive, TwoPassBackwardActive])
def test_inactive_rows_have_no_gradient(family) -> None:
    benchmark = family()
    benchmark.values = {"active": 23}
    workload = SMOKE[0]
    _, _, d_hidden, _ = benchmark.prepare(fused_lmhead, workload, "cpu")()
    active = active_rows(workload.m, 23)
    assert active.sum() == round(0.23 * workload.m)
    assert not d_hidden[~active].any()
    assert d_hidden[active].any(dim=-1).all()
    inputs = benchmark.masked(workload, "cpu")
    expected = autograd_truth(inputs, with_entropy=True)["d_hidden"]
    torch.testing.assert_close(d_hidden.double(), expected, rtol=1e-4, atol=1e-4)


def test_activity_belongs_to_the_families_it_compares() -> None:
    assert ForwardBackwardEntropyActive.family == ForwardBackwardEntropy.family
    assert TwoPassBackwardActive.family == TwoPassBackward.family
    assert ForwardBackwardEntropyActive.params[3] == (100, 95, 73, 64, 23)


def test_the_oracle_agrees_with_autograd() -> None:
    inputs = make_inputs(SMOKE[0], "cpu")
    expected = autograd_truth(inputs, with_entropy=True)
    found = truth(inputs)
    for name, value in found._asdict().items():
        torch.testing.assert_close(value, expected[name], rtol=1e-9, atol=1e-9)


def test_an_error_is_the_largest_and_nan_is_none() -> None:
    true = torch.zeros(3, dtype=torch.float64)
    assert largest_error(torch.tensor([0.5, -0.75, 0.0]), true) == 0.75
    with pytest.raises(MismatchError, match="NaN"):
        largest_error(torch.tensor([0.5, float("nan"), 0.0]), true)


def test_the_fixed_schedules_are_those_of_the_references() -> None:
    tile = {"block_m": 128, "block_n": 256, "block_k": 32, "num_warps": 8, "group_m": 8}
    assert FiveStages().schedule() == {**tile, "num_stages": 5}
    assert ThreeStages().schedule() == {**tile, "num_stages": 3}
    with pytest.raises(NotImplementedError, match="Triton backend's"):
        FiveStages().prepare(fused_lmhead, SMOKE[0], "cpu")


def test_bytes_are_counted_by_storage() -> None:
    whole = torch.zeros(10, dtype=torch.float32)
    assert storage_bytes((whole, whole[2:], torch.zeros(3, dtype=torch.float64))) == 64


def shipped() -> list[dict[str, object]]:
    lines = [line for path in ROUNDS.glob("*.jsonl") for line in path.read_text().splitlines()]
    return [record for record in map(json.loads, lines) if record["status"] == "ok"]


# Two commits took twice as long on three shapes, and so were timed by their minimum.
TWICE_AS_LONG = {
    ("two_pass", "nemotron-super", 16384),
    ("forward", "qwen3.6-35b-a3b", 32768),
    ("forward_entropy", "qwen3.6-35b-a3b", 32768),
}


BURSTS_SINCE = "2026-11-30T07:50"
"""Before, a call of 0.3 to 5 ms was replayed once after a gap."""


def test_the_protocol_of_the_shipped_history_follows_from_the_shapes() -> None:
    families = {family.family: family for family in FIRST}
    # The later benchmarks never had another protocol than their shape's.
    names = {f"{family.__module__.rpartition('.')[2]}.{family.__name__}" for family in FIRST}
    records = [r for r in shipped() if r["benchmark"].rpartition(".")[0] in names]
    assert len(records) > 300
    odd = set()
    for record in records:
        params = record["params"]
        family = families[record["family"]]
        plan = gpu_plan(nominal_ms(Workload(**params), family.work))
        assert family.version == record["version"]
        earlier = plan.protocol == "graph-bursts" and record["started_at"] < BURSTS_SINCE
        assert record["protocol"] == ("graph-paced" if earlier else plan.protocol)
        assert (plan.gap_ms > 0) == (record["gap_ms"] > 0)
        if plan.statistic != record["statistic"]:
            odd.add((record["commit"][:8], (record["family"], params["model"], params["tokens"])))
    assert odd == {
        (commit, shape) for commit in ("bf32e4a9", "c1fb768d") for shape in TWICE_AS_LONG
    }


def test_the_families_declare_what_the_dashboard_groups_by() -> None:
    declared = {f.family: (f.entropy, f.unit, f.higher_is_better, f.version) for f in FIRST + LATER}
    assert declared == {
        "forward": ("off", "ms", False, "1"),
        "forward_entropy": ("metric", "ms", False, "1"),
        "forward_backward": ("off", "ms", False, "1"),
        "forward_backward_entropy": ("grad", "ms", False, "1"),
        "two_pass": ("metric", "ms", False, "1"),
        "two_pass_backward": ("grad", "ms", False, "1"),
        "chunked": ("metric", "ms", False, "1"),
        "materialised": ("metric", "ms", False, "1"),
        "materialised_backward": ("off", "ms", False, "1"),
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


def test_a_differentiable_chunk_equals_the_plain_one() -> None:
    inputs = make_inputs(SMOKE[0], "cpu")
    plain = chunked_entropy(inputs.hidden, inputs.weight)
    found = differentiable_chunked_entropy(inputs.hidden.requires_grad_(), inputs.weight, 300)
    torch.testing.assert_close(found.detach(), plain)
    assert found.requires_grad


def test_the_control_measures_a_slice_where_its_logits_would_not_fit() -> None:
    largest = Workload("qwen3.6-35b-a3b", 262144, 1)
    part = Control().portion(largest, "gpu")
    assert part.tokens == 65536
    assert part.m * part.v * 2 <= 32 * 2**30 < 2 * part.m * part.v * 2
    small = Workload("qwen3.6-35b-a3b", 32768, 1)
    assert Control().portion(small, "gpu") == small


def test_the_materialised_baseline_stops_where_its_logits_would_not_fit() -> None:
    with pytest.raises(NotImplementedError, match="would take 242 GiB"):
        Materialised().prepare(fused_lmhead, Workload("qwen3.6-35b-a3b", 262144, 1), "gpu")


DISCOVER = """
import json, sys, threading
import torch
def forbidden(*a, **k): raise RuntimeError("a CUDA call at import")
for name in ("is_available", "device_count", "init", "_lazy_init", "current_device"):
    setattr(torch.cuda, name, forbidden)
from asv_runner.discovery import _discover
_discover((sys.argv[1], sys.argv[2]))
assert not any(name.split(".")[0] == "fused_lmhead" for name in sys.modules), "fused_lmhead"
assert not torch.cuda.is_initialized()
assert "torch._dynamo" in sys.modules and "sympy" in sys.modules, "imported before the fork"
assert len(threading.enumerate()) == 1, "a thread does not survive the fork"
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
    known = {name for tier in TIERS for name, _ in series_of(tier)}
    assert set(benchmarks) == known
    for name, benchmark in benchmarks.items():
        assert benchmark["version"] == ("2" if name.startswith("host.") else "1")
        if name in FIRST_NAMES:
            assert benchmark["param_names"] == ["model", "tokens", "tp"]
            assert (benchmark["rounds"], benchmark["unit"]) == (3, "ms")


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
    assert {line["status"] for line in lines} == {"ok", "skipped"}
    skipped = {line["benchmark"].split(".")[0] for line in lines if line["status"] == "skipped"}
    assert skipped <= {"fixed", "memory", "compile"}
    measured = {
        f"{line['benchmark']}({', '.join(map(repr, line['params'].values()))})": line
        for line in lines
    }
    assert set(measured) == {f"{name}({params})" for name, params in series_of("smoke")}
    assert all(line["environment"].endswith("-cpu") and line["gpu"] is None for line in lines)
