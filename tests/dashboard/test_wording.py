"""Numbers, times and verdicts as people read them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.app import wording
from dashboard.models import Verdict


def test_every_verdict_has_a_word_and_a_sign_of_its_own() -> None:
    assert set(wording.VERDICTS) == set(Verdict)
    assert len({sign for sign, _ in wording.VERDICTS.values()}) == len(Verdict)


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (12.6432, "ms", "12.6 ms"),
        (0.01234, "ms", "12.3 µs"),
        (1234.5, "ms", "1.23 s"),
        (999.9, "ms", "1.00 s"),  # what three digits round to
        (2.5e-7, "seconds", "250 ns"),
        (3 * 2**20, "bytes", "3.00 MiB"),
        (42.0, "kernels", "42 kernels"),
        (42.5, "unit", "42.5 unit"),
        (0.0, "ms", "0 ms"),
        (float("inf"), "ms", "∞ ms"),
        (None, "ms", wording.NONE),
        (float("nan"), "ms", wording.NONE),
    ],
)
def test_quantities(value: float | None, unit: str, shown: str) -> None:
    assert wording.quantity(value, unit) == shown


def test_ratios_and_ages() -> None:
    assert wording.ratio_and_change(1.043) == f"{wording.TIMES}1.043 (+4.3 %)"
    assert wording.change(0.957) == f"{wording.MINUS}4.3 %"
    assert wording.change(1.0001) == "±0.0 %"
    now = datetime(2026, 1, 10, tzinfo=UTC)
    assert wording.age(now - timedelta(hours=30), now) == "30 hours ago"
    assert wording.age(now - timedelta(days=9), now) == "9 days ago"
    assert wording.age(now + timedelta(days=1), now) == "just now"


@given(st.text())
def test_escaped_text_is_the_text_with_every_mark_quoted(text: str) -> None:
    escaped = wording.escape(text)
    assert re.sub(r"\\(.)", r"\1", escaped) == " ".join(text.split())
    assert not re.search(r"(?<!\\)(?:\\\\)*[*_`<>\[\]$:~|#&]", escaped)


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [(9.996, 3, "10.0"), (0.09996, 3, "0.100"), (999.96, 4, "1,000"), (-9.996, 3, "-10.0")],
)
def test_what_rounds_up_has_no_digit_more(value: float, digits: int, shown: str) -> None:
    assert wording.significant(value, digits) == shown


def test_errors_are_written_as_the_references_are() -> None:
    assert wording.error(2.0e-5) == "2.00e-5"
    assert wording.error(0.059) == "5.90e-2"
