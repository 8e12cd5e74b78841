"""Tables that a page has as text."""

from __future__ import annotations

import pandas as pd
from app_pages import written
from streamlit.testing.v1 import AppTest

from dashboard.app import tables, wording

HOSTILE = "a|b <b>*x*</b> `c` $d$ :red[e]"


def _rows(rows: int) -> None:
    import pandas as pd

    from dashboard.app import tables

    tables.written(pd.DataFrame({"Name": ["x"] * rows, "Series": [1234] * rows}))


def test_text_of_a_table_is_no_markup_and_numbers_stand_to_the_right() -> None:
    frame = pd.DataFrame({HOSTILE: [HOSTILE, None], "": ["A", ""], "Series": [1234, 5]})
    head, rule, first, second = tables.as_markdown(frame).splitlines()
    escaped = wording.escape(HOSTILE)
    assert head == f"| {escaped} | &nbsp; | Series |"
    assert rule == "| :--- | :--- | ---: |"
    assert first == f"| {escaped} | A | 1,234 |"
    assert second == f"| {wording.escape(wording.NONE)} | &nbsp; | 5 |"


def test_many_rows_scroll_instead() -> None:
    few = AppTest.from_function(_rows, kwargs={"rows": 3}).run()
    assert written(few)[0].to_dict("list") == {"Name": ["x"] * 3, "Series": ["1,234"] * 3}
    assert not few.dataframe
    many = AppTest.from_function(_rows, kwargs={"rows": 40}).run()
    assert len(many.dataframe[0].value) == 40
    assert not written(many)
