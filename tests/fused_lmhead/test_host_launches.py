"""Launches that skip Triton's search for the kernel: what the C function is given is what Triton
itself would give it, whatever changes from one launch to the next."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="module")
def seen(printed_by, quick_launches) -> dict[str, Any]:
    """What ``host_launches_process.py`` printed."""
    return printed_by("host_launches_process.py")


def test_the_kernel_and_its_arguments_are_those_that_triton_would_launch(seen):
    compared = seen["same as Triton"]
    assert compared["wrong"] == []
    # The changes do need different kernels: what is remembered tells them apart.
    assert compared["variants"] > 15
    # Integers beyond 32 bits, of which Triton makes other types.
    assert compared["never quick"] == [14, 21, 22]


def test_device_stream_hooks_debugging_and_version_are_respected(seen):
    noted = seen["circumstances"]
    assert noted.pop("pre-run hooks called") == 4
    noted.setdefault("instrumented", {"same": True, "ordinary": 1, "function": None})
    assert all(each["same"] for each in noted.values())
    # Of three launches: with hooks, or a Triton whose protocol is unknown, all are ordinary.
    assert {name: each["ordinary"] for name, each in noted.items()} == {
        "plain": 0,
        "other device": 1,
        "other stream": 0,
        "hook": 3,
        "debug": 1,
        "instrumented": 1,
        "plain again": 0,
        "pre-run hook": 3,
        "unknown Triton": 3,
        "known Triton": 0,
    }
    plain = noted["plain"]
    for other in ("other device", "debug", "instrumented"):
        assert noted[other]["function"] != plain["function"]
    assert noted["plain again"]["function"] == plain["function"]
    assert noted["other stream"]["stream"] != plain["stream"]
    assert noted["hook"]["hooks"] == 1


def test_threads_launch_their_own(seen):
    assert seen["threads"] == {"launched": 1600, "functions of aligned": 1, "functions": 2}
