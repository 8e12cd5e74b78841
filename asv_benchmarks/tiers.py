"""The ``--bench`` expression of a tier: ``python -m asv_benchmarks.tiers six``.

asv matches it against ``name(params)`` and starts no process for what does not
match. A tier selects among the constant parameters; it never changes them.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from asv_benchmarks.workloads import TIERS


def expression(tier: str, benchmarks: str | None = None) -> str:
    """The regular expression that selects the workloads of ``tier``.

    ``benchmarks``: only benchmarks whose name the expression matches, from its
    beginning; for example ``forward`` or ``entropy|control``.
    """
    workloads = "|".join(re.escape(workload.label) for workload in TIERS[tier])
    names = rf"^(?:{benchmarks})\S*" if benchmarks else ""
    return rf"{names}\((?:{workloads})\)$"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the expression."""
    parser = argparse.ArgumentParser(
        prog="python -m asv_benchmarks.tiers",
        description='asv run --bench "$(python -m asv_benchmarks.tiers smoke)"',
    )
    parser.add_argument("tier", choices=sorted(TIERS))
    parser.add_argument("--benchmarks", metavar="REGEX", help="only benchmarks named like this")
    chosen = parser.parse_args(arguments)
    print(expression(chosen.tier, chosen.benchmarks))


if __name__ == "__main__":
    main()
