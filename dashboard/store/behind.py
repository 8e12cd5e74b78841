"""Which rounds stand behind which of asv's values, for many runs at once.

A line belongs to a value if it names the run's machine, environment and commit, and if the
samples of its invocation (asv_run), pooled in order, are those asv stored. A failed or skipped
value has no samples: the last invocation counts if it says the same. Whether it is the last
invocation, whole, is looked at here in columns; everything else by `dashboard.attach`.

Suffixes: _r one a value of asv's, _l one a line.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]

from dashboard.attach import Line, attached
from dashboard.store.columns import OK, Flags, Integers, integers, numbers_of, statuses_of, whole_of


def values_of_lines(
    run_r: Integers, series_r: Integers, run_l: Integers, series_l: Integers
) -> Integers:
    """For each line the index of the value of its run and series; -1 where there is none."""
    if not len(run_r):
        return np.full(len(run_l), -1)
    _, codes = np.unique(np.concatenate((series_r, series_l)), return_inverse=True)
    width = int(codes.max(initial=0)) + 1
    key_r = run_r * width + codes[: len(run_r)]
    key_l = run_l * width + codes[len(run_r) :]
    order = np.argsort(key_r)
    place = np.searchsorted(key_r, key_l, sorter=order)
    found = order[np.minimum(place, len(order) - 1)]
    return np.where(key_r[found] == key_l, found, -1)


def lines_behind(values: pa.Table, lines: pa.Table, value_l: Integers, owned_l: Flags) -> Flags:
    """Whether each line stands behind a value. ``values`` has the columns status and samples,
    ``lines`` asv_run, round, status and samples in the order of writing; ``value_l`` is that of
    `values_of_lines`, ``owned_l`` whether a line names the machine and commit of its run."""
    behind = np.zeros(len(lines), bool)
    order = _ordered(lines, np.flatnonzero(owned_l & (value_l >= 0)), value_l)
    if not len(order):
        return behind
    last = order[_of_last_invocation(lines, order, value_l)]
    settled = _settled(values, lines, last, value_l)
    behind[last[settled[value_l[last]]]] = True
    ok = statuses_of(values["status"]) == OK
    stored = whole_of(values["samples"].combine_chunks().value_lengths())
    some = np.bincount(value_l[order], minlength=len(values)) > 0
    unclear = np.flatnonzero(ok & ~settled & some & (stored > 0))
    behind[_by_hand(values, lines, order, value_l, unclear)] = True
    return behind


def stretches(*keys: npt.NDArray[Any]) -> Integers:
    """Where each stretch of equal keys begins, of which there is at least one."""
    changes = np.zeros(len(keys[0]), bool)
    changes[:1] = True
    for key in keys:
        changes[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(changes)


def _ordered(lines: pa.Table, some: Integers, value_l: Integers) -> Integers:
    """These lines by value, then invocation, round and place."""
    runs, rounds = _invocations(lines)[some], whole_of(lines["round"])[some]
    return some[np.lexsort((rounds, runs, value_l[some]))]


def _of_last_invocation(lines: pa.Table, order: Integers, value_l: Integers) -> Flags:
    """Whether each of the lines, ordered, is of the invocation of its value that began last."""
    runs = _invocations(lines)[order]
    starts = stretches(value_l[order], runs)
    first = np.minimum.reduceat(order, starts)
    of_value = value_l[order[starts]]
    by_age = np.lexsort((first, of_value))
    ends = np.append(stretches(of_value[by_age])[1:], len(by_age)) - 1
    latest = np.zeros(len(starts), bool)
    latest[by_age[ends]] = True
    return np.repeat(latest, np.diff(np.append(starts, len(order))))


def _settled(values: pa.Table, lines: pa.Table, last: Integers, value_l: Integers) -> Flags:
    """Whether each value is what its last invocation says; ``last`` are the lines of those,
    ordered."""
    count = len(values)
    status = statuses_of(values["status"])
    said = np.zeros(count, bool)
    agreeing = last[statuses_of(lines["status"])[last] == status[value_l[last]]]
    said[value_l[agreeing]] = True
    said &= status != OK
    samples_r = values["samples"].combine_chunks()
    samples_l = lines["samples"].combine_chunks()
    stored = whole_of(samples_r.value_lengths(), unknown=-1)
    lengths = whole_of(samples_l.value_lengths())
    pooled = np.bincount(value_l[last], weights=lengths[last], minlength=count)
    there = np.bincount(value_l[last], minlength=count) > 0
    equal = (status == OK) & there & (stored == pooled)
    compared = last[equal[value_l[last]]]
    # `compared` is ordered by value, round and place: both sides pool to the same places
    pool_l = numbers_of(samples_l.take(integers(compared)).flatten())
    pool_r = numbers_of(samples_r.take(integers(np.flatnonzero(equal))).flatten())
    differs = ~((pool_l == pool_r) | (np.isnan(pool_l) & np.isnan(pool_r)))
    equal[np.repeat(value_l[compared], lengths[compared])[differs]] = False
    settled: Flags = said | equal
    return settled


def _by_hand(
    values: pa.Table, lines: pa.Table, order: Integers, value_l: Integers, unclear: Integers
) -> Integers:
    """The lines behind the values that take more than a look."""
    chosen = order[np.isin(value_l[order], unclear)]
    if not len(chosen):
        return chosen
    runs, rounds = _invocations(lines)[chosen], whole_of(lines["round"])[chosen]
    pooled = lines["samples"].take(integers(chosen)).to_pylist()
    stored = values["samples"].take(integers(unclear)).to_pylist()
    bounds = np.append(stretches(value_l[chosen]), len(chosen))
    found: list[int] = []
    for samples, start, end in zip(stored, bounds[:-1], bounds[1:], strict=True):
        found += attached(
            samples,
            [
                Line(str(runs[at]), int(rounds[at]), int(chosen[at]), tuple(pooled[at]))
                for at in range(start, end)
            ],
        )
    return np.array(found, np.int64)


def _invocations(lines: pa.Table) -> Integers:
    codes = lines["asv_run"].combine_chunks().dictionary_encode(null_encoding="encode")
    return whole_of(codes.indices).astype(np.int64)
