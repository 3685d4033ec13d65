"""Rows of SQL: a collection, and the values of numbered columns over it.

Projections only compose values. A collection gets new columns where an operator needs columns that are stored: keys,
results of outer joins, and rows that are compared as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.operators.input import Input
from deltamark.dataflow.operators.linear import Filter, Project
from deltamark.dataflow.operators.node import walk
from deltamark.dataflow.plan.terms import Column, IsNull, Ratio, Term, all_of, balanced, column, conjuncts
from deltamark.dataflow.scalars import values
from deltamark.dataflow.scalars.evaluator import condition as condition_of
from deltamark.dataflow.scalars.evaluator import evaluate
from deltamark.dataflow.scalars.expressions import Expression
from deltamark.dataflow.scalars.values import (
    FALSE,
    TRUE,
    Cell,
    Truth,
    Value,
    both,
    negated,
    never_null,
    rewritten,
    surely,
)
from deltamark.dataflow.sql.problems import unsupported
from deltamark.dataflow.types import Field, Schema, Type, integer

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

    def with_cells(self, cells: Iterable[Cell]) -> Rows:
        return replace(self, cells=tuple(cells))

    def project(self, expressions: Iterable[Expression[int]]) -> Rows:
        return self.with_cells(map(self.cell, expressions))

    def where(self, *conditions: Truth) -> Rows:
        """Keep the rows for which all conditions are true. No value is NULL there that the conditions exclude."""
        kept = balanced([TRUE, *(each.true for each in conditions)], both)
        return self.where_each([lambda _: Truth(kept, None)])

    def where_each(self, conditions: Iterable[Callable[[Rows], Truth]]) -> Rows:
        """Keep the rows for which all conditions are true. Each is computed for rows that satisfy those before it."""
        rows, parts = self, list[Term]()
        for each in conditions:
            kept = surely(each(rows).true)
            if kept is not TRUE:
                parts.append(kept)
                rows = rows._knowing(kept)
        return replace(rows, collection=filtered(self.collection, *parts)) if parts else self

    def _knowing(self, kept: Term) -> Rows:
        """Return the values of rows that satisfy a condition."""
        known: dict[Term, Term] = dict.fromkeys(map(IsNull, never_null(kept)), FALSE)
        return self.with_cells(rewritten(each, known) for each in self.cells) if known else self

    def negate(self) -> Rows:
        return replace(self, collection=self.collection.negate())

    def concat(self, *others: Rows) -> Rows:
        """Add up rows over collections with the same columns; the values are those of the first ones."""
        return replace(self, collection=self.collection.concat(*(each.collection for each in others)))

    def renamed(self, names: Mapping[str, str]) -> Rows:
        """Rename columns of the collection, {old: new}."""
        if not names:
            return self
        changed = self.collection.rename(**{new: old for old, new in names.items()})
        by = {column(old, self.types[old]): column(new, self.types[old]) for old, new in names.items()}
        return Rows(changed, tuple(rewritten(each, by) for each in self.cells))

    def stored(self, names: Sequence[str]) -> Rows:
        """Store each value in columns of its own."""
        terms = {
            name: term
            for each, cell in zip(names, self.cells, strict=True)
            for name, term in values.stored_terms(each, cell).items()
        }
        made = projected(self.collection, terms)
        types = {field.name: field.type for field in made.schema.fields}
        cells = [values.cell_of(name, cell, types) for name, cell in zip(names, self.cells, strict=True)]
        return Rows(made, tuple(cells))

    def with_columns(self, terms: Mapping[str, Term]) -> Rows:
        """Add columns to the collection."""
        if not terms:
            return self
        kept = {name: column(name, type_) for name, type_ in self.types.items()}
        return replace(self, collection=projected(self.collection, {**kept, **terms}))

    def as_columns(self, wanted: Sequence[Cell], prefix: str) -> tuple[Rows, list[str]]:
        """Return rows whose collection has a column for each value, and the names; values that are columns have one."""
        new: dict[str, Term] = {}
        names = []
        for each in wanted:
            term = stored_term(each)
            if isinstance(term, Column):
                names.append(term.name)
                continue
            name = next((old for old, other in new.items() if other is term), None)
            if name is None:
                name = fresh(prefix, [*self.types, *new])
                new[name] = term
            names.append(name)
        return self.with_columns(new), names


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


def stored_term(cell: Cell, use: str = "as a key") -> Term:
    """Return the term that stores a value in one column. use: names what it is stored for."""
    value = values.value_of(cell)
    if isinstance(value.term, Ratio):
        raise unsupported(f"a quotient {use}", remedy="round or multiply it")
    return values.nullable_term(value.term, value.null)


def filtered(rows: Collection, *conditions: Term) -> Collection:
    """Keep the rows that satisfy all conditions. Each part is tested once, those with the fewest operations first."""
    below, parts = rows.node, [part for each in conditions for part in conjuncts(each)]
    if isinstance(rows.node, Filter):
        below, parts = rows.node.rows, [*conjuncts(rows.node.condition), *parts]
    condition = all_of(sorted(dict.fromkeys(parts), key=lambda each: each.operations))
    return Collection(Filter(below, condition, schema=rows.schema))


def projected(rows: Collection, terms: Mapping[str, Term]) -> Collection:
    schema = Schema(tuple(Field(name, term.type) for name, term in terms.items()), rows.schema.rows)
    return Collection(Project(rows.node, tuple(terms.items()), schema=schema))


def fresh(name: str, taken: Iterable[str]) -> str:
    """Return a name that is not taken: the name itself, or with a number."""
    known, number, new = set(taken), 1, name
    while new in known:
        number += 1
        new = f"{name}_{number}"
    return new


def scanned(collection: Collection, columns: Sequence[str]) -> Rows:
    """Return the rows of a relation."""
    return Rows(collection, tuple(values.stored_value(name, collection.schema[name]) for name in columns))


def without_null(rows: Rows, cells: Sequence[Cell]) -> Rows:
    """Keep the rows in which no value is NULL."""
    missing = [value for cell in cells if (value := cell.nulls) is not None]
    return rows.where(*(Truth.of(negated(each)) for each in missing))


__all__ = ["Rows", "Value"]
