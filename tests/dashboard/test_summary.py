"""A report as the Overview and Compare show it: headline, ratios, map and table."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from app_pages import encodings

from dashboard.app import comparison, palette, ratio_chart, sizes, summary, wording
from dashboard.models import CheckReport, Commit, Series, SeriesVerdict, Verdict


def report(*verdicts: SeriesVerdict) -> CheckReport:
    base, head = (Commit(hash=40 * h, date=datetime(2026, 1, 5, tzinfo=UTC)) for h in "ca")
    return CheckReport(base, head, verdicts)


def verdict(kind: Verdict, ratio: float | None = None, benchmark: str = "a.b") -> SeriesVerdict:
    series = Series(benchmark, (("n", "1"),), "lab", "py", "ms")
    low, high = (None, None) if ratio is None else (ratio - 0.01, ratio + 0.01)
    return SeriesVerdict(series, kind, "because", 1.0, ratio, ratio, low, high)


def test_the_headline_names_the_worst_regression_first() -> None:
    line = summary.headline(
        report(
            verdict(Verdict.REGRESSED, 1.05),
            verdict(Verdict.REGRESSED, 1.5, "slow.one"),
            verdict(Verdict.FAILED),
            verdict(Verdict.IMPROVED, 0.9),
        )
    )
    assert line.level == "bad"
    assert line.text.startswith("2 of 4 series regressed, 1 failed, 1 improved.")
    assert f"slow.one, n=1, {wording.TIMES}1.500 (+50.0 %)" in line.text


@pytest.mark.parametrize(
    ("kinds", "level"),
    [
        ([Verdict.MISSING], "bad"),
        ([Verdict.INCONCLUSIVE, Verdict.UNCHANGED], "unsure"),
        ([Verdict.UNCHANGED, Verdict.IMPROVED, Verdict.NEW], "good"),
        ([Verdict.NEW, Verdict.NEW], "unsure"),
        ([], "unsure"),
    ],
)
def test_the_headline_worries_only_with_cause(kinds: list[Verdict], level: str) -> None:
    assert summary.headline(report(*map(verdict, kinds))).level == level


def test_new_series_are_not_among_those_without_a_regression() -> None:
    line = summary.headline(report(*map(verdict, [Verdict.UNCHANGED, Verdict.NEW, Verdict.NEW])))
    assert line.text == "No regression in 1 series, 2 new."
    assert line.level == "good"
    few = replace(report(verdict(Verdict.UNCHANGED)), left_out=1)
    line = summary.headline(few)
    assert (line.level, line.text) == ("good", "No regression in 1 series, 1 not measured at head.")
    assert summary.headline(replace(few, left_out=2)).level == "unsure"
    line = summary.headline(report(*map(verdict, [Verdict.NEW, Verdict.NEW])))
    assert line.text == "Nothing to compare: 2 series new."


@pytest.mark.parametrize("families", [2, 9])
def test_the_ratio_chart_reaches_its_intervals_and_draws_one(families: int) -> None:
    many = [verdict(Verdict.REGRESSED, 1.2, f"b{i}.x") for i in range(families)]
    frame = summary.ratio_frame(report(*many, verdict(Verdict.MISSING)))
    assert len(frame) == families
    spec = ratio_chart.ratios(frame, palette=palette.LIGHT).to_dict()
    assert ("facet" in spec) == (families <= 6)
    for channel, definition in encodings(spec):
        if channel == "x":
            low, high = definition["scale"]["domain"]
            assert low < 1 < 1.21 < high


@pytest.mark.parametrize(("families", "each", "left_out"), [(9, 6, 14), (2, 30, 0), (9, 2, 0)])
def test_series_that_the_ratio_chart_has_no_room_for_are_counted(
    families: int, each: int, left_out: int
) -> None:
    names = [f"b{i}.x" for i in range(families)]
    many = [verdict(Verdict.UNCHANGED, 1.0, name) for name in names for _ in range(each)]
    frame = summary.ratio_frame(report(*many))
    assert ratio_chart.left_out(frame) == left_out


def test_one_wide_interval_leaves_the_others_room() -> None:
    many = [verdict(Verdict.UNCHANGED, 1.01, f"b{i}.x") for i in range(9)]
    frame = summary.ratio_frame(report(*many, verdict(Verdict.REGRESSED, 1.4, "c.x")))
    frame.loc[0, ["low", "high"]] = 0.3, 3.0  # no ratio is as far out
    domains = [
        definition["scale"]["domain"]
        for channel, definition in encodings(
            ratio_chart.ratios(frame, palette=palette.LIGHT).to_dict()
        )
        if channel == "x"
    ]
    assert all(0.3 < low < 1 and 1.4 < high < 1.6 for low, high in domains)


def test_the_table_of_another_suite_has_no_empty_columns() -> None:
    frame = summary.table([verdict(Verdict.REGRESSED, 1.5)], {})
    assert not {"Model", "Tokens", "TP", "Environment"} & set(frame.columns)
    assert list(frame["Parameters"]) == ["n=1"]


def test_the_headline_says_of_how_many_series_some_failed_or_are_missing() -> None:
    found = report(
        verdict(Verdict.MISSING), verdict(Verdict.FAILED, None, "c.d"), verdict(Verdict.UNCHANGED)
    )
    assert summary.headline(found).text == "1 of 3 series failed, 1 missing."


def test_the_interval_of_a_ratio_stands_beside_it() -> None:
    columns = list(summary.table([verdict(Verdict.REGRESSED, 1.2)], {}).columns)
    assert columns.index("95 % interval") == columns.index("Ratio") + 1


def of_shape(family: str, tokens: int, ratio: float | None) -> SeriesVerdict:
    """A synthetic verdict of the suite's own series."""
    params = (("model", "m"), ("tokens", str(tokens)), ("tp", "1"))
    series = Series(f"x.{family}", params, "gpu", "py", "ms", family, "m", tokens, 1)
    return SeriesVerdict(series, Verdict.UNCHANGED, "synthetic", 1.0, ratio, ratio)


def test_maps_come_in_the_order_of_the_verdicts_and_their_cells_by_tokens() -> None:
    foreign = verdict(Verdict.UNCHANGED, 1.0)
    found = comparison.by_benchmark(
        [
            of_shape("forward_backward", 4096, 1.1),
            of_shape("forward", 8192, 1.05),
            of_shape("forward", 2048, 1.0),
            of_shape("control", 2048, None),
            foreign,
        ]
    )
    assert list(found) == ["Forward + backward", "Forward"]
    cells = comparison.ratio_map(found["Forward"])
    assert list(cells["column"]) == ["2,048", "8,192"]
    assert list(cells["value"]) == [1.0, 1.05]
    assert cells["shown"].iloc[1].startswith("+5.0 %")


def test_a_difference_of_an_exact_quantity_is_told_however_small() -> None:
    series = Series("compile.SharedMemory", (("n", "1"),), "lab", "py", "bytes")
    ratio = 147_696 / 147_680
    more = replace(
        verdict(Verdict.REGRESSED, ratio),
        series=series,
        base=147_680.0,
        head=147_696.0,
        threshold=0.0,
    )
    (row,) = summary.ratio_frame(report(more)).to_dict("records")
    assert row["shown_ratio"] == "+16 bytes (+0.01 %)"
    assert (row["shown_base"], row["shown_head"]) == ("147,680 bytes", "147,696 bytes")
    assert "+16 bytes" in summary.headline(report(more)).text
    less = replace(more, base=147_696.0, head=147_680.0, ratio=1 / ratio)
    assert sizes.change(less) == f"{wording.MINUS}16 bytes ({wording.MINUS}0.01 %)"
    same = replace(more, head=147_680.0, ratio=1.0)
    assert sizes.ratio_and_change(same) == f"{wording.TIMES}1.000 (±0.0 %)"
    assert sizes.sides(same) == ("144 KiB", "144 KiB")
    timed = replace(more, threshold=0.02)
    assert sizes.change(timed) == "±0.0 %"
    (cell,) = comparison.ratio_map([replace(more, series=replace(series, tokens=8, tp=1))]).to_dict(
        "records"
    )
    assert (cell["base"], cell["head"]) == ("147,680 bytes", "147,696 bytes")
