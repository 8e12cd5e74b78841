"""Where the command line finds what it was not told: results, settings, repository."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from dashboard.errors import InputError

if TYPE_CHECKING:
    from dashboard.verdicts import Policy

ASV_CONFIGURATION = "asv.conf.json"
_COMMENT_LINE = re.compile(r"^\s*//.*$", re.MULTILINE)


def find_upward(name: str, start: Path) -> Path | None:
    """The nearest file of that name in ``start`` or a folder above it."""
    for folder in (start, *start.parents):
        if (folder / name).is_file():
            return folder / name
    return None


def default_results(start: Path) -> Path:
    """``results_dir`` of the nearest asv.conf.json. InputError without one."""
    configuration = find_upward(ASV_CONFIGURATION, start)
    if configuration is None:
        raise InputError(f"no RESULTS folder given, and no {ASV_CONFIGURATION} here or above")
    try:
        document = json.loads(_COMMENT_LINE.sub("", configuration.read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot read {configuration} ({error}): name the RESULTS folder"
        ) from error
    results = document.get("results_dir", "results") if isinstance(document, dict) else None
    if not isinstance(results, str):
        raise InputError(f"{configuration} has no results_dir: name the RESULTS folder")
    return configuration.parent / results


def policy(start: Path, threshold_percent: float | None = None) -> Policy:
    """``[tool.lmhead-perf]`` of the nearest pyproject.toml, else the defaults.

    ``threshold_percent`` takes the place of the minimum effect. InputError for bad settings.
    """
    from dashboard.verdicts import load_policy

    try:
        found = load_policy(find_upward("pyproject.toml", start))
    except (ValueError, OSError) as error:
        raise InputError(str(error)) from error
    if threshold_percent is None:
        return found
    try:
        return found.with_minimum_effect(threshold_percent / 100)
    except ValueError as error:
        raise InputError(
            f"--threshold is a percentage above 0 and at most 100, not {threshold_percent:g}"
        ) from error
