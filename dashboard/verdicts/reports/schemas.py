"""The JSON Schemas of the reports that other tools read, shipped beside this file."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def check_schema() -> dict[str, Any]:
    """Of ``check --format json``."""
    return _schema("check.schema.json")


def history_schema() -> dict[str, Any]:
    """Of ``history --format json``."""
    return _schema("history.schema.json")


def _schema(name: str) -> dict[str, Any]:
    text = files("dashboard.verdicts.reports").joinpath(name).read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
