"""Merging what other versions, other people and broken disks leave. Synthetic results."""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from result_folders import FIRST, NAME, RESULTS, ROUNDS, SECOND, content, described, folder, stored

from asv_benchmarks.merge import Counts, MergeError, main, merge

Edit = Callable[[dict[str, Any]], None]


def refused(sources: list[Path], into: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line with which a merge is refused that changes nothing."""
    before = content(into) if into.is_dir() else into.exists()
    assert main([*map(str, sources), str(into)]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.endswith(f"; {into} is left as it was\n")
    assert tempfile.gettempdir() + "/lmhead-merge" not in said
    assert (content(into) if into.is_dir() else into.exists()) == before
    return said


@pytest.mark.parametrize(("known", "new"), [("1", "abc"), ("abc", "1")])
@pytest.mark.parametrize("where", ["benchmarks.json", RESULTS])
def test_versions_without_an_order_name_both_files(
    known: str, new: str, where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def text(version: str) -> str:
        return described(version) if where != RESULTS else stored([1.0], version)

    into = folder(tmp_path / "into", **{where: text(known)})
    source = folder(tmp_path / "source", **{where: text(new)})
    said = refused([source], into, capsys)
    assert f"{NAME} is version {known} in {into / where} and {new} in {source / where};" in said


def test_other_parameters_name_both_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into = folder(tmp_path / "into", **{RESULTS: stored([1.0, 2.0], params=[["a", "b"]])})
    source = folder(tmp_path / "source", **{RESULTS: stored([3.0, 4.0], params=[["a", "c"]])})
    said = refused([source], into, capsys)
    assert f"{NAME} has other parameters in {into / RESULTS} than in {source / RESULTS};" in said


@pytest.mark.parametrize("exists", [False, True])
def test_of_several_folders_none_is_merged_if_one_contradicts(
    exists: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = folder(tmp_path / "one", **{ROUNDS: f"{FIRST}\n{SECOND}\n"})
    other = folder(tmp_path / "other", **{"benchmarks.json": described("abc")})
    into = tmp_path / "into"
    if exists:
        (into / "rounds").mkdir(parents=True)
    said = refused([one, other], into, capsys)
    assert f"{into / 'benchmarks.json'} and abc in {other / 'benchmarks.json'}" in said
    assert f"{one} merged before" in said


def edited(edit: Edit) -> str:
    found = json.loads(stored([1.0, 2.0]))
    edit(found)
    return json.dumps(found)


def cell(index: int, value: object) -> str:
    return edited(lambda found: found["results"][NAME].__setitem__(index, value))


BROKEN = {
    "torn descriptions": ("benchmarks.json", described()[:-9]),
    "a list of descriptions": ("benchmarks.json", "[]"),
    "a description without a version": ("benchmarks.json", json.dumps({NAME: {}})),
    "deep descriptions": ("benchmarks.json", "[" * 100_000),
    "torn results": (RESULTS, stored([1.0])[:-9]),
    "a list of results": (RESULTS, "[]"),
    "a number": (RESULTS, "7"),
    "results without a machine": (RESULTS, edited(lambda found: found["params"].clear())),
    "results without a commit": (RESULTS, edited(lambda found: found.pop("commit_hash"))),
    "results of another format": (RESULTS, edited(lambda found: found.update(version=1))),
    "results that are a list": (RESULTS, edited(lambda found: found.update(results=[]))),
    "a row that is a number": (RESULTS, edited(lambda found: found["results"].update({NAME: 7}))),
    "a value that is a word": (RESULTS, cell(0, ["fast", 1.0])),
    "values that are a number": (RESULTS, cell(0, 7)),
    "parameters that are a number": (RESULTS, cell(1, [7])),
    "no parameters": (RESULTS, cell(1, None)),
    "no version": (RESULTS, cell(2, None)),
    "no start": (RESULTS, cell(3, None)),
    "a start that is no time": (RESULTS, cell(3, math.nan)),
    "a duration that is a word": (RESULTS, cell(4, "long")),
}


@pytest.mark.parametrize("where", ["source", "target"])
@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_named(
    case: str, where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, text = BROKEN[case]
    into, source = folder(tmp_path / "into"), folder(tmp_path / "source")
    broken = (source if where == "source" else into) / name
    broken.write_text(text)
    assert str(broken) in refused([source], into, capsys)


def test_a_target_that_is_a_file_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into = tmp_path / "into"
    into.write_text("not results")
    assert f"{into} is no folder" in refused([folder(tmp_path / "source")], into, capsys)


def test_a_file_where_a_folder_belongs_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into = tmp_path / "into"
    into.mkdir()
    (into / "rounds").write_text("")
    assert f"{into / 'rounds'} is no folder" in refused([folder(tmp_path / "s")], into, capsys)


@pytest.mark.parametrize("where", ["source", "target"])
def test_a_pipe_in_the_place_of_a_file_is_named(
    where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into, source = folder(tmp_path / "into"), folder(tmp_path / "source")
    pipe = (source if where == "source" else into) / ROUNDS
    pipe.unlink()
    os.mkfifo(pipe)
    assert f"{pipe} is no file" in refused([source], into, capsys)


def test_results_that_nobody_may_write_merge_into_a_new_folder(tmp_path: Path) -> None:
    one = folder(tmp_path / "one")
    other = folder(tmp_path / "other", **{RESULTS: stored([1.0, 2.0])})
    (one / RESULTS).chmod(0o444)
    merge([one, other], tmp_path / "into")
    assert (tmp_path / "into" / RESULTS).stat().st_mode & 0o200


def test_a_link_to_nothing_in_a_source_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = folder(tmp_path / "source")
    (source / "rounds" / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    assert "gone.jsonl is no file" in refused([source], tmp_path / "into", capsys)


def test_only_what_is_merged_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    into, source = folder(tmp_path / "into"), folder(tmp_path / "source")
    os.mkfifo(into / "pipe.json")
    (into / "gone").symlink_to(tmp_path / "nowhere")
    for stranger in ("large", "m/large.json", "rounds/large.jsonl"):
        (into / stranger).write_text("a stranger's")
    copied, copy = set(), shutil.copy

    def noted(one: Path, other: Path) -> object:
        copied.add(str(one.relative_to(into)))
        return copy(one, other)

    monkeypatch.setattr(shutil, "copy", noted)
    assert merge([source], into) == [Counts()]
    assert copied == {"benchmarks.json", "commits.jsonl", ROUNDS, "m/machine.json", RESULTS}


@pytest.mark.parametrize("name", [ROUNDS, RESULTS])
def test_a_write_that_fails_says_that_a_part_may_be_merged(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A link to where no file can be made: the rehearsal takes it for a file that lacks."""
    into, source = tmp_path / "into", folder(tmp_path / "source")
    (into / name).parent.mkdir(parents=True)
    (into / name).symlink_to(tmp_path / "nowhere" / "file")
    assert main([str(source), str(into)]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"{source / name} into {into / name}: No such file" in said
    assert f"{into} may have a part" in said
    assert (into / "commits.jsonl").exists()
    (into / name).unlink()
    assert main([str(source), str(into)]) == 0
    assert (into / name).read_text() == (source / name).read_text()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_may_not_be_written_is_found_before_anything_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into = folder(tmp_path / "into")
    source = folder(tmp_path / "source", **{RESULTS: stored([1.0, 2.0])})
    (into / RESULTS).chmod(0o444)
    assert f"{into / RESULTS}: Permission denied" in refused([source], into, capsys)


def test_a_result_file_that_cannot_be_saved_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from asv.results import Results

    into = folder(tmp_path / "into")
    source = folder(tmp_path / "source", **{RESULTS: stored([1.0, 2.0])})
    save = Results.save

    def full(self: Any, path: str) -> None:
        if Path(path) == into:
            raise OSError(28, "No space left on device")
        save(self, path)

    monkeypatch.setattr(Results, "save", full)
    with pytest.raises(MergeError, match=r"No space left on device; .* may have a part") as caught:
        merge([source], into)
    assert str(into / RESULTS) in str(caught.value)
