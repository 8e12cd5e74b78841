"""The measured commit's package: that it is this commit's, and what it lacks."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from asv_benchmarks import checkout
from asv_benchmarks.calls import describe_schedule, fused_function
from asv_benchmarks.checkout import WrongCheckoutError, import_measured, relative_file
from asv_benchmarks.workloads import Workload

COMMIT = "c" * 40

pytestmark = pytest.mark.usefixtures("measured")


def test_a_checkout_of_another_commit_is_refused(measured: Path) -> None:
    with pytest.raises(WrongCheckoutError, match="to be measured is ddd"):
        import_measured(measured, "d" * 40)
    with pytest.raises(WrongCheckoutError, match="not a git checkout"):
        import_measured(measured / "toy_lmhead", COMMIT)


def test_a_folder_that_was_listed_before_the_fork_is_listed_anew(measured: Path) -> None:
    """Its time is all that Python goes by; a checkout in the same tick keeps it."""
    package, aside = measured / "toy_lmhead", measured.parent / "aside"
    package.rename(aside)
    assert importlib.util.find_spec("toy_lmhead") is None
    before = measured.stat()
    aside.rename(package)
    os.utime(measured, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert importlib.util.find_spec("toy_lmhead") is None, "as it would be without a listing"
    assert import_measured(measured, COMMIT, forked=True).work() == ()


def test_a_module_that_joins_later_from_elsewhere_is_noticed(measured: Path) -> None:
    package = import_measured(measured, COMMIT)
    assert relative_file(package, measured) == "toy_lmhead/__init__.py"
    late = ModuleType("toy_lmhead.late")
    late.__file__ = "/elsewhere/toy_lmhead/late.py"
    sys.modules["toy_lmhead.late"] = late
    with pytest.raises(WrongCheckoutError, match=r"toy_lmhead\.late was imported from /elsewhere"):
        checkout.verify_loaded(measured)


def test_a_broken_import_is_a_failure_and_not_a_skip(measured: Path) -> None:
    (measured / "toy_lmhead" / "__init__.py").write_text("import no_such_dependency\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        import_measured(measured, COMMIT)


def test_an_api_that_a_commit_lacks_is_named() -> None:
    old = ModuleType("old")
    with pytest.raises(NotImplementedError, match="no fused_linear_logprob"):
        fused_function(old, "cpu")
    old.fused_linear_logprob = lambda hidden, weight, target, *, backend: None  # type: ignore[attr-defined]
    assert fused_function(old, "cpu") is old.fused_linear_logprob
    with pytest.raises(NotImplementedError, match="takes no return_entropy"):
        fused_function(old, "cpu", "return_entropy")
    old.fused_linear_logprob = lambda hidden, weight, target: None  # type: ignore[attr-defined]
    with pytest.raises(NotImplementedError, match="takes no backend"):
        fused_function(old, "cpu")


def test_a_commit_without_triton_is_skipped_on_a_gpu() -> None:
    torch_only = ModuleType("toy_lmhead")
    torch_only.fused_linear_logprob = lambda hidden, weight, target, *, backend: None  # type: ignore[attr-defined]
    with pytest.raises(NotImplementedError, match="no Triton backend"):
        fused_function(torch_only, "gpu")


def test_a_schedule_is_asked_for_where_the_commit_has_one() -> None:
    pytest.importorskip("torch")
    module = ModuleType("toy_lmhead")
    workload = Workload("nemotron-super", 16384, 4)
    assert describe_schedule(module, workload, "gpu") is None
    module.describe_schedule = lambda m, h, v, dtype, device: {"shape": [m, h, v], "on": device}  # type: ignore[attr-defined]
    described = describe_schedule(module, workload, "gpu")
    assert described == {"shape": [16384, 4096, 32768], "on": "cuda"}
    assert describe_schedule(module, workload, "cpu") is None
