"""What needs processes of its own: Triton's disk cache, real compilation for Hopper, ranks."""

from __future__ import annotations

from functools import partial

import pytest

pytest.importorskip("triton")

from fused_lmhead.releases import speaks_gluon


@pytest.fixture
def without_gpu(printed_by):
    """Run one function of ``without_gpu.py``; what it printed."""
    return partial(printed_by, "without_gpu.py")


def test_timings_are_remembered_and_survive_other_processes_and_torn_files(without_gpu):
    seen = without_gpu("disk")
    together = seen.pop("at once")
    for name, outcome in [*seen.items(), *(("at once", each) for each in together)]:
        assert outcome["right"], name
        assert outcome["remembered"] is (outcome["trials"] == 0), name
    trials = {name: outcome["trials"] for name, outcome in seen.items()}
    assert trials == {
        "first": 2,
        "second": 0,
        "same tokens": 0,  # another bucket, whose search runs on no more tokens
        "other gpu": 2,  # of the same architecture
        "no entropy": 2,
        "after them": 0,
        "torn": 2,
        "after torn": 0,
        "read-only": 2,
    }
    assert len(together) == 4
    warned = {name: len(outcome["warnings"]) for name, outcome in seen.items()}
    assert warned == {name: int(name in ("torn", "after torn", "read-only")) for name in seen}


def test_all_ranks_use_the_first_ones_choice_whoever_has_a_cached_one(without_gpu):
    ranks = without_gpu("agreement")
    for rank in ranks.values():
        # Forward and backward as the first rank found them, in one broadcast a bucket.
        assert rank["100"] == rank["101"] == [True, True, 1]
        assert rank["200"] == [True, True, 2]
        assert rank["agreed"] == {"rank": 0}
    assert ranks["first"]["searched"] == [128, 128, 256, 256]
    assert ranks["second"]["searched"] == []
    assert "different shapes" in ranks["second"]["mismatch"]


def test_a_warmed_head_compiles_nothing_for_other_lengths_and_is_looked_up(without_gpu):
    seen = without_gpu("compilations")
    assert seen["planned"] == ["merge_kernel", "partials_kernel"]  # side by side
    assert seen["warm"] == ["logit_gradient_kernel"] * 2  # the rest: with and without entropy
    assert seen["warmed length"] == []
    assert seen["other lengths"] == []
    # Five lengths; two vocabulary splits, with and without the entropy's gradient.
    assert seen["launched"] == {
        "partials_kernel": 5,
        "merge_kernel": 5,
        "logit_gradient_kernel": 20,
    }
    # Four candidates: the tiles of two differ in nothing but their band, the merges of three in
    # nothing.
    assert seen["searched"] == {
        "forward": {"ahead": ["merge_kernel"] * 2 + ["partials_kernel"] * 3, "run": []},
        "backward": {"ahead": ["logit_gradient_kernel"] * 3, "run": []},
    }

    microseconds = seen["microseconds"]
    print(microseconds)
    # Generous: machines that run tests are busy. Quiet, these are 0.3, 25 and 60.
    assert microseconds["plan_for"] < 5
    assert microseconds["plan_for, new length"] < 300
    assert microseconds["backend.forward"] < 1000


def test_launchers_are_begun_with_their_kernels_and_are_the_ones_that_triton_needs(printed_by):
    if not speaks_gluon():
        pytest.skip("this Triton does not compile the specialised kernels, and may build none")
    seen = printed_by("launcher_process.py")
    names = ("logit_gradient", "logit_gradient_specialised", "partials", "partials_specialised")
    kernels = sorted([*(f"{name}_kernel" for name in names), *["merge_kernel"] * 2])
    assert seen["in time"] == {
        "failures": [],
        "lost": [],
        "at once": 0,
        "loaded": kernels,
        "needed": 5,
        "not ahead": 0,
        "in vain": 0,
        "too late": 0,
    }
    # Where the early builds fail, or no thread is to be had, kernels are loaded all the same.
    for without in (seen["failing"], seen["without threads"]):
        assert (without["failures"], without["lost"], without["loaded"]) == ([], [], kernels)
        assert without["not ahead"] == 6
