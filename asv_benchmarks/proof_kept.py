"""Sittings of a proof as they ship: one compressed file each, with every round and verdict.

Same content, same bytes: a file that exists is never written with anything else.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SUFFIX = ".json.gz"

# What torn, foreign or hostile bytes raise.
_UNREADABLE = (
    *(OSError, EOFError, zlib.error, ValueError, RecursionError),
    *(KeyError, TypeError, AttributeError),
)


class KeptError(Exception):
    """A file that cannot be read, or would be overwritten; the message names it."""


def name_of(complete: Mapping[str, Any], rounds: Sequence[Mapping[str, Any]]) -> str:
    """By what was measured, of which commit, when its first round began and on which card."""
    began = min(line["started_at"] for line in rounds)[:19].replace("-", "").replace(":", "")
    uuid = next((line["gpu_uuid"] for line in rounds if line["gpu_uuid"]), "cpu")
    card = uuid.removeprefix("GPU-").split("-")[0]
    return f"{complete['set']}-{complete['measured'][:8]}-{began}-{card}{SUFFIX}"


def keep(
    folder: Path, complete: Mapping[str, Any], rounds: Sequence[Mapping[str, Any]]
) -> tuple[Path, bool]:
    """Write a complete, judged sitting into ``folder``; its file, and whether it is new.

    Raises KeptError where the file holds another sitting, or there is no folder to be made.
    """
    if not rounds:
        raise KeptError(f"a sitting of {complete['measured'][:8]} has no rounds")
    path = folder / name_of(complete, rounds)
    lines = sorted(rounds, key=lambda line: str(line["started_at"]))
    text = json.dumps({"complete": complete, "rounds": lines}, sort_keys=True)
    if path.exists():
        if read(path) != (complete, lines):
            raise KeptError(f"{path} holds another sitting")
        return path, False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode("utf-8"), mtime=0))
    except OSError as error:
        raise KeptError(f"{path} cannot be written: {error.strerror}") from error
    return path, True


def read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The mark and the rounds that :func:`keep` wrote. Raises KeptError."""
    try:
        found = json.loads(gzip.decompress(path.read_bytes()))
        complete, rounds = found["complete"], found["rounds"]
        sides = complete["sides"].values()
        foreign = [line["commit"] for line in rounds if line["commit"] not in sides]
    except _UNREADABLE as error:
        raise KeptError(f"{path} is no kept sitting: {error!r}") from error
    if foreign:
        raise KeptError(f"{path} has rounds of {foreign[0]}, which is no side of its sitting")
    return complete, rounds


MARKED = {"measured", "plant", "rounds", "seconds", "set", "sides"}


def mark(path: Path) -> dict[str, Any]:
    """What a complete sitting's mark says. Raises KeptError for none, or an older suite's."""
    try:
        complete: dict[str, Any] = json.loads(path.read_bytes())
        lacking = sorted(MARKED - set(complete))
    except _UNREADABLE as error:
        raise KeptError(f"{path} is no mark of a sitting: {error!r}") from error
    if lacking:
        raise KeptError(f"{path} is no mark of a sitting: it lacks {', '.join(lacking)}")
    return complete


def files_in(folder: Path) -> list[Path]:
    """The kept sittings of a folder, by set, commit and time."""
    return sorted(folder.glob(f"*{SUFFIX}"))
