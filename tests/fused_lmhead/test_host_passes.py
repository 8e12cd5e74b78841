"""Both passes launched without Triton's search for the kernel and with unchecked descriptors: what
is launched is what Triton would launch, of the tensors at hand."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="module")
def seen(printed_by, quick_launches) -> dict[str, Any]:
    """What ``host_passes_process.py`` printed."""
    return printed_by("host_passes_process.py")


def test_both_passes_give_the_c_function_what_triton_would(seen):
    same = seen["same passes as Triton"]
    assert set(same) == {
        "partials_kernel",
        "partials_kernel that keeps",
        "merge_kernel",
        "logit_gradient_kernel",
        "partials_specialised_kernel",
        "partials_specialised_kernel that keeps",
        "logit_gradient_specialised_kernel",
    }
    assert all(all(each) for each in same.values())


def test_very_small_temperatures_go_to_the_plain_kernels(seen):
    specialised = ["partials_specialised_kernel", "logit_gradient_specialised_kernel"]
    assert seen["by temperature"] == {
        "1.0": specialised,
        "0.0001": specialised,
        "1e-05": ["partials_kernel", "logit_gradient_kernel"],
    }


def test_tile_kernels_are_not_compiled_for_each_band(seen):
    assert seen["by band"] == {"partials_kernel": 1, "logit_gradient_kernel": 1}


def test_descriptors_are_triton_s_own(seen):
    assert all(seen["descriptors"]["same"])
    assert all(seen["descriptors"]["none"])
    # A box that Triton refuses is refused each time.
    assert seen["descriptors"]["refused"] == ["Shape element 0 must be a power of 2"] * 2


@pytest.mark.parametrize("kind", ["tile", "specialised"])
def test_no_descriptor_outlives_or_outdates_its_tensor(seen, kind: str):
    found = seen["tensors"][kind]
    assert found["described"] == [True] * 6  # two weights in turn
    assert found["freed"] == [True, True]  # the weight, hidden
    assert found["same address"] == [
        [True, 9, [512, 256]],  # bfloat16
        [True, 9, [256, 512]],
        [True, 6, [512, 256]],  # float16
    ]
