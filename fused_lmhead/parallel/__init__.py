"""LM heads spread over processes: vocabulary shards, sequence shards, packed sequences.

The names and signatures that RL trainers import, and the function under them.
"""

from fused_lmhead.parallel.cross_entropy import linear_cross_entropy
from fused_lmhead.parallel.functions import (
    FusedLinearChunkedDistributedLogprob,
    FusedLinearLogprobTriton,
)
from fused_lmhead.parallel.packed import from_parallel_hidden_to_logprobs_packed_sequences
from fused_lmhead.parallel.padded import from_parallel_hidden_to_logprobs
from fused_lmhead.parallel.vocabulary import vocab_parallel_logprob

__all__ = [
    "FusedLinearChunkedDistributedLogprob",
    "FusedLinearLogprobTriton",
    "from_parallel_hidden_to_logprobs",
    "from_parallel_hidden_to_logprobs_packed_sequences",
    "linear_cross_entropy",
    "vocab_parallel_logprob",
]
