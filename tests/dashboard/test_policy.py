"""The settings of ``[tool.lmhead-perf]``."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboard.models import Series
from dashboard.verdicts.policy import Policy, load_policy, parse_policy


def series(benchmark: str = "forward.Forward.track_time", higher: bool = False) -> Series:
    params = (("model", "'a'"), ("tokens", "8192"))
    return Series(benchmark, params, "m", "e", "ms", higher_is_better=higher)


def write(folder: Path, text: str) -> Path:
    path = folder / "pyproject.toml"
    path.write_text(text)
    return path


def test_without_a_file_or_a_table_the_defaults_hold(tmp_path: Path) -> None:
    for policy in (load_policy(None), load_policy(write(tmp_path, "[project]\nname = 'x'\n"))):
        rule = policy.rule(series())
        assert (rule.minimum_effect, rule.higher_is_better, rule.exact) == (0.02, False, False)


def test_the_last_matching_override_decides(tmp_path: Path) -> None:
    policy = load_policy(
        write(
            tmp_path,
            """
            [tool.lmhead-perf]
            minimum_effect = 0.01
            exact = ["compile.*"]
            [tool.lmhead-perf.overrides."*"]
            minimum_effect = 0.05
            [tool.lmhead-perf.overrides."accuracy.*"]
            direction = "higher"
            [tool.lmhead-perf.overrides."forward.*tokens=8192*(*)"]
            [tool.lmhead-perf.overrides."*(*tokens=8192)"]
            minimum_effect = 0.03
            """,
        )
    )
    assert policy.rule(series()).minimum_effect == 0.03
    assert policy.rule(Series("accuracy.A.track", (), "m", "e", "")).higher_is_better
    assert policy.rule(Series("accuracy.A.track", (), "m", "e", "")).minimum_effect == 0.01
    assert policy.rule(Series("compile.C.track", (), "m", "e", "")).exact
    assert not policy.rule(Series("other", (), "m", "e", "")).exact


def test_an_override_can_turn_the_direction_and_exactness_of_a_series() -> None:
    policy = parse_policy(
        {
            "exact": ["forward.*"],
            "overrides": {"forward.*": {"direction": "lower", "exact": False}},
        }
    )
    rule = policy.rule(series(higher=True))
    assert not rule.higher_is_better
    assert not rule.exact


def test_one_minimum_effect_for_all_replaces_those_of_the_overrides_only() -> None:
    policy = parse_policy({"overrides": {"*": {"minimum_effect": 0.5, "direction": "higher"}}})
    rule = policy.with_minimum_effect(0.005).rule(series())
    assert (rule.minimum_effect, rule.higher_is_better) == (0.005, True)


@pytest.mark.parametrize("value", [0, -0.1, 1.5, float("nan"), float("inf"), True, "2 %", None])
def test_a_minimum_effect_that_is_no_fraction_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"minimum_effect must be a fraction"):
        parse_policy({"minimum_effect": value})


def test_the_threshold_of_the_command_line_is_checked_too() -> None:
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        Policy().with_minimum_effect(2.0)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"minimum_efect": 0.1},
            r"unknown key 'minimum_efect'; known: acknowledged, exact, minimum_effect",
        ),
        ({"exact": "compile.*"}, r"exact must be a list of benchmark patterns, not 'compile\.\*'"),
        ({"exact": [1]}, r"exact must be a list"),
        ({"overrides": []}, r"overrides must be a table"),
        ({"overrides": {"a.*": 3}}, r'overrides\."a\.\*"\] must be a table'),
        ({"overrides": {"a.*": {"effect": 3}}}, r'"a\.\*"\]: unknown key \'effect\''),
        ({"overrides": {"a": {"direction": "up"}}}, r"direction must be .* not 'up'"),
        ({"overrides": {"a": {"exact": 1}}}, r"exact must be true or false, not 1"),
        ({"overrides": {"a": {"minimum_effect": 2}}}, r'"a"\] minimum_effect must be a fraction'),
        (["a"], r"must be a table"),
    ],
)
def test_a_bad_setting_is_named(table: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_policy(table)


def test_errors_of_a_file_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"pyproject\.toml: not valid TOML"):
        load_policy(write(tmp_path, "[tool"))
    with pytest.raises(
        ValueError, match=r"pyproject\.toml: \[tool\.lmhead-perf\]: unknown key 'x'"
    ):
        load_policy(write(tmp_path, "[tool.lmhead-perf]\nx = 1\n"))
    with pytest.raises(ValueError, match=r"\[tool\.lmhead-perf\] must be a table, not 3"):
        load_policy(write(tmp_path, "[tool]\nlmhead-perf = 3\n"))
