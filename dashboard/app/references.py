"""The figures of the two pull requests that this project implements anew.

NovaSky-AI/SkyRL #2373 and #2374 gave them, measured on an H100: to be read beside this
project's own numbers, not as if they came from the same machine.
"""

from __future__ import annotations

from dataclasses import dataclass

SOURCE = "NovaSky-AI/SkyRL #2373 and #2374, measured on an H100"

COMBINED_MEDIAN = 1.44
COMBINED_POINTS = 115
# The PRs do not name their points; these are 120.
COMBINED_MODELS = ("nemotron-ultra", "nemotron-super", "qwen3.6-35b-a3b", "kimi-k2")
COMBINED_TOKENS = (16384, 32768, 65536, 131072, 262144)
COMBINED_SPLITS = ((1, 1), (2, 1), (4, 1), (8, 1), (4, 2), (1, 8))
"""Heads, tokens in all, and (TP, CP), at which two passes are held against one."""

DIFFERENTIABLE = (2.11, 2.17)
ACTIVITIES = (100, 95, 73, 64, 23)


@dataclass(frozen=True, slots=True)
class Tuned:
    """Autotuned against the fixed five-stage loop: reductions are changes of time."""

    mean: float = -5.57
    median: float = -3.63
    faster: int = 88
    shapes: int = 104
    worst: float = 1.40
    best: str = "34.91 → 25.54 ms"


TUNED = Tuned()

COMPILE = {
    "compile.Cold": ("cold, compile and tune", "13.27 s"),
    "compile.SameBucket": ("same bucket", "6.13 ms"),
    "compile.NewBucket": ("new bucket", "4.66 s"),
    "first call": ("median first call", "14.9 s"),
}
"""By group of the suite: what the PRs call the figure, and its value."""

ERRORS = {
    "accuracy.HiddenGradient": ("hidden gradients", "2.34e-5"),
    "accuracy.WeightGradient": ("weight gradients", "2.80e-5"),
    "forward": ("forward candidates", "9.54e-7"),
    "reduced": ("TP-reduced", "1.91e-6"),
}
"""By group of the suite. Absolute, so their size is that of the PRs' own inputs."""
