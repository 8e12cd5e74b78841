"""Import ``fused_lmhead`` from the commit to be measured, or not at all.

A wrong checkout gives perfect flat lines: an editable install, a copy on
PYTHONPATH or a module imported before the fork would be timed as if it were
every commit.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

PACKAGE = "fused_lmhead"


class WrongCheckoutError(RuntimeError):
    """What was imported is not the commit to be measured."""


def import_measured(checkout: Path, commit: str, forked: bool = False) -> ModuleType:
    """Import the package from ``checkout``, whose HEAD must be ``commit``.

    ``forked``: from a server that serves all commits. Raises NotImplementedError where
    the commit has no such package (asv then records the benchmark as skipped) and
    WrongCheckoutError where the package lies elsewhere, was imported before the fork, or
    the checkout is of another commit.
    """
    head_file = checkout / ".git" / "HEAD"
    head = head_file.read_text().strip() if head_file.is_file() else "not a git checkout"
    if head != commit:
        raise WrongCheckoutError(f"{checkout} is at {head}, to be measured is {commit}")
    if not (checkout / PACKAGE).is_dir():
        # Before importing: an installed copy would be found in its stead.
        raise NotImplementedError(f"commit {commit[:8]} has no package {PACKAGE}")
    if forked and PACKAGE in sys.modules:
        raise WrongCheckoutError(
            f"{PACKAGE} was imported with the suite, perhaps of another commit than {commit[:8]}"
        )
    # The server may have listed the folder when it was another commit's.
    importlib.invalidate_caches()
    package = importlib.import_module(PACKAGE)
    verify_loaded(checkout)
    return package


def verify_loaded(checkout: Path) -> None:
    """Raise WrongCheckoutError if any loaded module of the package lies elsewhere."""
    root = checkout.resolve()
    for name, module in tuple(sys.modules.items()):
        if name != PACKAGE and not name.startswith(PACKAGE + "."):
            continue
        file = getattr(module, "__file__", None)
        if file is None or not Path(file).resolve().is_relative_to(root):
            raise WrongCheckoutError(
                f"{name} was imported from {file}, not from the checkout {checkout}; "
                "remove the other copy from the path or from the environment"
            )


def relative_file(package: ModuleType, checkout: Path) -> str:
    """The package's file, relative to the checkout."""
    if package.__file__ is None:
        raise WrongCheckoutError(f"{package.__name__} has no file")
    return Path(package.__file__).resolve().relative_to(checkout.resolve()).as_posix()
