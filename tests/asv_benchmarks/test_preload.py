"""What is done before asv forks, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

SHOW = """
import json, sys
from asv_benchmarks import preload
import torch
from triton.runtime.cache import triton_key
before = set(sys.modules)
import triton.experimental.gluon.language.nvidia.hopper
import sympy
print(json.dumps({
    "hashes": triton_key.cache_info().currsize,
    "imported": sorted(set(sys.modules) - before),
    "cuda": torch.cuda.is_initialized(),
}))
"""


def test_the_server_has_what_each_process_would_do_anew():
    environ = {**os.environ, "LMHEAD_BENCH_DEVICE": "gpu"}
    done = subprocess.run(
        [sys.executable, "-c", SHOW], env=environ, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == {"hashes": 1, "imported": [], "cuda": False}
