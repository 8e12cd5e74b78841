"""Where the command line finds what it was not told: results, settings, repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dashboard.errors import InputError

if TYPE_CHECKING:
    from dashboard.acknowledged import Acknowledgements
    from dashboard.verdicts import Policy

ASV_CONFIGURATIONS = ("asv.conf.json", "asv.conf.jsonc")


def find_upward(start: Path, *names: str) -> Path | None:
    """The nearest file of one of these names in ``start`` or a folder above it."""
    for folder in (start, *start.parents):
        for name in names:
            if (folder / name).is_file():
                return folder / name
    return None


def default_results(start: Path) -> Path:
    """``results_dir`` of the nearest asv.conf.json. InputError without one."""
    configuration = find_upward(start, *ASV_CONFIGURATIONS)
    if configuration is None:
        raise InputError(f"no RESULTS folder given, and no {ASV_CONFIGURATIONS[0]} here or above")
    try:
        document = _as_asv_reads(configuration.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"cannot read {configuration} ({error}): name the RESULTS folder"
        ) from error
    results = document.get("results_dir", "results") if isinstance(document, dict) else None
    if not isinstance(results, str):
        raise InputError(f"{configuration} has no results_dir: name the RESULTS folder")
    return configuration.parent / results


def _as_asv_reads(text: str) -> Any:
    """asv takes JSON5: comments, trailing commas. Raises ValueError for what is neither."""
    try:
        return json.loads(text)
    except ValueError as error:
        try:
            import json5  # slow, and rarely needed
        except ModuleNotFoundError:
            raise ValueError(f"{error}; with comments it needs `pip install json5`") from error
        return json5.loads(text)


def acknowledgements(start: Path, rules: Policy, chosen: Path | None = None) -> Acknowledgements:
    """The accepted regressions: of the ``chosen`` file, else of the one in the settings.

    InputError for a file that cannot be read or has a bad entry.
    """
    from dashboard.acknowledged import load

    settings = find_upward(start, "pyproject.toml")
    if chosen is None and rules.acknowledged is not None and settings is not None:
        chosen = settings.parent / rules.acknowledged
    return load(chosen)


def policy(start: Path, threshold_percent: float | None = None) -> Policy:
    """``[tool.lmhead-perf]`` of the nearest pyproject.toml, else the defaults.

    ``threshold_percent`` takes the place of the minimum effect. InputError for bad settings.
    """
    from dashboard.verdicts import load_policy

    try:
        found = load_policy(find_upward(start, "pyproject.toml"))
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
