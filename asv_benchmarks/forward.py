"""Forward: log-probabilities only."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import torch

from asv_benchmarks.calls import BACKEND, fused_function
from asv_benchmarks.graph import Outputs
from asv_benchmarks.harness import Family
from asv_benchmarks.inputs import make_inputs
from asv_benchmarks.workloads import Device, Workload


class Forward(Family):
    """Log-probs without gradients, as for the old policy and the reference model."""

    family = "forward"

    def prepare(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> Callable[[], Outputs]:
        function = fused_function(fused_lmhead, device)
        inputs = make_inputs(workload, device)
        backend = BACKEND[device]

        def call() -> Outputs:
            with torch.no_grad():
                return (function(inputs.hidden, inputs.weight, inputs.target, backend=backend),)

        return call
