"""What counts as a change: the settings of ``[tool.lmhead-perf]``.

    [tool.lmhead-perf]
    minimum_effect = 0.02                # changes below 2 % are nobody's business
    exact = ["compile.*.track_count"]    # compared exactly, no noise assumed
    acknowledged = "acknowledged.toml"   # beside this file: regressions that are accepted

    [tool.lmhead-perf.overrides."accuracy.*"]
    minimum_effect = 0.1
    direction = "lower"                  # which direction is better

Patterns are shell patterns over the benchmark's name, or over ``name(params)``
where they contain a parenthesis. The last override that matches decides.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from math import isfinite
from pathlib import Path
from typing import Literal, cast

from dashboard.models import Series

Direction = Literal["lower", "higher"]

DEFAULT_MINIMUM_EFFECT = 0.02

_KEYS = frozenset({"minimum_effect", "exact", "overrides", "acknowledged"})
_OVERRIDE_KEYS = frozenset({"minimum_effect", "direction", "exact"})


@dataclass(frozen=True, slots=True)
class Rule:
    """How one series is judged.

    ``minimum_effect`` is a fraction (0.02 is 2 %); ``exact`` quantities have no
    noise, and any difference of theirs is a change.
    """

    minimum_effect: float
    higher_is_better: bool
    exact: bool


@dataclass(frozen=True, slots=True)
class Override:
    """Settings of the series that match ``pattern``; ``None`` leaves a setting as it was."""

    pattern: str
    minimum_effect: float | None = None
    direction: Direction | None = None
    exact: bool | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings of a check; ``rule`` applies them to a series.

    ``acknowledged`` is the path of the acknowledgements' file, as the settings give it;
    ``origin`` the file that has the settings, ``None`` for the defaults.
    """

    minimum_effect: float = DEFAULT_MINIMUM_EFFECT
    overrides: tuple[Override, ...] = ()
    exact: tuple[str, ...] = field(default=())
    acknowledged: str | None = None
    origin: Path | None = field(default=None, compare=False)

    def rule(self, series: Series) -> Rule:
        """The rule for ``series``: the defaults, changed by the last override that matches."""
        matching = [o for o in self.overrides if matches(o.pattern, series)]
        found = matching[-1] if matching else Override(pattern="*")
        effect = self.minimum_effect if found.minimum_effect is None else found.minimum_effect
        higher = series.higher_is_better if found.direction is None else found.direction == "higher"
        exact = any(matches(p, series) for p in self.exact) if found.exact is None else found.exact
        return Rule(minimum_effect=effect, higher_is_better=higher, exact=exact)

    def with_minimum_effect(self, fraction: float) -> Policy:
        """The same policy with one minimum effect for every series that is not exact.

        ValueError if ``fraction`` is not above 0 and at most 1.
        """
        _require_effect(fraction, "the minimum effect")
        overrides = tuple(replace(o, minimum_effect=None) for o in self.overrides)
        return replace(self, minimum_effect=float(fraction), overrides=overrides)


def limits(minimum_effect: float) -> str:
    """The changes between which a series counts as unchanged, in words.

    One change and its inverse are equally large: +2 % is undone by -1.96 %.
    """
    better = 100 * minimum_effect / (1 + minimum_effect)
    return f"-{better:.3g} … +{100 * minimum_effect:.3g} %"


def load_policy(pyproject: Path | None) -> Policy:
    """The policy of a ``pyproject.toml``; the defaults for ``None`` or a file without the table.

    ValueError, naming the file and the key, for an unknown key or a bad value;
    OSError if the file cannot be read.
    """
    if pyproject is None:
        return Policy()
    try:
        document = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{pyproject}: not valid TOML: {error}") from error
    tool = document.get("tool", {})
    if not isinstance(tool, dict) or "lmhead-perf" not in tool:
        return Policy()
    try:
        return replace(parse_policy(tool["lmhead-perf"]), origin=pyproject)
    except ValueError as error:
        raise ValueError(f"{pyproject}: {error}") from error


def parse_policy(table: object) -> Policy:
    """The policy of a parsed ``[tool.lmhead-perf]`` table; ValueError names the offending key."""
    settings = _require_table(table, "[tool.lmhead-perf]", _KEYS)
    effect = settings.get("minimum_effect", DEFAULT_MINIMUM_EFFECT)
    overrides = settings.get("overrides", {})
    if not isinstance(overrides, dict):
        raise ValueError(f"[tool.lmhead-perf] overrides must be a table, not {overrides!r}")
    return Policy(
        minimum_effect=_require_effect(effect, "[tool.lmhead-perf] minimum_effect"),
        overrides=tuple(_override(pattern, value) for pattern, value in overrides.items()),
        exact=_require_patterns(settings.get("exact", []), "[tool.lmhead-perf] exact"),
        acknowledged=_require_path(settings.get("acknowledged")),
    )


def _override(pattern: str, value: object) -> Override:
    where = f'[tool.lmhead-perf.overrides."{pattern}"]'
    settings = _require_table(value, where, _OVERRIDE_KEYS)
    direction = settings.get("direction")
    if direction not in (None, "lower", "higher"):
        raise ValueError(f'{where} direction must be "lower" or "higher", not {direction!r}')
    exact = settings.get("exact")
    if exact is not None and not isinstance(exact, bool):
        raise ValueError(f"{where} exact must be true or false, not {exact!r}")
    effect = settings.get("minimum_effect")
    return Override(
        pattern=pattern,
        minimum_effect=None
        if effect is None
        else _require_effect(effect, f"{where} minimum_effect"),
        direction=direction,
        exact=exact,
    )


def _require_table(value: object, where: str, known: frozenset[str]) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be a table, not {value!r}")
    unknown = sorted(set(value) - known)
    if unknown:
        names, expected = ", ".join(map(repr, unknown)), ", ".join(sorted(known))
        raise ValueError(f"{where}: unknown key {names}; known: {expected}")
    return value


def _require_effect(value: object, where: str) -> float:
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    if not numeric or not isfinite(cast("float", value)) or not 0 < cast("float", value) <= 1:
        raise ValueError(
            f"{where} must be a fraction above 0 and at most 1 (0.02 is 2 %), not {value!r}"
        )
    return float(cast("float", value))


def _require_path(value: object) -> str | None:
    if value is not None and not (isinstance(value, str) and value):
        raise ValueError(f"[tool.lmhead-perf] acknowledged must be a file's path, not {value!r}")
    return value


def _require_patterns(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{where} must be a list of benchmark patterns, not {value!r}")
    return tuple(value)


def matches(pattern: str, series: Series) -> bool:
    """Whether a shell pattern fits a benchmark's name, or with a parenthesis name and params."""
    return fnmatchcase(series.label if "(" in pattern else series.benchmark, pattern)
