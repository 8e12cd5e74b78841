"""Largest absolute errors against the fp64 oracle, for the dtype that is measured."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import ClassVar

import torch

from asv_benchmarks import entropy_backward
from asv_benchmarks.conditions import summarise
from asv_benchmarks.graph import Outputs
from asv_benchmarks.harness import Family
from asv_benchmarks.inputs import make_inputs
from asv_benchmarks.oracle import truth
from asv_benchmarks.timing import MismatchError, Plan, Timing
from asv_benchmarks.workloads import Device, Workload

PLAN = Plan("counted", "median", 0.0, samples=1)


def largest_error(computed: torch.Tensor, true: torch.Tensor) -> float:
    """Maximum of ``|computed - true|``. Raises MismatchError where it is no number."""
    error = float((computed.double() - true).abs().max().item())
    if not error < float("inf"):
        raise MismatchError(f"the largest error is {error}: a result is NaN or infinite")
    return error


class _Deviation(Family, abstract=True):
    """The error of one output of log-probs, entropies and both gradients."""

    family = "accuracy"
    unit = "abs"
    method = "track_error"
    entropy = "grad"
    rounds = 2
    plantable = False
    output: ClassVar[int]

    def prepare(
        self, fused_lmhead: ModuleType, workload: Workload, device: Device
    ) -> Callable[[], Outputs]:
        self.inputs = make_inputs(workload, device)
        return entropy_backward.combined(fused_lmhead, self.inputs, device)

    def take(self, package: ModuleType, device: Device) -> Timing:
        del package, device
        computed = self.call()[self.output]
        error = largest_error(computed, truth(self.inputs)[self.output])
        return Timing((error,), error, PLAN, summarise([self.monitor.read()]))


class LogProb(_Deviation):
    """Of the log-probabilities, in nats."""

    output = 0


class Entropy(_Deviation):
    """Of the entropies, in nats."""

    output = 1


class HiddenGradient(_Deviation):
    """Of the gradient of the hidden states."""

    output = 2


class WeightGradient(_Deviation):
    """Of the gradient of the weight."""

    output = 3
