"""Real processes over gloo against one process with the whole vocabulary in fp64."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from parallel_cases import FOUR, TWO, Case, assembled, expected

LOGPROB_GATE, HIDDEN_GATE, WEIGHT_GATE = 1.91e-6, 2.34e-5, 2.80e-5


def check(case: Case, folder: Path) -> None:
    got, wanted = assembled(case, folder), expected(case)
    assert len(got.results) == len(wanted.results)
    for one, other in zip(got.results, wanted.results, strict=True):
        assert one.shape == other.shape
        assert torch.equal(one == 0, other == 0)
        torch.testing.assert_close(one, other, rtol=0, atol=LOGPROB_GATE)
    torch.testing.assert_close(got.d_hidden, wanted.d_hidden, rtol=0, atol=HIDDEN_GATE)
    torch.testing.assert_close(got.d_weight, wanted.d_weight, rtol=0, atol=WEIGHT_GATE)


@pytest.mark.parametrize("case", TWO, ids=lambda case: case.name)
def test_two_ranks_give_what_one_process_gives(case: Case, two_ranks: Path):
    check(case, two_ranks)


@pytest.mark.parametrize("case", FOUR, ids=lambda case: case.name)
def test_four_ranks_give_what_one_process_gives(case: Case, four_ranks: Path):
    check(case, four_ranks)
