"""Commands that take a number again, for a shell; no streamlit."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence


def measure(benchmark: str, param_values: Sequence[str], commits: Sequence[str]) -> str:
    """The asv command that measures one series at some commits.

    Several commits take turns round by round, so that they can be told apart best.
    """
    called = benchmark + (f"({', '.join(param_values)})" if param_values else "")
    # A dot fits a quote as well, and needs none of its own in the shell.
    expression = f"^{re.escape(called)}$".replace("'", ".").replace(r"\ ", " ")
    options = f"--record-samples --bench {shlex.quote(expression)}"
    if len(commits) == 1:
        return f"asv run {options} {shlex.quote(commits[0] + '^!')}"
    listed = " ".join(map(shlex.quote, commits))
    return f"printf '%s\\n' {listed} | asv run --interleave-rounds {options} HASHFILE:-"


def compare(base: str, head: str) -> str:
    """The command that judges two commits."""
    return f"lmhead-perf check --base {base} --head {head}"
