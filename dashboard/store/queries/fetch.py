"""Running a query."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dashboard.store.connect import Store


def fetch(
    store: Store, sql: str, values: dict[str, Any] | None = None
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Column names and rows of a query."""
    result = store.connection.execute(sql, values or {})
    return [column[0] for column in result.description or ()], result.fetchall()


def utc(time: datetime) -> datetime:
    """A stored time, which is UTC, with its zone."""
    return time.replace(tzinfo=UTC)
