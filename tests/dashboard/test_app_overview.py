"""The Overview of two commits that its address names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from app_pages import run_page, words


def shown(app: Any, commit: str) -> bool:
    """Whether the page says of a commit that it is head or base."""
    return commit[:7] in words(app)


def test_the_address_can_name_both_commits(
    monkeypatch: pytest.MonkeyPatch, history: Any, history_store: Path
) -> None:
    first, second, *_, newest = history.commits
    app = run_page(monkeypatch, "overview", history_store, base=first[:8], head=second[:8])
    assert [shown(app, commit) for commit in (first, second, newest)] == [True, True, False]
    assert "nearest measured ancestor" not in words(app), "nobody chose"
    assert "The address" not in words(app)


@pytest.mark.parametrize("query", [{"head": 1}, {"base": 0}, {"base": 0, "head": "beef" * 3}])
def test_else_the_newest_commit_is_shown(
    query: dict[str, Any], monkeypatch: pytest.MonkeyPatch, history: Any, history_store: Path
) -> None:
    named = {k: history.commits[v][:8] if isinstance(v, int) else v for k, v in query.items()}
    app = run_page(monkeypatch, "overview", history_store, **named)
    assert shown(app, history.commits[-1])
    assert shown(app, history.commits[-2])
    assert "The address does not name two commits that were measured here" in words(app)
