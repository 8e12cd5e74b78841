"""What the tests of the app's pages have in common."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from streamlit.testing.v1 import AppTest

from dashboard.serve import STORE_VARIABLE


def script(name: str) -> ModuleType:
    """A module beside the dashboard's tests that is no test, such as ``rich_store``."""
    location = Path(__file__).with_name("dashboard") / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, location)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_page(
    monkeypatch: pytest.MonkeyPatch, page: str, store: Path | str, **query: str | list[str]
) -> AppTest:
    """Run a page on a store, with query parameters if any; fails on an exception box."""
    monkeypatch.setenv(STORE_VARIABLE, str(store))
    code = f"from dashboard.app.views import {page}\n{page}.render()"
    app = AppTest.from_string(code, default_timeout=60)
    for name, value in query.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception, app.exception[0].message
    return app


def words(app: AppTest) -> str:
    """All text blocks of a page in one string, as they read."""
    blocks = [*app.markdown, *app.caption, *app.subheader, *app.info, *app.error, *app.warning]
    blocks += [*app.success, *app.header]
    return "\n".join(str(block.value) for block in blocks).replace("\\", "")


def charts_of(app: AppTest) -> list[dict[str, Any]]:
    """The Vega-Lite specifications of a page's charts."""
    return [json.loads(chart.proto.spec) for chart in app.get("vega_lite_chart")]


def charted(app: AppTest) -> list[pd.DataFrame]:
    """The frames behind a page's charts; Streamlit sends them apart from the specifications."""
    return [
        pa.ipc.open_stream(dataset.data.data).read_pandas()
        for chart in app.get("vega_lite_chart")
        for dataset in chart.proto.datasets
    ]


def links(app: AppTest) -> list[Any]:
    """The links of a page, as Streamlit sends them."""
    return [link.proto for link in app.get("page_link")]
