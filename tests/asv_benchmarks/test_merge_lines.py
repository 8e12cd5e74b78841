"""Merging lines of which killed writers tore some. Synthetic lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from result_folders import content

from asv_benchmarks.merge import Counts, main, merge

ROUNDS = "rounds/abcd1234-env-m.jsonl"
FIRST, SECOND, THIRD = (
    json.dumps({"round": number, "reason": "größer"}, ensure_ascii=False) for number in range(3)
)
COMMIT = json.dumps({"hash": "abcd1234", "tags": []})


def folder(path: Path, **files: str) -> Path:
    """Results with one round and one commit; ``files`` have other text."""
    (path / "rounds").mkdir(parents=True)
    for name, text in {"commits.jsonl": f"{COMMIT}\n", ROUNDS: f"{FIRST}\n", **files}.items():
        (path / name).write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "torn", [SECOND[:9].encode(), SECOND.encode()[: -len('ößer"}'.encode()) + 1]]
)
def test_a_torn_piece_in_the_target_stays_apart(torn: bytes, tmp_path: Path) -> None:
    into = folder(tmp_path / "into")
    source = folder(tmp_path / "source", **{ROUNDS: f"{FIRST}\n{SECOND}\n{THIRD}\n"})
    with (into / ROUNDS).open("ab") as file:
        file.write(torn)
    assert merge([source], into) == [Counts(rounds=2)]
    expected = [FIRST.encode(), torn, SECOND.encode(), THIRD.encode(), b""]
    assert (into / ROUNDS).read_bytes().split(b"\n") == expected
    before = content(into)
    assert merge([source], into) == [Counts()]
    assert content(into) == before


@pytest.mark.parametrize("name", [ROUNDS, "commits.jsonl"])
def test_a_last_line_that_lacks_only_its_newline_is_complete(name: str, tmp_path: Path) -> None:
    known, new = (json.dumps({"hash": one}) for one in "ab")
    into = folder(tmp_path / "into", **{name: known})
    source = folder(tmp_path / "source", **{name: f"{known}\n{new}"})
    merge([source], into)
    assert (into / name).read_text() == f"{known}\n{new}\n"
    merge([source], into)
    assert (into / name).read_text() == f"{known}\n{new}\n"


def test_a_target_that_gets_no_line_is_not_touched(tmp_path: Path) -> None:
    into = folder(tmp_path / "into", **{ROUNDS: f"{FIRST}\n{SECOND[:9]}"})
    before = content(into)
    assert merge([folder(tmp_path / "source")], into) == [Counts()]
    assert content(into) == before


def test_lines_that_are_no_json_are_passed_over_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into = tmp_path / "into"
    source = folder(
        tmp_path / "source",
        **{
            ROUNDS: f"{FIRST}\n{SECOND[:9]}{THIRD}\n\n7\n{THIRD}\n",
            "commits.jsonl": f'{COMMIT}\n{{"tags": []}}\n{COMMIT[:-5]}',
        },
    )
    with (source / ROUNDS).open("ab") as file:
        file.write(b'{"reason": "\xff"}\n')
        file.write("größer".encode()[:3])  # torn within a character
    for rounds in (2, 0):
        assert main([str(source), str(into)]) == 0
        said = capsys.readouterr().err
        assert f"{rounds} rounds" in said
        assert said.endswith(", 6 broken lines passed over\n")
        assert (into / ROUNDS).read_text() == f"{FIRST}\n{THIRD}\n"
        assert (into / "commits.jsonl").read_text() == f"{COMMIT}\n"


def test_a_torn_last_commit_of_the_target_does_not_stop_the_merge(tmp_path: Path) -> None:
    into = folder(tmp_path / "into", **{"commits.jsonl": COMMIT[:9]})
    merge([folder(tmp_path / "source")], into)
    assert (into / "commits.jsonl").read_text() == f"{COMMIT[:9]}\n{COMMIT}\n"
