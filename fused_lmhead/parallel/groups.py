"""Process groups: whether this process is in one, and where."""

from __future__ import annotations

from typing import NamedTuple

import torch.distributed as dist


class Place(NamedTuple):
    """This process's number in a group, and how many the group has."""

    rank: int
    size: int


ALONE = Place(rank=0, size=1)


def place_in(group: dist.ProcessGroup | None, name: str) -> Place:
    """This process's place in ``group``; None is a group of this process alone.

    Raises ValueError, with the argument's ``name``, where ``group`` is no process group or
    this process is not in it. Collective calls: none.
    """
    if group is None:
        return ALONE
    if not dist.is_available() or not dist.is_initialized():
        raise ValueError(f"{name} is given, but torch.distributed is not initialised")
    # new_group gives the processes that it leaves out a number instead of a group.
    if not isinstance(group, dist.ProcessGroup):
        if group == dist.GroupMember.NON_GROUP_MEMBER:
            raise ValueError(f"this process is not a member of {name}")
        raise ValueError(
            f"{name} must be a torch.distributed.ProcessGroup or None, got {type(group).__name__}"
        )
    rank = dist.get_rank(group)
    if rank < 0:
        raise ValueError(f"this process is not a member of {name}")
    return Place(rank, dist.get_world_size(group))
