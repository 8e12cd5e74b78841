"""Per-token log-probabilities and entropy of a language-model head, without its logits."""

import fused_lmhead.library  # noqa: F401 - registers what torch.compile traces
from fused_lmhead.ops import describe_schedule, fused_linear_logprob

__all__ = ["describe_schedule", "fused_linear_logprob"]
