"""commits.jsonl from a synthetic repository with a merge and tags."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from asv_benchmarks.commits import CommitsFileError, ancestry, record_commit


def rows(results: Path) -> dict[str, dict[str, object]]:
    lines = (results / "commits.jsonl").read_text().split("\n")
    parsed = [json.loads(line) for line in lines if line]
    assert len({row["hash"] for row in parsed}) == len(parsed)
    return {row["hash"]: row for row in parsed}


def test_ancestors_are_written_once_and_tags_kept_up_to_date(toy, tmp_path: Path) -> None:
    first = toy.sleeping(1, "first: \u00fc, a | and a \t tab")
    second = toy.sleeping(2, "second")
    toy.git("checkout", "-q", "-b", "side", first)
    side = toy.sleeping(3, "side")
    toy.git("checkout", "-q", "main")
    toy.git("merge", "-q", "--no-ff", "-s", "ours", "-m", "merge", "side")
    merge = toy.git("rev-parse", "HEAD")
    results = tmp_path / "results"

    record_commit(results, toy.folder, second)
    assert list(rows(results)) == [first, second]
    record_commit(results, toy.folder, merge)
    known = rows(results)
    assert list(known)[:2] == [first, second], "known lines keep their place"
    assert set(known) == {first, second, side, merge}
    assert known[merge]["parents"] == [second, side]
    assert known[first]["subject"] == "first: \u00fc, a | and a \t tab"
    assert known[first]["author_email"] == "toy@example.org"

    path = results / "commits.jsonl"
    stamp = path.stat().st_mtime_ns, path.stat().st_ino
    record_commit(results, toy.folder, first)
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == stamp, "nothing new, not rewritten"

    toy.git("tag", "-a", "v2", "-m", "annotated", merge)
    toy.git("tag", "v1", first)
    record_commit(results, toy.folder, first)
    assert rows(results)[merge]["tags"] == ["v2"]
    assert rows(results)[first]["tags"] == ["v1"]
    assert [file.name for file in results.iterdir()] == ["commits.jsonl"]


def test_commits_of_another_clone_stay(toy, tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    foreign = {"hash": "f" * 40, "subject": "elsewhere", "tags": []}
    (results / "commits.jsonl").write_text(json.dumps(foreign) + "\n")
    commit = toy.sleeping(1, "here")
    record_commit(results, toy.folder, commit)
    assert list(rows(results)) == ["f" * 40, commit]


@pytest.mark.parametrize("odd", ["\u2028", "\x85", "\x1f", "\x0b"], ids=ascii)
def test_a_subject_may_hold_what_ends_a_line_elsewhere(toy, tmp_path: Path, odd: str) -> None:
    first = toy.sleeping(1, f"a{odd}b")
    record_commit(tmp_path, toy.folder, first)
    second = toy.sleeping(2, "second")
    record_commit(tmp_path, toy.folder, second)
    assert list(rows(tmp_path)) == [first, second]
    assert rows(tmp_path)[first]["subject"] == f"a{odd}b"


@pytest.mark.parametrize("line", ["<<<<<<< ours", "[]", "{}"])
def test_what_is_no_commit_is_named_and_left_as_it_is(toy, tmp_path: Path, line: str) -> None:
    path = tmp_path / "commits.jsonl"
    record_commit(tmp_path, toy.folder, toy.sleeping(1, "first"))
    broken = path.read_text() + "\n" + line + "\n"
    path.write_text(broken)
    with pytest.raises(CommitsFileError, match=r"commits\.jsonl:3 is not the JSON of a commit"):
        record_commit(tmp_path, toy.folder, toy.sleeping(2, "second"))
    assert path.read_text() == broken


def test_an_unknown_commit_says_so(toy) -> None:
    toy.sleeping(1, "first")
    with pytest.raises(RuntimeError, match="git log"):
        ancestry(toy.folder, "f" * 40)


def test_a_users_settings_add_nothing_to_a_signed_commit(toy) -> None:
    plain = toy.sleeping(1, "first")
    headers, _, message = toy.git("cat-file", "commit", plain).partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n none\n -----END PGP SIGNATURE-----"
    made = toy.folder / "signed"
    made.write_text(f"{headers}\n{signature}\n\n{message}\n")
    signed = toy.git("hash-object", "-w", "-t", "commit", str(made))
    toy.git("config", "log.showSignature", "true")
    assert [row["hash"] for row in ancestry(toy.folder, signed)] == [signed]
