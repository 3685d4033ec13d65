"""Unions of rows."""

from __future__ import annotations

from collections.abc import Sequence

from deltamark.dataflow.plan.terms import Ratio
from deltamark.dataflow.scalars import values
from deltamark.dataflow.scalars.values import TRUE, Cell, Value, unified_values, value_of
from deltamark.dataflow.sql.problems import unsupported
from deltamark.dataflow.sql.rows.rows import Rows


def aligned(parts: Sequence[Rows]) -> list[Rows]:
    """Store the columns of several rows under the same names, with the same kinds and scales."""
    names = [f"c{at}" for at in range(len(parts[0].cells))]
    columns = [unified_column([each.cells[at] for each in parts]) for at in range(len(names))]
    return [part.with_cells(each[at] for each in columns).stored(names) for at, part in enumerate(parts)]


def union(parts: Sequence[Rows]) -> Rows:
    """Add up rows whose columns have the same kinds."""
    same = aligned(parts)
    total = same[0].concat(*same[1:])
    return total.with_cells(values.cell_of(f"c{at}", cell, total.types) for at, cell in enumerate(total.cells))


def unified_column(cells: Sequence[Cell]) -> Sequence[Cell]:
    """Give values the same kind."""
    same = unified_values([value_of(each) for each in cells])
    if same is None:
        raise unsupported("columns of different kinds in a union")
    return same


def null_like(cell: Cell) -> Cell:
    """Return a NULL of the kind of a value."""
    term = value_of(cell).term
    if isinstance(term, Ratio):
        return Value(Ratio(*(values.some_value(each.type) for each in (term.numerator, term.denominator))), TRUE)
    return Value(values.some_value(term.type), TRUE)
