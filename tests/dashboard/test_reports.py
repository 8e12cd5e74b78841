"""The report of a check in its formats; all numbers are invented."""

from __future__ import annotations

import argparse
import html
import json
import re
import shlex
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from dashboard.acknowledged import Acknowledgement
from dashboard.models import CheckReport, Commit, Series, SeriesVerdict, Verdict
from dashboard.verdicts.reports import FORMATS, exit_code, render
from dashboard.verdicts.reports.context import Context
from dashboard.verdicts.reports.links import measure_again, trend_link
from dashboard.verdicts.reports.schemas import check_schema

NASTY = "x|y `code` <img src=x> @team #777 GH-7 https://evil.example www.evil.example *b*\n| a |"
DATE = datetime(2026, 1, 1, tzinfo=UTC)


def verdict(kind: Verdict, benchmark: str = "forward.Forward.track_time") -> SeriesVerdict:
    series = Series(benchmark, (("model", "'a'"), ("tokens", "8192")), "h200", "e", "ms", "forward")
    return SeriesVerdict(
        series,
        kind,
        "because",
        base=10.0,
        head=10.5,
        ratio=1.05,
        low=1.04,
        high=1.06,
        threshold=0.02,
    )


def report(*verdicts: SeriesVerdict, notes: tuple[str, ...] = ()) -> CheckReport:
    base = Commit("a" * 40, DATE, subject="before")
    head = Commit("b" * 40, DATE, subject=NASTY, author="<b>x</b>", tags=("v1",))
    return CheckReport(base, head, verdicts, notes)


def nasty() -> CheckReport:
    series = Series(NASTY, ((NASTY, NASTY),), NASTY, NASTY, NASTY, NASTY)
    found = SeriesVerdict(series, Verdict.FAILED, NASTY + "\x1b[31m\x00\ud800")
    return report(found, verdict(Verdict.UNCHANGED, NASTY), notes=(NASTY,))


def test_text_begins_with_the_summary_and_aligns_the_table() -> None:
    shown = report(verdict(Verdict.REGRESSED), verdict(Verdict.UNCHANGED, "f"), notes=("hm",))
    lines = render(shown, "text").splitlines()
    assert lines[0] == "aaaaaaaa → bbbbbbbb: 1 regressed, 1 unchanged"
    assert lines[1].startswith(
        "geometric mean of calls' times +5.00 % over 2 series measured at both, "
    )
    assert lines[2] == "note: hm"
    header, first, second = lines[4:]
    assert first.startswith("regressed  +5.00 %  +4.00 … +6.00 %    10  10.5  ms")
    assert header.index("reason") == first.index("because") == second.index("because")
    assert header.index("series") == first.index("forward.") == second.index("f(")


def test_text_names_the_machine_only_where_there_are_several() -> None:
    other = SeriesVerdict(
        Series("b", (), "laptop", "cpu", "s"), Verdict.NEW, "not measured at base"
    )
    assert "h200" not in render(report(verdict(Verdict.NEW)), "text")
    assert "b [laptop, cpu]" in render(report(verdict(Verdict.NEW), other), "text")


def test_text_keeps_hostile_names_on_one_line() -> None:
    lines = render(nasty(), "text").splitlines()
    assert len(lines) == 7
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", "".join(lines))


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "json"])
def test_nothing_turns_the_direction_of_the_text_after_it(name: str) -> None:
    turning = "safe \u202egnp.exe \u2066x \u061c \u200f\u2028end"
    found = SeriesVerdict(Series(turning, (), turning, "e", turning), Verdict.FAILED, turning)
    shown = render(report(found, notes=(turning,)), name, context())
    assert not re.search(r"[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]", shown)
    assert "u202egnp.exe" in shown, "made visible"


@pytest.mark.parametrize(
    ("base", "head", "shown"),
    [
        (147680.0, 147696.0, "+16 bytes (+0.01 %)"),
        (147696.0, 147680.0, "-16 bytes (-0.01 %)"),
        (0.0, 4.0, "+4 bytes"),
        (12.0, 12.0, "+0 bytes"),
        (1e11, 1e11 + 1, "+1 bytes (+0.00 %)"),
    ],
)
def test_the_numbers_of_an_exact_quantity_show_their_difference(
    base: float, head: float, shown: str
) -> None:
    """Four digits make 144 KiB and 16 bytes more the same."""
    ratio = head / base if base else None
    found = replace(
        verdict(Verdict.REGRESSED), base=base, head=head, ratio=ratio, low=ratio, high=ratio,
        threshold=0.0, series=Series("memory.F.track_bytes", (), "m", "e", "bytes", "memory"),
    )  # fmt: skip
    for name in ("text", "markdown", "junit"):
        text = html.unescape(render(report(found), name))
        assert shown in text, name
        assert f"{base:.0f}" in text, name
        assert f"{head:.0f}" in text, name
        assert "… +" not in text, "it has no interval"
    if ratio is not None:
        message = render(report(found), "github").replace("%25", "%")
        assert f"::{shown}; because" in message


def test_a_difference_stands_in_for_a_ratio() -> None:
    series = Series("spills", (), "m", "e", "count")
    found = SeriesVerdict(series, Verdict.REGRESSED, "r", base=0.0, head=4.0, difference=4.0)
    assert "+4 count" in render(report(found), "text")
    assert json.loads(render(report(found), "json"))["series"][0]["ratio"] is None


def test_json_has_the_documented_shape() -> None:
    document = json.loads(render(report(verdict(Verdict.REGRESSED), notes=("n",)), "json"))
    assert document["base"]["commit"] == "a" * 40
    assert document["head"]["subject"] == NASTY
    assert document["summary"] == {"regressed": 1}
    assert document["notes"] == ["n"]
    (series,) = document["series"]
    assert series["params"] == {"model": "a", "tokens": 8192}
    assert series["interval"] == [1.04, 1.06]
    assert series["verdict"] == "regressed"
    assert {
        "benchmark",
        "machine",
        "environment",
        "unit",
        "base",
        "head",
        "ratio",
        "reason",
    } <= set(series)


def test_json_is_strict_where_values_are_not_finite() -> None:
    series = Series("b", (("p", "inf"), ("q", "__import__('os')"), ("r", "1e999")), "m", "e", "s")
    found = SeriesVerdict(series, Verdict.FAILED, "r", base=float("inf"), head=float("nan"))
    text = render(report(found), "json")
    (shown,) = json.loads(text, parse_constant=lambda name: pytest.fail(name))["series"]
    assert shown["base"] is None
    assert shown["head"] is None
    assert shown["interval"] is None
    assert shown["params"] == {"p": "inf", "q": "__import__('os')", "r": "1e999"}


def test_markdown_shows_changes_and_folds_the_rest() -> None:
    text = render(report(verdict(Verdict.REGRESSED), verdict(Verdict.UNCHANGED)), "markdown")
    before, folded = text.split("<details><summary>1 unchanged</summary>")
    assert "**regressed**" in before
    assert "**unchanged**" in folded
    assert "</details>" in folded
    assert "<details>" not in render(report(verdict(Verdict.NEW)), "markdown")


def test_markdown_leaves_nothing_of_hostile_names_active() -> None:
    text = render(nasty(), "markdown")
    assert set(re.findall(r"<(\w+)", text)) <= {"code", "br", "details", "summary"}
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows} == {8}
    outside = re.sub(r"<code>.*?</code>", "", text)
    for active in ("@team", "#777", "GH-7", "://", "www.", "`", "*b*", "&#64;team", "&#35;777"):
        assert active not in outside, active
    assert "\x1b" not in text


def test_markdown_stays_within_a_comment() -> None:
    many = [verdict(Verdict.REGRESSED, f"b{i}" * 50) for i in range(400)]
    text = render(report(*many, *(verdict(Verdict.UNCHANGED) for _ in range(400))), "markdown")
    assert len(text) < 65_536
    left_out = [int(n) for n in re.findall(r"(\d+) further series", text)]
    shown = text.count("**regressed**") + text.count("**unchanged**")
    assert sum(left_out) + shown == 800


def test_junit_fails_what_the_check_fails_and_skips_what_it_cannot_tell() -> None:
    kinds = list(Verdict)
    root = ET.fromstring(render(report(*map(verdict, kinds)), "junit"))
    suite = root.find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("8", "3", "2")
    failed = {f.get("type") for f in suite.iter("failure")}
    assert failed == {"regressed", "failed", "missing"}


def test_junit_is_well_formed_for_hostile_names() -> None:
    root = ET.fromstring(render(nasty(), "junit").encode())
    case = root.find("testsuite/testcase")
    assert case is not None
    assert "<img src=x>" in str(case.get("name"))


def test_the_summary_says_what_all_series_did_and_what_they_share() -> None:
    shared = [verdict(Verdict.REGRESSED, f"b{i}") for i in range(4)]
    other = replace(verdict(Verdict.UNCHANGED), ratio=1.0)
    shared = [replace(v, series=replace(v.series, machine="odd")) for v in shared]
    for name in ("text", "markdown", "junit", "github"):
        text = render(report(*shared, other), name)
        mean = "times +3.98 % over 5 series measured"
        assert mean in text.replace("&#43;", "+").replace("%25", "%"), name
        assert "all 4 series of machine odd regressed" in text, name


def context() -> Context:
    entry = Acknowledgement("*", "b" * 8, NASTY, NASTY)
    series = verdict(Verdict.REGRESSED).series
    return Context(
        {series: entry},
        {series: "https://img.example/a.png?x=1&y=2"},
        {},
        "https://perf.example/app/",
    )


def test_markdown_shows_how_to_look_closer() -> None:
    found = verdict(Verdict.REGRESSED)
    text = render(report(found, verdict(Verdict.UNCHANGED)), "markdown", context())
    assert '<img alt="history" src="https://img.example/a.png?x=1&amp;y=2">' in text
    assert f"```sh\n{measure_again(report(), found)}\n```" in text
    addresses = [html.unescape(found) for found in re.findall(r'href="([^"]*)"', text)]
    overall, trend = (urlsplit(address) for address in addresses)
    assert overall.path == "/app/compare"
    commits = {"base": ["a" * 40], "head": ["b" * 40]}
    assert parse_qs(overall.query) == commits | {"runner": ["h200"]}
    assert trend.path == "/app/trends"
    assert parse_qs(trend.query)["machine"] == ["h200 · e"]
    outside = re.sub(r"(?s)<code>.*?</code>|```.*?```", "", text)
    assert "@team" not in outside
    assert "look closer" not in render(report(verdict(Verdict.IMPROVED)), "markdown", context())


def test_every_machine_of_a_report_has_its_own_link() -> None:
    found = [verdict(Verdict.REGRESSED)]
    found += [
        replace(v, series=replace(v.series, machine=f"lab {number}"))
        for number in range(9)
        for v in (verdict(Verdict.UNCHANGED),)
    ]
    text = render(report(*found), "markdown", context())
    addresses = [html.unescape(found) for found in re.findall(r'href="([^"]*compare[^"]*)"', text)]
    machines = [parse_qs(urlsplit(address).query)["runner"][0] for address in addresses]
    assert machines == ["h200", *(f"lab {number}" for number in range(7))], "the worst first"
    assert "and 2 further machines" in text
    nothing = render(report(), "markdown", context())
    assert "runner" not in nothing
    assert "/compare?base=" in nothing


def test_a_hostile_name_stays_inside_the_block_to_copy() -> None:
    name = "a\n```\n</details><script>``` $(touch x) '; rm -rf ~"
    found = SeriesVerdict(Series(name, (), "m", "e", "ms"), Verdict.REGRESSED, "r", ratio=2.0)
    text = render(report(found), "markdown")
    (fence,) = set(re.findall(r"^`{3,}(?=sh$)", text, re.MULTILINE))
    assert len(fence) == 4
    assert text.count(f"\n{fence}") == 2
    words = shlex.split(measure_again(report(), found))
    assert words[words.index("--bench") + 1] == f"^{re.escape(name)}$"


def test_the_link_is_what_the_app_asks_for() -> None:
    typed = Series("b", (), "m", "e", "ms", "forward", "super", 8192, 4)
    query = parse_qs(urlsplit(trend_link("http://x", typed)).query)
    wanted = {"benchmark": ["forward"], "machine": ["m · e"], "model": ["super"]}
    assert query == wanted | {"tokens": ["8192"], "tp": ["4"]}
    assert "%3F" in trend_link("http://x", Series("\ud800", (), "m", "e", "s")), "no character"
    foreign = Series("b", (("n", "3"),), "m", "e", "s")
    query = parse_qs(urlsplit(trend_link("http://x", foreign)).query)
    assert query == {"benchmark": ["b"], "machine": ["m · e"], "param_n": ["3"]}


@pytest.mark.parametrize(
    ("params", "called"),
    [
        ((), "forward.F.track"),
        ((("model", "'a.b'"), ("n", "3")), "forward.F.track('a.b', 3)"),
        ((("model", "a.b"), ("n", "-2.5")), "forward.F.track('a.b', -2.5)"),
        ((("text", "it's \\ odd"),), 'forward.F.track("it\'s \\\\ odd")'),
    ],
)
def test_the_command_selects_the_series_by_asvs_name(
    params: tuple[tuple[str, str], ...], called: str
) -> None:
    series = Series("forward.F.track", params, "m", "e", "ms")
    command = measure_again(report(), SeriesVerdict(series, Verdict.REGRESSED, "because"))
    words = shlex.split(command)
    assert words[:4] == ["printf", "%s\\n", "a" * 40, "b" * 40]
    expression = words[words.index("--bench") + 1]
    assert re.search(expression, called)
    assert not re.search(expression, called + "x")
    assert not re.search(expression, called.replace("F", "G"))


def test_the_command_measures_on_the_machine_and_as_many_rounds_as_would_settle_it() -> None:
    found = verdict(Verdict.REGRESSED)
    words = shlex.split(measure_again(report(), found))
    assert words[words.index("--machine") + 1] == "h200"
    assert "--attribute" not in words
    unsure = replace(found, verdict=Verdict.INCONCLUSIVE, rounds_needed=43)
    for shown in (
        measure_again(report(), unsure),
        json.loads(render(report(unsure), "json"))["series"][0]["reproduce"],
    ):
        words = shlex.split(shown)
        assert words[words.index("--attribute") + 1] == "rounds=43"


def test_asv_understands_the_options_of_the_command() -> None:
    run = pytest.importorskip("asv.commands.run")
    parser = argparse.ArgumentParser()
    run.Run.setup_arguments(parser.add_subparsers())
    unsure = replace(verdict(Verdict.INCONCLUSIVE), rounds_needed=43)
    words = shlex.split(measure_again(report(), unsure))
    asked = parser.parse_args(words[words.index("asv") + 1 :])
    assert (asked.machine, asked.attribute, asked.range) == ("h200", {"rounds": 43}, "HASHFILE:-")
    assert asked.interleave_rounds


def test_json_is_as_its_schema_says() -> None:
    validator = jsonschema.Draft202012Validator(check_schema())
    for found in (report(*map(verdict, Verdict)), nasty(), report()):
        for around in (None, context()):
            validator.validate(json.loads(render(found, "json", around)))
    broken = json.loads(render(report(verdict(Verdict.NEW)), "json"))
    broken["series"][0]["verdict"] = "slower"
    assert not validator.is_valid(broken)


def test_acknowledged_verdicts_fail_nothing() -> None:
    found = report(verdict(Verdict.REGRESSED), verdict(Verdict.UNCHANGED, "f"))
    assert exit_code(found) == 1
    assert exit_code(found, context=context()) == 0
    assert exit_code(report(verdict(Verdict.REGRESSED)), context=context()) == 0
    assert "1 regressed" in render(found, "text", context())
    shown = json.loads(render(found, "json", context()))["series"]
    assert [row["acknowledged"] for row in shown] == [True, False]
    assert shown[0]["acknowledgement"]["author"] == NASTY


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_copes_with_no_series(name: str) -> None:
    assert render(report(), name).endswith("\n")


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(
        ValueError, match="unknown format 'xml'; known: text, markdown, json, junit, github"
    ):
        render(report(), "xml")


@pytest.mark.parametrize(
    ("kinds", "code"),
    [
        ([Verdict.UNCHANGED, Verdict.IMPROVED, Verdict.INCONCLUSIVE, Verdict.NEW], 0),
        ([Verdict.UNCHANGED, Verdict.REGRESSED], 1),
        ([Verdict.MISSING], 1),
        ([Verdict.FAILED], 1),
        ([Verdict.INCONCLUSIVE], 0),
        ([Verdict.NEW, Verdict.NOT_COMPARABLE], 2),
        ([], 2),
    ],
)
def test_exit_codes(kinds: list[Verdict], code: int) -> None:
    assert exit_code(report(*map(verdict, kinds))) == code


def test_further_verdicts_can_fail_the_check() -> None:
    assert exit_code(report(verdict(Verdict.INCONCLUSIVE)), fail_on={Verdict.INCONCLUSIVE}) == 1
