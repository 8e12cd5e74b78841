"""That the ranks of a group launch the same tiles, and so round alike."""

from __future__ import annotations

import torch
import torch.distributed as dist

from fused_lmhead.chunked import ChunkedBackend
from fused_lmhead.problem import Backend


def settle_schedules(
    backend: Backend,
    hidden_MH: torch.Tensor,
    weight_VH: torch.Tensor,
    with_entropy: bool,
    entropy_requires_grad: bool,
    learns: bool,
    group: dist.ProcessGroup,
) -> None:
    """Before a forward pass: have the group's first rank choose for all, where that matters.

    Without a search a schedule follows from the shape and the GPU alone. Under
    FUSED_LMHEAD_TUNING=search, which then is set on every rank, ranks that search apart could
    find different ones. Collective calls: then one broadcast where a token bucket is new.
    ``learns``: a backward pass may come.

    Raises:
        ValueError: under a search, a rank's shard has another shape than the first rank's.
    """
    (M, H), V = hidden_MH.shape, weight_VH.shape[0]
    if isinstance(backend, ChunkedBackend) or M == 0:
        return
    # Imported here since they need triton, which is optional.
    from fused_lmhead import tuning
    from fused_lmhead.tuning.cases import mode

    if mode() != "search":
        return
    shape = (M, H, V, weight_VH.dtype, weight_VH.device)
    same_kernels = with_entropy == entropy_requires_grad
    tuning.settle(*shape, with_entropy, group, backward=learns and same_kernels)
    if learns and not same_kernels:
        # A metric entropy is forward only: the backward pass is that of the log-prob.
        tuning.settle(*shape, False, group, backward=True)
