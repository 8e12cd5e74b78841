"""What torch and Triton import at their first use, imported once before asv forks.

Each benchmark process would otherwise import it anew: ``torch.autograd.grad`` with
upstream gradients pulls in sympy, a checkpoint pulls in dynamo. None of it calls CUDA,
whose context would not survive the fork.
"""

from __future__ import annotations

import contextlib
import os

import torch._dynamo
import torch.fx.experimental.symbolic_shapes
import torch.utils.checkpoint  # noqa: F401

if os.environ.get("LMHEAD_BENCH_DEVICE") == "gpu":
    with contextlib.suppress(ImportError):
        import triton
        import triton.tools.tensor_descriptor  # noqa: F401
