"""The rules of other trackers, as they are compared with, are what their projects say."""

from __future__ import annotations

import numpy as np
from rival_rules import e_divisive, fixed_five_percent, mann_whitney, rustc_fence


def test_the_other_rules_are_what_their_projects_say() -> None:
    rng = np.random.default_rng(2)
    level = np.zeros((1, 3))
    past = np.tile([[-0.02], [0.01], [0.0], [0.01], [0.02]], (6, 1))
    # third quartile 0.02, interquartile range 0.01: the fence is at 0.05
    assert not rustc_fence(level, level + 0.049, past, rng)[0]
    assert rustc_fence(level, level + 0.051, past, rng)[0]
    assert not fixed_five_percent(level, level + np.log(1.0499), past, rng)[0]
    assert fixed_five_percent(level, level + np.log(1.0501), past, rng)[0]
    quiet, rounds = 1e-4 * rng.standard_normal((30, 1)), 1e-4 * rng.standard_normal((2, 1, 3))
    assert e_divisive(rounds[0], rounds[1] + 0.01, quiet, rng)[0]
    assert not e_divisive(rounds[0], rounds[1], quiet, rng)[0]
    same, slow = 0.001 * rng.standard_normal((2, 1, 3))
    assert mann_whitney(same, slow + 0.1, past, rng)[0]
    assert not mann_whitney(same, same, past, rng)[0]
