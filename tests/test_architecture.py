"""The boundaries, proved by what a fresh interpreter really loads."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ["torch", "triton", "fused_lmhead", "asv_benchmarks", "asv", "asv_runner"]


def modules_after(code: str) -> set[str]:
    """Top-level names in sys.modules after ``code`` ran in a new interpreter."""
    script = f"{code}\nimport sys; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    return set(done.stdout.split())


DASHBOARD_MODULES = """
import importlib, pkgutil, dashboard
for module in pkgutil.walk_packages(dashboard.__path__, "dashboard."):
    if not module.name.startswith(("dashboard.app.views", "dashboard.app.main")):
        importlib.import_module(module.name)
"""


def test_no_dashboard_module_loads_the_kernels_or_the_suite():
    assert modules_after(DASHBOARD_MODULES).isdisjoint(HEAVY)


def test_the_command_line_starts_without_the_app_or_the_statistics():
    loaded = modules_after("import dashboard.cli")
    assert loaded.isdisjoint([*HEAVY, "streamlit", "altair", "scipy", "pandas"])


def test_the_kernels_load_nothing_of_their_measurement():
    loaded = modules_after("import fused_lmhead")
    forbidden = ["dashboard", "asv_benchmarks", "duckdb", "streamlit", "altair", "git", "asv"]
    assert loaded.isdisjoint(forbidden)


def test_the_kernels_load_without_triton():
    assert "triton" not in modules_after("import fused_lmhead")


@pytest.mark.parametrize(
    ("package", "owner"),
    [
        ("streamlit", "dashboard/app"),
        ("duckdb", "dashboard/store"),
        ("git", "dashboard/commits.py"),
    ],
)
def test_each_heavy_package_has_one_room(package: str, owner: str, pytestconfig: pytest.Config):
    root = pytestconfig.rootpath
    users = set()
    for path in (root / "dashboard").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            if any(name.split(".")[0] == package for name in names):
                users.add(path.relative_to(root).as_posix())
    assert users, f"nobody imports {package}: this test would prove nothing"
    assert {user for user in users if not user.startswith(owner)} == set()


def test_the_declared_contracts_hold(pytestconfig: pytest.Config):
    done = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=pytestconfig.rootpath,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
