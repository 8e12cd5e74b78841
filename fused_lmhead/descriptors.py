"""TMA descriptors of a tensor's boxes, where hardware and alignment allow one."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

if TYPE_CHECKING:
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as SwizzledDescriptor


@cache
def has_tma(device: torch.device) -> bool:
    """Whether the device has Hopper's bulk copies; Triton's interpreter plays them."""
    if device.type == "cpu":
        return True
    if device.type == "meta":  # stands for the current device
        return not torch.cuda.is_available() or has_tma(
            torch.device("cuda", torch.cuda.current_device())
        )
    return torch.version.hip is None and torch.cuda.get_device_capability(device)[0] >= 9


def copyable(tensor: torch.Tensor) -> bool:
    """Whether a descriptor can describe a matrix: rows of 16-byte multiples, aligned, with TMA."""
    # A single row or column counts as contiguous whatever its strides; a descriptor differs.
    if tensor.stride(1) != 1 or tensor.stride(0) < tensor.shape[1]:
        return False
    row_bytes = tensor.stride(0) * tensor.element_size()
    return not row_bytes % 16 and not tensor.data_ptr() % 16 and has_tma(tensor.device)


def boxes(tensor: torch.Tensor, rows: int, columns: int) -> TensorDescriptor | None:
    """A descriptor of [rows, columns] boxes, or None where there can be none."""
    return TensorDescriptor.from_tensor(tensor, [rows, columns]) if copyable(tensor) else None


def swizzled_boxes(tensor: torch.Tensor, rows: int, columns: int) -> SwizzledDescriptor:
    """The same for Gluon, of a 16-bit tensor that is ``copyable``: 128-byte swizzled boxes."""
    # Imported here: Gluon costs a tenth of a second and is for Hopper only.
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as SwizzledDescriptor

    return SwizzledDescriptor.from_tensor(tensor, [rows, columns], _swizzle())


@cache
def _swizzle() -> object:
    from triton.experimental.gluon.language import NVMMASharedLayout

    return NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
