"""What torch and Triton do once a process, at their first use, done once before asv forks.

Each benchmark process would otherwise do it anew: ``torch.autograd.grad`` with upstream
gradients imports sympy, a checkpoint imports dynamo, Triton's first compilation hashes its
own library of 400 MB (0.3 s) and keeps the hash. None of it calls CUDA, whose context would
not survive the fork. The families that time such first calls start processes without it.
"""

from __future__ import annotations

import contextlib
import os

import torch._dynamo
import torch.fx.experimental.symbolic_shapes
import torch.utils.checkpoint  # noqa: F401

if os.environ.get("LMHEAD_BENCH_DEVICE") == "gpu":
    with contextlib.suppress(ImportError):
        import triton.tools.tensor_descriptor
        from triton.runtime.cache import triton_key

        triton_key()
        import triton.experimental.gluon.language.nvidia.hopper  # noqa: F401
