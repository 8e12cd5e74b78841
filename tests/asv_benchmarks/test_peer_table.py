"""The comparison's table: ratios, what failed, what sums them up."""

from __future__ import annotations

from asv_benchmarks.peer_table import Cell, Column, Row, table

FAST = Column("forward", "fast", "log-prob")
SLOW = Column("forward + backward", "slow")


def row(shape: str, fast: Cell, slow: Cell, unit: float | None = 2.0) -> Row:
    return Row(shape, unit, {FAST: fast, SLOW: slow})


def test_ratios_are_to_the_product_and_summed_up_below() -> None:
    rows = [
        row("1, 2, 3", Cell(2.0, "graph", 1e-3), Cell(8.0, "events")),
        row("4, 5, 6", Cell(8.0, "graph", 2e-3), Cell(9.0, "graph"), unit=4.0),
    ]
    forwards, backwards = table(rows, [FAST, SLOW], "product").split("\n\nforward + backward")
    assert forwards.splitlines()[2:] == [
        "| M, H, V | product, ms | fast |",
        "| --- | --- | --- |",
        "| 1, 2, 3 | 2.000 | 1.000 |",
        "| 4, 5, 6 | 4.000 | 2.000 |",
        "| geomean |  | 1.414 |",
        "| worst |  | 2.000 |",
        "| Δ log-prob |  | 2.0e-03 |",
        "| timed by |  | graph |",
        "",
        "fast: log-prob.",
    ]
    assert "| worst |  | 4.000 |" in backwards
    assert "| timed by |  | events, graph |" in backwards


def test_a_failure_is_a_cell_and_is_told_in_full_below() -> None:
    reason = "RuntimeError: a | b\n" + "long " * 30 + "end"
    rows = [
        row("1, 2, 3", Cell(3.0, "graph"), Cell(reason=reason)),
        row("4, 5, 6", Cell(reason="OutOfMemoryError"), Cell(reason=reason)),
    ]
    found = table(rows, [FAST, SLOW], "product").splitlines()
    assert "| 4, 5, 6 | 2.000 | OutOfMemoryError |" in found
    assert "| geomean |  | 1.500 (1 of 2) |" in found
    (cell,) = [line for line in found if line.startswith("| 1, 2, 3 |") and "RuntimeError" in line]
    assert "a \\| b long" in cell
    assert cell.endswith("… |")
    assert sum("long end" in line for line in found) == 2
    assert found.count("| geomean |  | - |") == 1


def test_a_shape_without_the_product_has_no_ratios() -> None:
    assert "| 1, 2, 3 | - | - |" in table([row("1, 2, 3", Cell(3.0), Cell(), None)], [FAST], "p")
