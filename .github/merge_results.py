"""Merge two asv results files of one commit and environment: merge_results.py OLD NEW.

Writes to NEW. Jobs that measured different parameters of one benchmark lose nothing: each
parameter combination stays that either has. Of one that both have, and of a benchmark whose
version or parameters differ, the one that started later stays. Other files, such as
benchmarks.json, are no results: NEW stays as it is.

Only the standard library is needed: the jobs that publish install nothing, and the branch
holds results of several versions of a benchmark, which `asv_benchmarks.merge` refuses to mix.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

Row = dict[str, Any]

_SAME_FILE = ("commit_hash", "env_name", "version", "result_columns")


def merged(old: object, new: object) -> dict[str, Any] | None:
    """NEW with what only OLD has, or has later; None if they are no results of one commit."""
    if not isinstance(old, dict) or not isinstance(new, dict) or "results" not in new:
        return None
    if any(old.get(key) != new.get(key) for key in _SAME_FILE):
        return None
    columns = new["result_columns"]
    results = dict(old["results"])
    for name, row in new["results"].items():
        results[name] = _of_both(results[name], row, columns) if name in results else row
    durations = {**old.get("durations", {}), **new.get("durations", {})}
    return {**new, "results": results, "durations": durations}


def _of_both(old: list[Any], new: list[Any], columns: list[str]) -> list[Any]:
    """One benchmark's row: the later one with the parameters that only the earlier measured."""
    # Trailing columns without a value are not stored.
    earlier, later = (
        {**dict.fromkeys(columns), **dict(zip(columns, r, strict=False))} for r in (old, new)
    )
    if _started(earlier) > _started(later):
        earlier, later = later, earlier
    before, after = earlier["result"], later["result"]
    alike = all(earlier.get(key) == later.get(key) for key in ("version", "params"))
    if alike and isinstance(before, list):
        # A benchmark that could not be run at all has no list, and tells of no parameters.
        missing = [math.nan] * len(before) if after is None else after
        if isinstance(missing, list) and len(missing) == len(before):
            _fill(later, earlier, [i for i, value in enumerate(missing) if _is_missing(value)])
    row = [later[column] for column in columns]
    while row and row[-1] is None:
        row.pop()
    return row


def _fill(later: Row, earlier: Row, places: list[int]) -> None:
    """Take the values of these parameter combinations over, in each column that has them."""
    count = len(earlier["result"])
    for column, values in earlier.items():
        if column == "params" or not _is_of_count(values, count):
            continue
        whole = later[column]
        kept = list(whole) if _is_of_count(whole, count) else [None] * count
        for place in places:
            kept[place] = values[place]
        later[column] = kept


def _is_of_count(values: object, count: int) -> bool:
    return isinstance(values, list) and len(values) == count


def _is_missing(value: object) -> bool:
    """NaN is skipped or not selected; None is a failure, and stays."""
    return isinstance(value, float) and math.isnan(value)


def _started(row: Row) -> float:
    value = row.get("started_at")
    return value if isinstance(value, int | float) else 0.0


def main() -> None:
    """Merge the files named on the command line."""
    old, new = (Path(name) for name in sys.argv[1:3])
    try:
        result = merged(json.loads(old.read_text("utf-8")), json.loads(new.read_text("utf-8")))
    except ValueError as error:
        print(f"{old.name} or the one there is no JSON ({error}): replaced", file=sys.stderr)
        return
    if result is not None:
        # NaN stays NaN: asv tells skipped from failed by it.
        new.write_text(json.dumps(result) + "\n", "utf-8")


if __name__ == "__main__":
    main()
