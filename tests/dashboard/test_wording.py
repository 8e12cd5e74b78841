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


JOINER = "\N{WORD JOINER}"
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
# What Streamlit's page looks for once Markdown has taken the backslashes away.
MADE_LATE = re.compile(
    r"https?://|www\.|[-.\w+]@[-\w]|:[-+\w/]+:|(?:^|\s)(?:<->|->|<-|--|>=|<=|~=)(?:\s|$)",
    re.IGNORECASE,
)


def _seen(escaped: str) -> str:
    """The text that a page has of an escaped one."""
    return re.sub(r"\\(.)", r"\1", escaped)


@given(st.text() | st.text("aw:/.@<>-=~ +1" + BIDI + JOINER))
def test_escaped_text_is_the_text_with_every_mark_quoted(text: str) -> None:
    escaped = wording.escape(text)
    shown = " ".join("".join(c for c in text if c not in BIDI).split())
    assert _seen(escaped).replace(JOINER, "") == shown.replace(JOINER, "")
    assert not re.search(r"(?<!\\)(?:\\\\)*[*_`<>\[\]$:~|#&]", escaped)
    assert not MADE_LATE.search(_seen(escaped))


@pytest.mark.parametrize(
    "text",
    [
        "see http://evil.example/?q=1",
        "HTTPS://evil.example",
        "www.evil.example",
        "me@evil.example",
        ":material/home:",
        ":+1:",
        "a -> b",
        "--",
        "h\u202ettp\u200e://evil.example",
    ],
)
def test_addresses_icons_and_arrows_are_broken_up(text: str) -> None:
    assert not MADE_LATE.search(_seen(wording.escape(text)))


def test_controls_of_the_direction_of_writing_are_left_out() -> None:
    assert wording.escape(f"a{BIDI}b") == "ab"
    assert wording.escape("שלום") == "שלום"


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [(9.996, 3, "10.0"), (0.09996, 3, "0.100"), (999.96, 4, "1,000"), (-9.996, 3, "-10.0")],
)
def test_what_rounds_up_has_no_digit_more(value: float, digits: int, shown: str) -> None:
    assert wording.significant(value, digits) == shown


def test_errors_are_written_as_the_references_are() -> None:
    assert wording.error(2.0e-5) == "2.00e-5"
    assert wording.error(0.059) == "5.90e-2"


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1.043, "+4.3 %"),
        (1.0001, "+0.01 %"),
        (0.99995, "-0.005 %"),
        (1.0000001, "+0.00001 %"),
        (1.0, "±0.0 %"),
        (None, "-"),
    ],
)
def test_a_change_of_level_is_never_none(ratio: float | None, text: str) -> None:
    plain = str.maketrans({wording.MINUS: "-", wording.NONE: "-"})
    assert wording.level_change(ratio).translate(plain) == text
