"""Peers of the comparison that need no other project: a right one, and whatever a test makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from asv_benchmarks.nominal import Work
from asv_benchmarks.peer_calls import Peer, forward


def nll(hidden: Any, weight: Any, target: Any) -> Any:
    """What a right peer computes."""
    return torch.nn.functional.cross_entropy((hidden @ weight.T).float(), target, reduction="none")


def fake(name: str, prepare: Callable[..., Any], part: Any = "forward", **changes: Any) -> Peer:
    """A peer of no work whose first output is a ``nll``, or what ``changes`` say."""
    return Peer(name, part, Work(), changes.pop("first", "nll"), prepare, **changes)


def right(inputs: Any, device: Any) -> Any:
    """Prepare a forward pass of ``nll``."""
    return forward(nll, inputs)
