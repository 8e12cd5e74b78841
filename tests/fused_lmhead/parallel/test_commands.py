"""The commands that the README names, as a user runs them."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
import torch

from fused_lmhead.parallel.efficiency import Row, Shape, table


def run(root, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=root,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("layout", [(2, 1), pytest.param((2, 2), marks=pytest.mark.slow)])
def test_the_example_prints_how_little_it_differs(layout, pytestconfig: pytest.Config):
    tp, cp = map(str, layout)
    done = run(pytestconfig.rootpath, "fused_lmhead.parallel.example", "--tp", tp, "--cp", cp)
    assert done.returncode == 0, done.stderr
    assert f"TP {tp}, CP {cp}" in done.stdout
    differences = {
        name.strip(): float(value)
        for name, value in re.findall(r"^  (\w[\w ]+?)\s+(\d\.\d\de[-+]\d\d)$", done.stdout, re.M)
    }
    assert list(differences) == ["logprob", "entropy", "hidden gradient", "new weight", "all"]
    assert 0 < differences.pop("all") == max(differences.values()) < 1.91e-6


def test_the_example_says_what_triton_needs_on_a_cpu(pytestconfig: pytest.Config):
    example = ("fused_lmhead.parallel.example", "--backend", "triton")
    done = run(pytestconfig.rootpath, *example, TRITON_INTERPRET="0")
    assert done.returncode == 2
    assert "needs TRITON_INTERPRET=1" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(torch.cuda.device_count() >= 2, reason="two GPUs would be measured")
def test_the_efficiency_asks_for_its_gpus(pytestconfig: pytest.Config):
    done = run(pytestconfig.rootpath, "fused_lmhead.parallel.efficiency")
    assert done.returncode == 1
    assert done.stderr.startswith("needs 2 GPUs, found ")


def test_the_efficiency_is_the_half_shards_time_over_the_shared_ones():
    lines = table(
        Shape(8192, 4096, 131072), "a GPU", [Row("forward", 8.0, 7.2), Row("alone", 0.1, None)]
    ).splitlines()
    assert "M 8192, H 4096, V 131072 over TP 2" in lines[0]
    assert lines[2].split() == ["forward", "8.000", "7.200", "90.0%"]
    assert lines[3].split() == ["alone", "0.100"]
