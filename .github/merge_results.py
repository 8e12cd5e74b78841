"""Merge two asv results files of one commit and environment: merge_results.py OLD NEW.

Writes to NEW. Of a benchmark in both the one that started later stays. Other files, such as
benchmarks.json, are no results: NEW stays as it is. Only the standard library is needed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def merged(old: object, new: object) -> dict[str, Any] | None:
    """NEW with what only OLD has, or has later; None if they are no results of one commit."""
    if not isinstance(old, dict) or not isinstance(new, dict) or "results" not in new:
        return None
    same = ("commit_hash", "env_name", "version", "result_columns")
    if any(old.get(key) != new.get(key) for key in same):
        return None
    column = new["result_columns"].index("started_at")
    results = dict(old["results"])
    for name, row in new["results"].items():
        if name not in results or _started(row, column) >= _started(results[name], column):
            results[name] = row
    durations = {**old.get("durations", {}), **new.get("durations", {})}
    return {**new, "results": results, "durations": durations}


def _started(row: list[Any], column: int) -> float:
    value = row[column] if column < len(row) else None
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
