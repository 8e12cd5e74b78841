"""Content digests of a results folder's files, remembered from one ingest to the next.

A history of thousands of files need not be read again to find the one that is new. As git's
index does, a file counts as unchanged if its size, times and inode are; one that was changed
within the last seconds before it was read is read again, since its next change might not show.
Losing the memory costs time only: it lies in the user's cache folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from dashboard.parsing import UnreadableError, load_json

_SETTLED_NS = 2_000_000_000
_FORMAT = 1

Stamp = list[int]


def digests(results: Path, locations: Mapping[str, Path]) -> dict[str, str | OSError]:
    """The digest of each regular file, or why it cannot be read, by its path in ``results``.

    SHA-1, as git names contents: several times as fast as SHA-256 where the CPU helps neither.
    """
    memory = _memory_of(results)
    remembered = _load(memory)
    now = time.time_ns()
    found: dict[str, str | OSError] = {}
    kept: dict[str, tuple[Stamp, str]] = {}
    unknown: dict[str, Stamp] = {}
    for path, location in locations.items():
        try:
            status = location.stat()
        except FileNotFoundError:
            continue  # a link that leads nowhere
        except OSError as error:
            found[path] = error
            continue
        if not stat.S_ISREG(status.st_mode):
            continue
        stamp = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
        earlier = remembered.get(path)
        if earlier is not None and list(earlier[0]) == stamp:
            found[path], kept[path] = earlier[1], (stamp, earlier[1])
        else:
            unknown[path] = stamp
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        read = pool.map(_digest, [locations[path] for path in unknown])
        for (path, stamp), digest in zip(unknown.items(), read, strict=True):
            found[path] = digest
            if isinstance(digest, str) and max(stamp[1], stamp[2]) < now - _SETTLED_NS:
                kept[path] = (stamp, digest)
    if kept != remembered:
        _save(memory, kept)
    return found


def _digest(location: Path) -> str | OSError:
    try:
        with location.open("rb") as handle:
            return hashlib.file_digest(handle, "sha1").hexdigest()
    except OSError as error:
        return error


def _memory_of(results: Path) -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    name = hashlib.sha1(os.fsencode(results.resolve())).hexdigest()
    return Path(base) / "lmhead-perf" / f"digests-{name}.json"


def _load(memory: Path) -> dict[str, tuple[Stamp, str]]:
    try:
        document = load_json(memory.read_bytes())
        if document["format"] == _FORMAT:
            return {path: (list(stamp), str(digest)) for path, stamp, digest in document["files"]}
    except (OSError, UnreadableError, ValueError, KeyError, TypeError):
        pass  # nothing is remembered
    return {}


def _save(memory: Path, kept: Mapping[str, tuple[Stamp, str]]) -> None:
    document = {"format": _FORMAT, "files": [[path, *entry] for path, entry in kept.items()]}
    side = memory.with_name(f"{memory.name}.{os.getpid()}")
    with suppress(OSError):
        memory.parent.mkdir(parents=True, exist_ok=True)
        side.write_text(json.dumps(document))
        side.replace(memory)
