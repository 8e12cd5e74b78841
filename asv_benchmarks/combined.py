"""The call that several families time: log-probs and entropy in one pass, without gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from asv_benchmarks.graph import Outputs
from asv_benchmarks.inputs import Inputs


def combined_call(
    function: Callable[..., Any], inputs: Inputs, **options: Any
) -> Callable[[], Outputs]:
    """``fused_linear_logprob`` of the measured commit with entropy, under ``options``."""

    def call() -> Outputs:
        with torch.no_grad():
            logprob_M, entropy_M = function(
                inputs.hidden, inputs.weight, inputs.target, return_entropy=True, **options
            )
        return logprob_M, entropy_M

    return call
