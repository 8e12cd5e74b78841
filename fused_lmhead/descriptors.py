"""TMA descriptors of a tensor's boxes, where hardware and alignment allow one."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

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
    stride, unit = tensor.stride()
    # A single row or column counts as contiguous whatever its strides; a descriptor differs.
    if unit != 1 or stride < tensor.shape[1]:
        return False
    both = stride * tensor.element_size() | tensor.data_ptr()
    return not both & 15 and has_tma(tensor.device)


def boxes(tensor: torch.Tensor, rows: int, columns: int) -> TensorDescriptor | None:
    """A descriptor of [rows, columns] boxes, or None where there can be none."""
    return _described(tensor, rows, columns, TensorDescriptor) if copyable(tensor) else None


def swizzled_boxes(tensor: torch.Tensor, rows: int, columns: int) -> SwizzledDescriptor:
    """The same for Gluon, of a 16-bit tensor that is ``copyable``: 128-byte swizzled boxes."""
    kind, layout = _gluon()
    made: SwizzledDescriptor = _described(tensor, rows, columns, kind, layout)
    return made


@cache
def _gluon() -> tuple[type[SwizzledDescriptor], object]:
    # Imported here: Gluon costs a tenth of a second and is for Hopper only.
    from triton.experimental.gluon.language import NVMMASharedLayout
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as SwizzledDescriptor

    return (
        SwizzledDescriptor,
        NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2),
    )


# What descriptors of one kind have in common: no tensor, so that none is kept from being freed.
_common: dict[tuple[Any, ...], dict[str, Any]] = {}
_OWN = {"base", "shape", "strides"}
_COMMON = {"block_shape", "layout", "padding"}


def _described(tensor: torch.Tensor, rows: int, columns: int, kind: Any, *layout: object) -> Any:
    """A descriptor of ``kind`` with ``facets``: what kernels that take it are compiled for.

    The first of its dtype and box is checked by Triton. The next differ in the tensor alone,
    which is ``copyable``: a second check of it would take most of a descriptor's time.
    """
    facets = (kind, tensor.dtype, rows, columns)
    common = _common.get(facets)
    if common is None:
        made = kind.from_tensor(tensor, [rows, columns], *layout)
        fields = vars(made)
        if not fields.keys() - _OWN <= _COMMON:  # a Triton that knows more of a tensor
            return made
        common = {name: fields[name] for name in fields.keys() - _OWN} | {"facets": facets}
        _common[facets] = common
    made = kind.__new__(kind)
    made.__dict__ = {**common, "base": tensor, "shape": tensor.shape, "strides": tensor.stride()}
    return made
