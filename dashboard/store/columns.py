"""Arrow columns from numpy arrays and Python's lists, and back.

`pyarrow.array`, `scalar` and `to_numpy` would load pandas, which takes longer than the ingest of
one more commit; here are the few kinds of columns that an ingest needs, by way of their buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from dashboard.models import Status

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

# How columns of numbers tell what became of a value or a round.
STATUSES = (Status.FAILED.value, Status.SKIPPED.value, Status.OK.value)
FAILED, SKIPPED, OK = range(3)

_EPOCH = datetime(1970, 1, 1)
_TICK = timedelta(microseconds=1)


def integers(
    values: npt.ArrayLike, kind: pa.DataType = None, unknown: Flags | None = None
) -> pa.Array:
    """Whole numbers of an Arrow type of 64 bits, by default int64; null where ``unknown``."""
    data = np.ascontiguousarray(values, np.int64)
    return _fixed(kind or pa.int64(), data, unknown)


def small_integers(values: npt.ArrayLike) -> pa.Array:
    """Whole numbers of 32 bits."""
    return _fixed(pa.int32(), np.ascontiguousarray(values, np.int32), None)


def numbers(values: npt.ArrayLike | Sequence[float | None]) -> pa.Array:
    """Floats, of which NaN and None are null."""
    data: Numbers = np.array(values, np.float64)
    return _fixed(pa.float64(), data, np.isnan(data))


def times(values: Sequence[datetime | None]) -> pa.Array:
    """Times without a zone; None is null."""
    data = [0 if value is None else (value - _EPOCH) // _TICK for value in values]
    unknown = np.array([value is None for value in values], bool)
    return integers(data, pa.timestamp("us"), unknown)


def flags(values: npt.ArrayLike) -> pa.Array:
    """True and false."""
    data = np.asarray(values, bool)
    return pa.Array.from_buffers(pa.bool_(), len(data), [None, _bits(data)])


def texts(values: Sequence[str | None]) -> pa.Array:
    """Texts, or null."""
    encoded = [b"" if value is None else value.encode() for value in values]
    offsets = _offsets([len(text) for text in encoded])
    unknown = np.array([value is None for value in values], bool)
    buffers = [_validity(unknown), pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def lists_of_numbers(values: Sequence[list[float] | None]) -> pa.Array:
    """Lists of floats, in which NaN is a number; None is a null list."""
    lengths = [len(one) if one is not None else 0 for one in values]
    flat = np.fromiter(chain.from_iterable(filter(None, values)), np.float64, sum(lengths))
    unknown = np.array([one is None for one in values], bool)
    return _lists(_fixed(pa.float64(), flat, None), _offsets(lengths), unknown)


def lists(values: pa.Array, lengths: npt.ArrayLike) -> pa.Array:
    """Lists of so many of the values each."""
    return _lists(values, _offsets(lengths), np.zeros(0, bool))


def _lists(values: pa.Array, offsets: npt.NDArray[np.int32], unknown: Flags) -> pa.Array:
    buffers = [_validity(unknown), pa.py_buffer(offsets)]
    kind = pa.list_(values.type)
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers, children=[values])


def _fixed(kind: pa.DataType, data: npt.NDArray[np.generic], unknown: Flags | None) -> pa.Array:
    buffers = [None if unknown is None else _validity(unknown), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(data), buffers)


def _offsets(lengths: npt.ArrayLike) -> npt.NDArray[np.int32]:
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)


def _validity(unknown: Flags) -> pa.Buffer | None:
    return _bits(~unknown) if unknown.any() else None


def _bits(values: Flags) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))


def whole_of(column: pa.Array | pa.ChunkedArray, unknown: int = 0) -> npt.NDArray[Any]:
    """The whole numbers, or times in microseconds, of a column; ``unknown`` for null."""
    array = _one(column)
    found = _data(array, "u" if pa.types.is_unsigned_integer(array.type) else "i")
    return np.where(flags_of(array.is_valid()), found, unknown) if array.null_count else found


def statuses_of(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """The places in `STATUSES` of a column of those."""
    return whole_of(pc.index_in(_one(column), value_set=texts(STATUSES)))


def numbers_of(column: pa.Array | pa.ChunkedArray) -> Numbers:
    """A copy of a column's floats; NaN for null."""
    array = _one(column)
    found: Numbers = np.array(_data(array, "f"))
    if array.null_count:
        found[~flags_of(array.is_valid())] = np.nan
    return found


def flags_of(column: pa.Array | pa.ChunkedArray) -> Flags:
    """The flags of a column without nulls."""
    array = _one(column)
    bits = np.frombuffer(array.buffers()[1] or b"", np.uint8)
    end = array.offset + len(array)
    return np.unpackbits(bits, bitorder="little")[array.offset : end].astype(bool)


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _data(array: pa.Array, kind: str) -> npt.NDArray[Any]:
    """The memory of a column of fixed width."""
    width = array.type.bit_width // 8
    data = np.frombuffer(array.buffers()[1] or b"", f"{kind}{width}")
    return data[array.offset : array.offset + len(array)]
