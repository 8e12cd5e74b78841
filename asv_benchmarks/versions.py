"""The versions that benchmarks have now, by the source of their classes.

To import a class would import torch, and asv's own note of a version, in benchmarks.json, is as
old as the last run.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping
from pathlib import Path

SUITE = Path(__file__).parent


class VersionError(RuntimeError):
    """A class does not say what its version is."""


@functools.cache
def names_in(module: str) -> Mapping[str, ast.ClassDef | tuple[str, str]]:
    """The classes of a module of the suite, and (module, name) of what it has from others."""
    path = SUITE / f"{module}.py"
    found: dict[str, ast.ClassDef | tuple[str, str]] = {}
    for statement in ast.parse(path.read_bytes()).body if path.is_file() else ():
        if isinstance(statement, ast.ClassDef):
            found[statement.name] = statement
        elif isinstance(statement, ast.ImportFrom):
            origin = (statement.module or "").removeprefix("asv_benchmarks.")
            found |= {alias.asname or alias.name: (origin, alias.name) for alias in statement.names}
    return found


def version_in(module: str, name: str) -> str | None:
    """The version of a class of the suite, its own or that of its first base that has one."""
    found = names_in(module).get(name)
    if not isinstance(found, ast.ClassDef):
        return version_in(*found) if found else None
    for statement in found.body:
        match statement:
            case ast.Assign([ast.Name("version")], ast.Constant(str(version))):
                return version
            case ast.AnnAssign(ast.Name("version"), _, ast.Constant(str(version))):
                return version
            case ast.Assign([ast.Name("version")]) | ast.AnnAssign(
                ast.Name("version"), _, ast.expr()
            ):
                raise VersionError(f"the version of {module}.{name} is not written out")
    bases = (version_in(module, base.id) for base in found.bases if isinstance(base, ast.Name))
    return next((version for version in bases if version is not None), None)


@functools.cache
def version_of(benchmark: str) -> str | None:
    """The version that a benchmark has now; None where the suite has no such benchmark.

    Raises VersionError for one that is computed.
    """
    module, _, rest = benchmark.partition(".")
    return version_in(module, rest.partition(".")[0])
