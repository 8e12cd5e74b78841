"""The report of a check in its formats; all numbers are invented."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from check_reports import NASTY, context, nasty, report, verdict

from dashboard.models import Series, SeriesVerdict, Verdict
from dashboard.verdicts.reports import FORMATS, exit_code, render
from dashboard.verdicts.reports.schemas import check_schema


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
