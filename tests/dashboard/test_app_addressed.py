"""Addresses that name machines and commits, there or not; on synthetic histories."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from app_pages import words
from streamlit.testing.v1 import AppTest

from dashboard.app import addressed, state
from dashboard.check import check
from dashboard.store import open_store
from dashboard.store.ingest import ingest
from dashboard.verdicts import Policy
from dashboard.verdicts.reports import render
from dashboard.verdicts.reports.context import Context

OPEN = Callable[..., AppTest]
PLACE = "synthetic-py3.12-gpu"


@dataclass(frozen=True)
class Two:
    """A store of two machines with commits of their own; ``newer`` measured last."""

    store: Path
    older: tuple[str, ...]
    newer: tuple[str, ...]


@pytest.fixture(scope="module")
def two(
    tmp_path_factory: pytest.TempPathFactory,
    make_history: Callable[..., Any],
    recipe: Callable[..., Any],
) -> Two:
    folder: Path = tmp_path_factory.mktemp("two")
    older = make_history(folder / "results", recipe(machine="older"))
    newer = make_history(folder / "results", recipe(machine="newer", seed=1, commits=5))
    ingest(folder / "two.duckdb", folder / "results")
    return Two(folder / "two.duckdb", older.commits, newer.commits)


@pytest.mark.parametrize("page", ["overview", "compare"])
def test_a_page_of_two_commits_shows_the_machine_that_has_them(
    page: str, open_page: OPEN, two: Two
) -> None:
    base, head = (commit[:8] for commit in two.older[1:3])
    app = open_page(page, two.store, base=base, head=head)
    assert app.selectbox(key=state.RUNNER).value == "older"
    told = words(app)
    assert f"Shown is older, which measured base {base} and head {head}." in told
    assert "newer, measured last, did not" in told
    assert not app.warning
    assert app.query_params["runner"] == "older", "a copy of the address means the same"
    if page == "compare":
        assert [box.value for box in app.selectbox[1:]] == list(two.older[1:3])


@pytest.mark.parametrize("page", ["headlines", "layouts", "entropy"])
def test_a_page_of_one_commit_shows_the_machine_that_has_it(
    page: str, open_page: OPEN, two: Two
) -> None:
    app = open_page(page, two.store, head=two.older[1][:8])
    assert app.selectbox(key=state.RUNNER).value == "older"
    assert two.older[1] in [box.value for box in app.selectbox]
    assert "Shown is older, which measured head" in words(app)


def test_a_machine_that_is_chosen_stays_and_what_it_lacks_is_named(
    open_page: OPEN, two: Two
) -> None:
    head = two.older[1][:8]
    app = open_page("headlines", two.store, head=head, runner="newer")
    assert app.selectbox(key=state.RUNNER).value == "newer"
    assert f"names head {head}, which not newer but older measured" in words(app)
    asked = open_page("headlines", two.store, head=head)
    chosen = asked.selectbox(key=state.RUNNER).select("newer").run()
    assert not chosen.exception
    assert chosen.selectbox(key=state.RUNNER).value == "newer", "choosing is not undone"
    assert "which not newer but older measured" in words(chosen)
    assert "Shown is" not in words(chosen)


@pytest.mark.parametrize("page", ["overview", "compare"])
def test_unknown_commits_are_named(page: str, open_page: OPEN, history_store: Path) -> None:
    app = open_page(page, history_store, base="zzz", head="beefbeef")
    assert not app.exception
    (told,) = (block.value.replace("\\", "") for block in app.warning)
    assert "names base zzz, which is no commit of this store" in told
    assert "names head beefbeef, which is no commit of this store" in told


@pytest.mark.parametrize(
    "page",
    ["overview", "compare", "layouts", "tuning", "entropy", "headlines", "regressions", "data"],
)
@pytest.mark.parametrize("several", [True, False])
def test_a_machine_that_is_not_there_is_named(
    page: str, several: bool, open_page: OPEN, two: Two, history_store: Path
) -> None:
    app = open_page(page, two.store if several else history_store, runner="gone")
    assert "names machine gone, which this store does not have" in words(app)


def test_trends_name_a_machine_that_is_not_there(open_page: OPEN, history_store: Path) -> None:
    app = open_page("trends", history_store, machine=f"gone · {PLACE}")
    assert f"names machine gone · {PLACE}, which this store does not have" in words(app)
    assert "names" not in words(open_page("trends", history_store, machine=f"synthetic · {PLACE}"))


def test_trends_relative_to_a_commit_show_the_machine_that_has_it(
    open_page: OPEN, two: Two
) -> None:
    asked = {"show": "relative to commit", "against": two.older[0][:8]}
    app = open_page("trends", two.store, **asked)
    assert app.multiselect(key=state.MACHINE).value == [f"older · {PLACE}"]
    assert two.older[0] in [box.value for box in app.selectbox]
    assert "Shown is older, which measured commit" in words(app)
    assert not app.warning
    elsewhere = open_page("trends", two.store, **asked, machine=f"newer · {PLACE}")
    assert "which not newer but older measured" in words(elsewhere)
    unknown = open_page("trends", two.store, **asked | {"against": "beefbeef"})
    assert "names commit beefbeef, which is no commit of this store" in words(unknown)


def test_a_machine_without_its_environment_means_its_places(open_page: OPEN, two: Two) -> None:
    app = open_page("trends", two.store, machine="older")
    assert app.multiselect(key=state.MACHINE).value == [f"older · {PLACE}"]
    assert not app.warning


def test_an_unknown_point_is_named(open_page: OPEN, history_store: Path, history: Any) -> None:
    app = open_page("trends", history_store, point="12@beefbeef")
    assert "the point's commit beefbeef, which is no commit of this store" in words(app)
    known = open_page("trends", history_store, point=f"12@{history.commits[0]}")
    assert not known.warning


def test_comparing_machines_takes_over_the_machine_of_the_other_pages(
    open_page: OPEN, two: Two
) -> None:
    app = open_page("compare", two.store, mode="machines", runner="older", other="gone")
    assert app.selectbox(key=state.RUNNER).value == f"older · {PLACE}"
    assert "names machine and environment gone, which" in words(app)
    back = open_page("compare", two.store, runner=f"older · {PLACE}")
    assert back.selectbox(key=state.RUNNER).value == "older"
    assert not back.warning


def test_the_links_of_a_report_open_what_it_reports(open_page: OPEN, two: Two) -> None:
    with open_store(two.store) as store:
        report = check(store, Policy(), base=two.older[1], head=two.older[2], machine="older")
    text = render(report, "markdown", Context(dashboard="https://perf.example/app"))
    (link,) = re.findall(r'href="([^"]*compare[^"]*)"', text)
    query = parse_qs(urlsplit(html.unescape(link)).query)
    assert query["runner"] == ["older"]
    app = open_page("compare", two.store, **query)
    assert [box.value for box in app.selectbox] == ["older", *two.older[1:3]]
    assert "Shown is" not in words(app)


MEASURED = {"a": ("aaaa1", "bbbb1"), "b": ("cccc1", "bbbb1"), "c": ("cccc1", "dddd1")}


@pytest.mark.parametrize(
    ("commits", "machine"),
    [
        ([], "a"),
        (["bbbb"], "a"),
        (["cccc"], "a"),  # two others have it
        (["cccc", "dddd"], "c"),
        (["dddd", "eeee"], "c"),  # nobody has the second
        (["bbbb", "dddd"], "a"),  # nobody has both
        (["ddd"], "a"),  # too short to name a commit
    ],
)
def test_commits_mean_the_only_machine_that_has_them(commits: list[str], machine: str) -> None:
    assert addressed.machine_of(MEASURED, commits) == machine


def test_what_an_address_repeats_is_bounded() -> None:
    (told,) = addressed.of_places("machine", ["x" * 500], [])
    assert len(told) < 150
    (told,) = addressed.of_commits({}, ["aaaa1"], "a", {"base": "aaaa"})
    assert told == "The address names base aaaa, which was never measured."
