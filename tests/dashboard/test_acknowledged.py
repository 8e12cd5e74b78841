"""Accepted regressions: the file, what it accepts, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dashboard.acknowledged import Acknowledgement, load
from dashboard.cli import app
from dashboard.errors import InputError
from dashboard.models import Series
from dashboard.store.ingest import ingest

HASH = "3f2a91bc" + "0" * 32
SERIES = Series("forward.Forward.track_time", (("model", "m"), ("tokens", "8192")), "h", "e", "ms")
ENTRY = """
[[acknowledged]]
series = "forward.*(model=m, *)"
commit = "3F2A91BC"
reason = "fp32 accumulation (#41)"
author = "Ada"
expires = 2027-06-30
"""
FORWARD = "forward.Forward.track_time"


def write(folder: Path, text: str) -> Path:
    path = folder / "acknowledged.toml"
    path.write_text(text, "utf-8")
    return path


def test_an_entry_accepts_its_series_at_its_commit(tmp_path: Path) -> None:
    entries = load(write(tmp_path, ENTRY), today=date(2027, 6, 30))
    (entry,) = entries.entries
    assert entry == Acknowledgement(
        "forward.*(model=m, *)", "3f2a91bc", "fp32 accumulation (#41)", "Ada", date(2027, 6, 30)
    )
    assert entries.find(SERIES, [HASH]) is entry
    assert entries.find(SERIES, ["4" * 40]) is None
    other = Series("forward.Forward.track_time", (("model", "n"), ("t", "1")), "h", "e", "ms")
    assert entries.find(other, [HASH]) is None
    assert entries.complaints({entry}) == []


def test_an_expired_entry_accepts_nothing_and_is_reported(tmp_path: Path) -> None:
    entries = load(write(tmp_path, ENTRY), today=date(2027, 7, 1))
    assert entries.find(SERIES, [HASH]) is None
    assert entries.complaints(()) == [
        "acknowledgement of forward.*(model=m, *) at 3f2a91bc by Ada expired on 2027-06-30"
    ]


def test_an_entry_that_matches_nothing_is_reported_where_its_commit_is_judged(
    tmp_path: Path,
) -> None:
    entries = load(write(tmp_path, ENTRY), today=date(2027, 1, 1))
    told = "acknowledgement of forward.*(model=m, *) at 3f2a91bc by Ada matches no regression"
    assert entries.complaints((), {HASH})[0].startswith(told)
    assert entries.complaints((), {"4" * 40}) == []
    assert entries.complaints(())[0].startswith(told)


def test_no_file_and_an_empty_file_accept_nothing(tmp_path: Path) -> None:
    assert load(None).entries == ()
    assert load(write(tmp_path, "")).entries == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[acknowledged", "acknowledged.toml: not valid TOML"),
        ("[other]\n", "unknown table 'other'"),
        ("[acknowledged]\n", "with two brackets"),
        ("acknowledged = [1]\n", "entry 1 must be a table, not 1"),
        (ENTRY + ENTRY.replace('author = "Ada"\n', ""), "entry 2: author is missing"),
        (ENTRY.replace('"Ada"', '" "'), "entry 1: author must be a text, not ' '"),
        (ENTRY.replace('"Ada"', "3"), "entry 1: author must be a text, not 3"),
        (ENTRY.replace('"3F2A91BC"', '"main"'), "commit must be 7 to 40 hexadecimal digits"),
        (ENTRY.replace('"3F2A91BC"', '"3f2a9"'), "not '3f2a9'"),
        (ENTRY.replace("2027-06-30", '"soon"'), "expires must be a date such as 2027-06-30"),
        (ENTRY.replace("2027-06-30", "2027-06-30T00:00:00Z"), "expires must be a date"),
        (ENTRY + 'sereis = "x"\n', "entry 1: unknown key 'sereis'; known: series, commit"),
    ],
)
def test_a_bad_entry_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        load(write(tmp_path, text))
    assert words in str(caught.value)
    assert "acknowledged.toml" in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read acknowledgements .*nowhere\.toml"):
        load(tmp_path / "nowhere.toml")


@pytest.fixture
def slowed(tmp_path: Path, make_history: Callable[..., Any], recipe: Any) -> tuple[Path, Any]:
    """Four commits; forward is 10 % slower at the last."""
    made = make_history(tmp_path / "results", recipe(factors={(FORWARD, 3): 1.1}))
    ingest(tmp_path / "s.duckdb", made.results)
    return tmp_path / "s.duckdb", made


def check(
    folder: Path, monkeypatch: pytest.MonkeyPatch, store: Path, *options: str
) -> tuple[int, str]:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(app, ["check", "--store", str(store), *options])
    return result.exit_code, result.stdout


def test_the_check_fails_until_the_settings_name_a_file_that_accepts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slowed: tuple[Path, Any]
) -> None:
    store, made = slowed
    assert check(tmp_path, monkeypatch, store)[0] == 1
    (tmp_path / "pyproject.toml").write_text('[tool.lmhead-perf]\nacknowledged = "ci/ok.toml"\n')
    (tmp_path / "ci").mkdir()
    entry = f"""
    [[acknowledged]]
    series = "forward.*"
    commit = "{made.commits[3]}"
    reason = "needed | for convergence"
    author = "@ada"
    """
    (tmp_path / "ci" / "ok.toml").write_text(entry)
    code, text = check(tmp_path, monkeypatch, store)
    assert code == 0
    assert text.count("regressed ") >= 2, "it stays visible"
    assert "acknowledged by @ada: needed | for convergence" in text
    code, text = check(tmp_path, monkeypatch, store, "--format", "markdown")
    assert code == 0
    assert "needed &#124; for convergence" in text
    assert "@ada" not in text
    code, text = check(tmp_path, monkeypatch, store, "--format", "github")
    assert code == 0
    assert "::error" not in text
    assert text.count("::warning title=regressed%3A forward") == 2
    code, text = check(tmp_path, monkeypatch, store, "--format", "junit")
    assert 'failures="0"' in text
    (tmp_path / "ci" / "ok.toml").write_text(entry.replace("forward.*", "entropy.*"))
    code, text = check(tmp_path, monkeypatch, store)
    assert code == 1
    assert "matches no regression: remove it" in text


def test_an_acknowledgement_of_an_earlier_commit_does_not_accept_a_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slowed: tuple[Path, Any]
) -> None:
    store, made = slowed
    file = write(
        tmp_path,
        f"[[acknowledged]]\nseries = 'forward.*'\ncommit = '{made.commits[1]}'\n"
        "reason = 'r'\nauthor = 'a'\n",
    )
    code, text = check(tmp_path, monkeypatch, store, "--acknowledged", str(file))
    assert code == 1
    assert "matches no regression" not in text


@pytest.mark.parametrize(("base", "head", "missed"), [(1, 2, True), (3, 2, False), (0, 2, False)])
def test_an_entry_is_missed_where_its_commit_alone_is_judged(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    slowed: tuple[Path, Any],
    base: int,
    head: int,
    missed: bool,
) -> None:
    store, made = slowed
    file = write(
        tmp_path,
        f"[[acknowledged]]\nseries = 'entropy.*'\ncommit = '{made.commits[2]}'\n"
        "reason = 'r'\nauthor = 'a'\n",
    )
    sides = ("--base", made.commits[base], "--head", made.commits[head])
    _, text = check(tmp_path, monkeypatch, store, "--acknowledged", str(file), *sides)
    assert ("matches no regression" in text) is missed


def test_a_named_file_that_is_missing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slowed: tuple[Path, Any]
) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.lmhead-perf]\nacknowledged = "none.toml"\n')
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["check", "--store", str(slowed[0])])
    assert isinstance(result.exception, InputError)
    assert "none.toml" in str(result.exception)
