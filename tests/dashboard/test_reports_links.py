"""What a report leads to: links to the app, commands that measure again. Numbers are invented."""

from __future__ import annotations

import argparse
import html
import json
import re
import shlex
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest
from check_reports import context, report, verdict

from dashboard.models import Series, SeriesVerdict, Verdict
from dashboard.verdicts.reports import render
from dashboard.verdicts.reports.links import measure_again, trend_link


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
