"""Where the command line finds what it was not told: results, settings, repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dashboard.errors import InputError

if TYPE_CHECKING:
    from dashboard.acknowledged import Acknowledgements
    from dashboard.verdicts import Policy

_SETTINGS = "pyproject.toml"
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
    """The accepted regressions: of the ``chosen`` file, else of the one that the settings name,
    beside them or, where they are of no file, in ``start``.

    InputError for a file that cannot be read or has a bad entry.
    """
    from dashboard.acknowledged import load

    if chosen is None and rules.acknowledged is not None:
        folder = start if rules.origin is None else rules.origin.parent
        chosen = folder / rules.acknowledged
    return load(chosen)


def policy(
    start: Path, threshold_percent: float | None = None, chosen: Path | None = None
) -> Policy:
    """``[tool.lmhead-perf]`` of the ``chosen`` file, else of the nearest pyproject.toml in
    ``start`` or above that has it, else the defaults.

    ``threshold_percent`` takes the place of the minimum effect. InputError for bad settings, or
    a chosen file without any.
    """
    found = _nearest(start) if chosen is None else _chosen(chosen)
    if threshold_percent is None:
        return found
    try:
        return found.with_minimum_effect(threshold_percent / 100)
    except ValueError as error:
        raise InputError(
            f"--threshold is a percentage above 0 and at most 100, not {threshold_percent:g}"
        ) from error


def origin_of(rules: Policy, start: Path) -> str | None:
    """The file of the settings as a reader in ``start`` would name it; None for the defaults."""
    if rules.origin is None:
        return None
    inside = rules.origin.is_relative_to(start)
    return str(rules.origin.relative_to(start) if inside else rules.origin)


def told(origin: str | None) -> str:
    """Which settings a report was made by, in words."""
    if origin is not None:
        return f"settings are those of {origin}"
    return (
        "settings are the defaults: no pyproject.toml here or above has [tool.lmhead-perf]; "
        "--settings names one elsewhere"
    )


def _nearest(start: Path) -> Policy:
    from dashboard.verdicts import Policy

    for folder in (start, *start.parents):
        if (folder / _SETTINGS).is_file() and (found := _of(folder / _SETTINGS)).origin is not None:
            return found
    return Policy()


def _chosen(file: Path) -> Policy:
    try:
        found = _of(file)
    except InputError as error:
        raise InputError(f"--settings: {error}") from error
    if found.origin is None:
        raise InputError(f"--settings: {file} has no [tool.lmhead-perf]")
    return found


def _of(file: Path) -> Policy:
    from dashboard.verdicts import load_policy

    try:
        return load_policy(file)
    except ValueError as error:  # which names the file
        raise InputError(str(error)) from error
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from error
