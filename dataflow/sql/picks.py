"""Aggregates that pick values of a group in an order: quantiles, values of the first row, the most frequent value.

string_agg is one of them, which writes the texts of all rows. Aggregates over the same rows in the same order are one
operator. Of several values that SQL leaves open, such as those of rows that tie for the first place, the smallest is
taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from deltamark.dataflow.language.by_terms import fresh, projected
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import SumExpr
from deltamark.dataflow.language.picks import INTERPOLATED, PickExpr, between, row, string_agg
from deltamark.dataflow.operators.derived import Piece
from deltamark.dataflow.operators.node import Node
from deltamark.dataflow.operators.pick import MAX_DENOMINATOR
from deltamark.dataflow.plan.terms import (
    TRUE,
    Constant,
    Equal,
    IsNull,
    Less,
    Ratio,
    Term,
    column,
    negative,
    number,
    quotient,
)
from deltamark.dataflow.scalars import values
from deltamark.dataflow.scalars.numbers import absolute
from deltamark.dataflow.scalars.times import as_timestamp
from deltamark.dataflow.scalars.values import Cell, Truth, Value, chosen, either, known_column, text_term, value_of
from deltamark.dataflow.sql.problems import unsupported
from deltamark.dataflow.sql.rows import Rows, order_keys, stored_term, without_null
from deltamark.dataflow.types import TEXT

if TYPE_CHECKING:
    from deltamark.dataflow.sql.groups import AggregateCall, Result, Types

SMALLEST = ("arg_min", "argmin", "min_by", "arg_min_null")
LARGEST = ("arg_max", "argmax", "max_by", "arg_max_null")
ANY = ("first", "last", "arbitrary", "any_value")
"""Without an order any value of the group is right: it is the smallest one, so that NULL is taken only if all are."""
WITH_NULL = ("arg_min_null", "arg_max_null")
"""The functions that pick NULL, too. DuckDB makes `first` and `last` with an order of them."""
QUANTILES = ("median", "quantile", "quantile_disc", "quantile_cont")
INTERPOLATING = ("median", "quantile_cont")
TEXTS = ("string_agg", "listagg", "group_concat")
PICKED = (*SMALLEST, *LARGEST, *ANY, *QUANTILES, *TEXTS, "mode")

FIRST = Fraction(0)


@dataclass(frozen=True)
class _Picking:
    """A value of the row at a place, by an order of rows: values, and whether they are descending.

    known: the values that are not NULL in any of the rows. separator: between the values of all rows, if it is theirs.
    """

    rows: Rows
    order: Sequence[tuple[Cell, bool]]
    value: Value
    known: Sequence[Cell]
    share: Fraction = FIRST
    is_between: bool = False
    separator: str | None = None

    def expression(self, of: str) -> PickExpr:
        """Return the value of a column."""
        if self.separator is not None:
            return string_agg(of, self.separator)
        return between(of, self.share) if self.is_between else row(of, self.share)

    @property
    def reads_all(self) -> bool:
        return all(each.nulls is None for each in self.known)


@dataclass
class _Ordered:
    """The rows of one order with their stored terms, and the values that are picked of them."""

    node: Node
    order: list[str]
    names: dict[Term, str]
    picks: dict[str, PickExpr] = field(default_factory=dict)
    nullable: list[str] = field(default_factory=list)
    has_all_groups: bool = False

    def name_of(self, term: Term) -> str:
        """Return the name of the column that stores a term."""
        return self.names.setdefault(term, fresh("stored", self.names.values()))


class Picks:
    """The picked values of one grouping. keys: the columns of the groups, which all rows have."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys
        self._ordered: dict[object, _Ordered] = {}

    def add(self, call: AggregateCall, rows: Rows, name: str) -> Result:
        """Add an aggregate, whose value is stored in columns of a name. rows: those that its condition leaves."""
        picking = _picking(call, rows, self._keys)
        ordered = self._of(picking)
        ordered.has_all_groups |= call.condition is None and picking.reads_all
        value = picking.value
        for stored, term in values.stored_terms(name, value).items():
            ordered.picks[stored] = picking.expression(ordered.name_of(term))
            if term.type.nullable and term.type.kind != "text":
                ordered.nullable.append(stored)
        if picking.is_between and not isinstance(value.term, Ratio) and value.term.type.kind == "int":
            return lambda types: _interpolated(name, call, value, types)
        return lambda types: _restored(name, value, types)

    def _of(self, picking: _Picking) -> _Ordered:
        """Return the rows in the order of a picking, which other ones may share."""
        node = picking.rows.collection.node
        terms = tuple((stored_term(cell), descending) for cell, descending in picking.order)
        if (node, terms) not in self._ordered:
            names: dict[Term, str] = {column(key, node.schema[key]): key for key in self._keys}
            made = self._ordered[node, terms] = _Ordered(node, [], names)
            made.order += ["-" * descending + made.name_of(term) for term, descending in terms]
        return self._ordered[node, terms]

    def pieces(self) -> list[Piece]:
        """Return a row for each group and each order."""
        return [Piece(self._piece(each), each.has_all_groups) for each in self._ordered.values()]

    def _piece(self, of: _Ordered) -> Node:
        """Return the picked values. A number that may be NULL has a second column, which says whether it is."""
        rows = Collection(projected(of.node, {name: term for term, name in of.names.items()}))
        picked = rows.pick(self._keys, of.order, **of.picks)
        if not of.nullable:
            return picked.node
        terms: dict[str, Term] = {}
        for each in picked.schema.fields:
            terms[each.name] = column(each.name, each.type)
            if each.name in of.nullable:
                terms[each.name] = known_column(each.name, each.type)
                terms[_mark(each.name)] = chosen(IsNull(column(each.name, each.type)), number(1), number(0))
        return projected(picked.node, terms)


def _mark(name: str) -> str:
    return f"{name} is null"


def _restored(name: str, value: Value, types: Types) -> Cell:
    """Return a picked value from its columns."""
    first = f"{name}.num" if isinstance(value.term, Ratio) else name
    found = value_of(values.cell_of(name, value, types))
    if _mark(first) not in types:
        return found
    is_null = Equal(known_column(_mark(first), types[_mark(first)]), number(1))
    return replace(found, null=either(found.null, is_null))


def _interpolated(name: str, call: AggregateCall, value: Value, types: Types) -> Cell:
    """Return an interpolated number: a quotient, or a decimal, which DuckDB rounds towards zero."""
    assert not isinstance(value.term, Ratio)
    found = value_of(values.cell_of(name, Value(Ratio(value.term, number(1))), types))
    if call.type.name != "DECIMAL":
        return found
    assert isinstance(found.term, Ratio)
    above, below = found.term.numerator, found.term.denominator
    rounded = quotient(absolute(above), below, above.type.scale)
    is_negative = Less(above, number(0, above.type.scale))
    return Value(rounded if above.type.low >= 0 else chosen(is_negative, negative(rounded), rounded), found.null)


def _picking(call: AggregateCall, rows: Rows, keys: Sequence[str]) -> _Picking:
    """Return the place of an aggregate's value, and the rows among which it is."""
    if call.function in TEXTS and call.separator is None:
        raise unsupported(f"{call.name} over a window", call.place)
    has_order = call.function in (*SMALLEST, *LARGEST) and not call.order
    if len(call.args) != 1 + has_order:
        raise unsupported(f"{call.name} with {len(call.args)} arguments", call.place)
    argument, *others = map(rows.cell, call.args)
    if call.function in QUANTILES:
        return _quantile(call, rows, argument, keys)
    if call.function == "mode":
        return _mode(rows, argument, keys)
    if call.function in TEXTS:
        return _texts(call, rows, argument, keys)
    if call.function in ANY and not call.order:
        missing = [] if argument.nulls is None else [(Truth.of(argument.nulls), False)]
        return _Picking(rows, [*missing, (argument, False)], value_of(argument), ())
    known, value = others, value_of(argument)
    if call.function not in (*WITH_NULL, "first", "last"):
        known, value = [argument, *others], _not_null(argument)
    rows, backwards = without_null(rows, known), call.function in (*LARGEST, "last")
    order: list[tuple[Cell, bool]] = [(_not_null(each), False) for each in others]
    order += order_keys(rows, call.order)
    return _Picking(rows, [(cell, down != backwards) for cell, down in order], value, known)


def _not_null(cell: Cell) -> Value:
    """Return a value for rows in which it is not NULL."""
    return Value(value_of(cell).term)


def _quantile(call: AggregateCall, rows: Rows, cell: Cell, keys: Sequence[str]) -> _Picking:
    if call.quantile is None or call.quantile.denominator > MAX_DENOMINATOR:
        raise unsupported(f"{call.name} with shares that are no constant, several, or long", call.place)
    if call.function in INTERPOLATING:
        cell = _as_time(value_of(cell))
    stored, argument = _stored(rows, cell, keys)
    if call.function in INTERPOLATING and argument.type.kind == "interval":
        raise unsupported(f"{call.name} of intervals", call.place, f"take their seconds: {call.name}(epoch(x))")
    if call.distinct:
        stored = stored.distinct()
    is_between = call.function in INTERPOLATING and argument.type.kind in INTERPOLATED
    value = Value(argument)
    return _Picking(Rows(stored, ()), [(value, call.is_descending)], value, [cell], call.quantile, is_between)


def _texts(call: AggregateCall, rows: Rows, cell: Cell, keys: Sequence[str]) -> _Picking:
    """Return the texts of all rows in an order, which is that of the texts if there is none."""
    given = value_of(cell)
    assert not isinstance(given.term, Ratio)
    text = Value(Constant("", TEXT) if given.null is TRUE else text_term(given.term))
    if call.distinct:  # in order of the texts, or DuckDB refuses it
        stored, argument = _stored(rows, replace(given, term=text.term), keys)
        order = [(Value(argument), any(each.descending for each in call.order))]
        return _Picking(Rows(stored.distinct(), ()), order, Value(argument), [cell], separator=call.separator)
    rows = without_null(rows, [cell])
    return _Picking(rows, [*order_keys(rows, call.order), (text, False)], text, [cell], separator=call.separator)


def _as_time(value: Value) -> Value:
    """Return a date as the timestamp of its midnight, and other values as they are."""
    if isinstance(value.term, Ratio) or value.term.type.kind != "date":
        return value
    return replace(value, term=as_timestamp(value.term))


def _mode(rows: Rows, cell: Cell, keys: Sequence[str]) -> _Picking:
    """Return the first value by descending frequency."""
    stored, argument = _stored(rows, cell, keys)
    times = fresh("times", stored.schema.names)
    counted = stored.aggregate(stored.schema.names, **{times: SumExpr()})
    frequency = Value(column(times, counted.schema[times]))
    return _Picking(Rows(counted, ()), [(frequency, True)], Value(argument), [cell])


def _stored(rows: Rows, cell: Cell, keys: Sequence[str]) -> tuple[Collection, Term]:
    """Return the keys and a value of the rows in which it is not NULL, and the column of the value."""
    rows, name = without_null(rows, [cell]), fresh("value", keys)
    term = stored_term(_not_null(cell))
    terms = {key: column(key, rows.types[key]) for key in keys} | {name: term}
    return Collection(projected(rows.collection.node, terms)), column(name, term.type)
