"""What the tests of the app's pages have in common."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator
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


def encodings(node: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every channel definition anywhere in a specification."""
    if isinstance(node, dict):
        for channel, definition in node.get("encoding", {}).items():
            for one in definition if isinstance(definition, list) else [definition]:
                yield channel, one
        for key, value in node.items():
            if key not in ("encoding", "datasets"):
                yield from encodings(value)
    elif isinstance(node, list):
        for value in node:
            yield from encodings(value)


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


def written(app: AppTest) -> list[pd.DataFrame]:
    """The tables that a page has as text, their cells as a reader sees them."""
    blocks = [str(block.value).splitlines() for block in app.markdown]
    return [
        pd.DataFrame([_cells(line) for line in lines[2:]], columns=_cells(lines[0]))
        for lines in blocks
        if len(lines) > 1 and lines[1].startswith(("| :---", "| ---:"))
    ]


def _cells(line: str) -> list[str]:
    cells = re.split(r"(?<!\\) \| ", line.removeprefix("| ").removesuffix(" |"))
    return [re.sub(r"\\(.)", r"\1", cell).replace("&nbsp;", "") for cell in cells]
