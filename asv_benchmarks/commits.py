"""Keep ``results/commits.jsonl``: the commits behind the results, for readers without git."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FILE = "commits.jsonl"
_FORMAT = "%x1f".join(("%H", "%T", "%P", "%an", "%ae", "%aI", "%cI", "%s"))


class CommitsFileError(ValueError):
    """The file of commits holds something else than commits."""


class GitError(RuntimeError):
    """What git says to be wrong."""


def run_git(repository: Path, *arguments: str, given: bytes = b"") -> bytes:
    """Standard output of git, whose standard input is ``given``. Raises GitError."""
    done = subprocess.run(
        # What a user's settings add to a log is no part of it.
        ["git", "-C", str(repository), "-c", "log.showSignature=false", *arguments],
        input=given,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise GitError(f"git {arguments[0]} in {repository}: {said}")
    return done.stdout


def _git(repository: Path, *arguments: str) -> str:
    """Standard output of git as text. Raises GitError."""
    return run_git(repository, *arguments).decode(errors="replace")


def _tags(repository: Path) -> dict[str, list[str]]:
    """Tags by the commit they point to, through annotated tags."""
    found: dict[str, list[str]] = {}
    listing = _git(
        repository,
        "for-each-ref",
        "--format=%(objectname) %(*objectname) %(refname:strip=2)",
        "refs/tags",
    )
    for line in listing.splitlines():
        target, peeled, name = line.split(" ", 2)
        found.setdefault(peeled or target, []).append(name)
    return found


def ancestry(repository: Path, commit: str) -> list[dict[str, Any]]:
    """``commit`` and all its ancestors, parents first, as rows of the file.

    Dates are ISO 8601 with the committer's own offset.
    """
    log = _git(
        repository, "log", "-z", "--topo-order", "--reverse", f"--format={_FORMAT}", commit, "--"
    )
    rows = []
    for entry in log.split("\0"):
        if not entry:
            continue
        commit_hash, tree, parents, author, email, author_date, date, subject = entry.split(
            "\x1f", 7
        )
        rows.append(
            {
                "hash": commit_hash,
                "tree": tree,
                "parents": parents.split(),
                "author": author,
                "author_email": email,
                "author_date": author_date,
                "date": date,
                "subject": subject,
                "tags": [],
            }
        )
    return rows


@contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """Hold the folder itself locked: no lock file is left among the results."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(path: Path, content: str) -> None:
    """Write beside and rename: a reader sees the old file or the new one."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _parse(path: Path, content: str) -> dict[str, dict[str, Any]]:
    """Rows by hash. Raises CommitsFileError, naming file and line, for what is not a row."""
    rows = {}
    # Not splitlines: a subject may hold one of the other characters that end a line.
    for number, line in enumerate(content.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            rows[row["hash"]] = row
        except (ValueError, TypeError, KeyError) as error:
            raise CommitsFileError(
                f"{path}:{number} is not the JSON of a commit ({error!r:.80}); mend or remove it"
            ) from error
    return rows


def record_commit(results: Path, repository: Path, commit: str) -> None:
    """Add ``commit`` and its ancestors to the file; tags are brought up to date.

    Idempotent: known commits keep their line and its place, and an unchanged
    file is not rewritten. Rows of commits that this repository lacks stay.
    Raises CommitsFileError, leaving the file as it is, where it cannot be read.
    """
    results.mkdir(parents=True, exist_ok=True)
    path = results / FILE
    with _exclusive(results):
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        rows = _parse(path, before)
        if commit not in rows:
            for row in ancestry(repository, commit):
                rows.setdefault(row["hash"], row)
        for commit_hash, names in _tags(repository).items():
            if commit_hash in rows:
                known = set(rows[commit_hash]["tags"])
                rows[commit_hash]["tags"] = sorted(known.union(names))
        after = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows.values())
        if after != before:
            _replace(path, after)
