"""Charts as SVG files, drawn on the server by vl-convert (the extra ``charts``); no streamlit."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib.util import find_spec
from io import BytesIO
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pandas as pd

# Control characters, and lone surrogates that no UTF-8 can hold.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_WIDTH = 900  # pixels of a chart that takes its width from the page


def can_draw() -> bool:
    """Whether vl-convert is installed."""
    return find_spec("vl_convert") is not None


def svg(spec: dict[str, Any], background: str) -> bytes:
    """The SVG of a chart's specification (see ``draw.chart``). ValueError: not Vega-Lite."""
    import vl_convert

    whole = {"background": background, **spec}
    if not any(name in spec for name in ("width", "facet", "hconcat", "vconcat")):
        whole["width"] = _WIDTH
    whole["datasets"] = {
        # Vega reads escapes in some texts: a backslash in a name could make a control again.
        name: json.loads(rows.replace(r"\\", "/", regex=True).to_json(orient="records"))
        if isinstance(rows, pd.DataFrame)
        else rows
        for name, rows in spec.get("datasets", {}).items()
    }
    return vl_convert.vegalite_to_svg(_drawable(whole)).encode()


def _drawable(value: Any) -> Any:
    """``value`` with texts that can be drawn: a control character aborts vl-convert's process,
    and with it the server. Field names are the app's own and hold none."""
    if isinstance(value, str):
        return _CONTROL.sub(" ", value)
    if isinstance(value, dict):
        return {name: _drawable(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_drawable(one) for one in value]
    return value


def archive(charts: Sequence[tuple[str, dict[str, Any]]], background: str) -> bytes:
    """All charts, with their descriptions, as a zip of SVG files."""
    buffer = BytesIO()
    with ZipFile(buffer, "w", ZIP_DEFLATED) as files:
        for number, (described, spec) in enumerate(charts, 1):
            name = f"{number:02} {file_name(described)}"
            files.writestr(name, svg(spec, background))
    return buffer.getvalue()


def file_name(described: str) -> str:
    """A description as the name of an SVG file."""
    plain = re.sub(r"[^\w.+-]+", "-", described).strip("-.")
    return f"{plain[:80] or 'chart'}.svg"
