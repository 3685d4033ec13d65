"""Rows of SQL: a collection, and the values of numbered columns over it.

Projections only compose values. A collection gets new columns where an operator needs columns that are stored: keys,
results of outer joins, and rows that are compared as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from deltamark.dataflow.language.by_terms import columns_of, projected, selected, with_columns
from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.operators.input import Input
from deltamark.dataflow.operators.node import Node, is_unique, walk
from deltamark.dataflow.plan.terms import Column, Ratio, Term
from deltamark.dataflow.scalars import values
from deltamark.dataflow.scalars.evaluator import condition as condition_of
from deltamark.dataflow.scalars.evaluator import evaluate
from deltamark.dataflow.scalars.expressions import Expression
from deltamark.dataflow.scalars.values import (
    Cell,
    Truth,
    negated,
    surely,
)
from deltamark.dataflow.sql.problems import unsupported
from deltamark.dataflow.types import Type, integer

MAX_ROWS = 2**31 - 1
"""The largest k of the first k rows."""

MAX_UNREAD_COLUMNS = 64
"""The columns that rows may have, read or not, if several operations read the rows. After n joins of rows with
themselves there would be 2^n columns. No query of a benchmark has as many; not measured."""

STAND_IN = "(refused)"
"""The name of inputs that stand in for rows that cannot be made."""


@dataclass(frozen=True)
class Rows:
    """A collection, and the values of the columns of SQL."""

    collection: Collection
    cells: tuple[Cell, ...]

    @cached_property
    def types(self) -> Mapping[str, Type]:
        return {field.name: field.type for field in self.collection.schema.fields}

    def cell(self, of: Expression[int]) -> Cell:
        """Compute an expression."""
        return evaluate(of, self.cells.__getitem__)

    def truth(self, of: Expression[int]) -> Truth:
        """Compute a condition."""
        return condition_of(of, self.cells.__getitem__)

    @property
    def columns(self) -> list[Column]:
        """The columns of the collection, as terms."""
        return list(columns_of(self.collection.node).values())

    def with_node(self, node: Node) -> Rows:
        """Return the same values over another node that has their columns."""
        return replace(self, collection=Collection(node))

    def with_cells(self, cells: Iterable[Cell]) -> Rows:
        return replace(self, cells=tuple(cells))

    def project(self, expressions: Iterable[Expression[int]]) -> Rows:
        return self.with_cells(map(self.cell, expressions))

    def where(self, *conditions: Truth) -> Rows:
        """Keep the rows for which all conditions are true."""
        return self.satisfying(*(surely(each.true) for each in conditions))

    def satisfying(self, *conditions: Term) -> Rows:
        """Keep the rows that satisfy terms. The node below stays one, because others may read it."""
        return self.with_node(selected(self.collection.node, *conditions))

    def negate(self) -> Rows:
        return replace(self, collection=self.collection.negate())

    def concat(self, *others: Rows) -> Rows:
        """Add up rows over collections with the same columns; the values are those of the first ones."""
        return replace(self, collection=self.collection.concat(*(each.collection for each in others)))

    def stored(self, names: Sequence[str]) -> Rows:
        """Store each value in columns of its own."""
        terms = {
            name: term
            for each, cell in zip(names, self.cells, strict=True)
            for name, term in values.stored_terms(each, cell).items()
        }
        made = Collection(projected(self.collection.node, terms))
        types = {field.name: field.type for field in made.schema.fields}
        cells = [values.cell_of(name, cell, types) for name, cell in zip(names, self.cells, strict=True)]
        return Rows(made, tuple(cells))

    def as_columns(self, wanted: Sequence[Cell], prefix: str) -> tuple[Rows, list[str]]:
        """Return rows whose collection has a column for each value, and the names; values that are columns have one."""
        node, names = with_columns(self.collection.node, [stored_term(each) for each in wanted], prefix)
        return self.with_node(node), names


def standing_in(cells: Sequence[Cell]) -> Rows:
    """Return one row that stands in for rows that cannot be made, with values of the same kinds and bounds.

    Constants stay constants, and refused values are carried along.
    """
    types: dict[str, Type] = {"row": integer(0, 0)}
    kept: list[Cell] = []
    for at, cell in enumerate(cells):
        stored = {} if isinstance(cell, values.Refused) else values.stored_terms(f"c{at}", cell)
        is_constant = not any(each.columns for each in stored.values())
        types |= {} if is_constant else {name: each.type for name, each in stored.items()}
        kept.append(cell if is_constant else values.cell_of(f"c{at}", cell, types))
    return Rows(source(STAND_IN, types, rows=1), tuple(kept))


def may_differ(rows: Rows) -> bool:
    """Return whether rows are made of others that stand in for refused ones, so that their properties may differ."""
    return any(isinstance(each, Input) and each.name == STAND_IN for each in walk(rows.collection.node))


def stored_term(cell: Cell) -> Term:
    """Return the term that stores a value in one column; a quotient is stored as a double."""
    value = values.value_of(values.in_one_column(cell))
    assert not isinstance(value.term, Ratio)
    return values.nullable_term(value.term, value.null)


def scanned(collection: Collection, columns: Sequence[str]) -> Rows:
    """Return the rows of a relation."""
    return Rows(collection, tuple(values.stored_value(name, collection.schema[name]) for name in columns))


def without_null(rows: Rows, cells: Sequence[Cell]) -> Rows:
    """Keep the rows in which no value is NULL."""
    missing = [value for cell in cells if (value := cell.nulls) is not None]
    return rows.where(*(Truth.of(negated(each)) for each in missing))


class Order(NamedTuple):
    """A key of ORDER BY."""

    expression: Expression[int]
    descending: bool
    nulls_first: bool


def distinct(rows: Rows) -> Rows:
    """Keep each row once."""
    rows = rows.with_cells(map(values.in_one_column, rows.cells))
    stored = rows.stored([f"c{at}" for at in range(len(rows.cells))])
    if is_unique(stored.collection.node, stored.collection.schema.names):
        return stored
    return Rows(stored.collection.distinct(), stored.cells)


def limited(rows: Rows, orders: Sequence[Order], count: int | None, offset: int) -> Rows:
    """Keep the rows from `offset` on, at most `count`, in an order."""
    if count == 0:
        return rows.where(Truth.of(None))
    rows, order = _ordered(rows, orders)
    first = rows if count is None else _first(rows, order, count + offset)
    return first.concat(_first(rows, order, offset).negate()) if offset else first


def _ordered(rows: Rows, orders: Sequence[Order]) -> tuple[Rows, list[str]]:
    """Store all values, and columns to order by. A value that may be NULL has one that says whether it is."""
    keys: list[tuple[Cell, bool]] = []
    for order in orders:
        cell = values.in_one_column(rows.cell(order.expression))
        if cell.nulls is not None:
            keys.append((Truth.of(cell.nulls), order.nulls_first))
        keys.append((cell, order.descending))
    count = len(rows.cells)
    order_by = [f"o{at}" for at in range(len(keys))]
    whole = rows.with_cells([*rows.cells, *(cell for cell, _ in keys)])
    stored = whole.stored([*(f"c{at}" for at in range(count)), *order_by])
    directed = [f"-{name}" if down else name for name, (_, down) in zip(order_by, keys, strict=True)]
    return stored.with_cells(stored.cells[:count]), directed


def _first(rows: Rows, order: Sequence[str], count: int) -> Rows:
    if count > MAX_ROWS:
        raise unsupported(f"LIMIT and OFFSET of {count} rows")
    return Rows(rows.collection.top(count, order), rows.cells)


def without_unread_columns(rows: Rows) -> Rows:
    """Store the values of rows that are read several times, if they have many more columns: joins would double them."""
    if len(rows.types) <= max(MAX_UNREAD_COLUMNS, 2 * len(rows.cells)):
        return rows
    return rows.stored([f"c{at}" for at in range(len(rows.cells))])
