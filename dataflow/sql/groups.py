"""Aggregates of groups of rows, with SQL's rules for NULL and for empty groups.

Sums and counts are one operator. Each minimum, maximum and aggregate of distinct values is a piece of its own over the
same groups, and the pieces are joined. The pieces of coarser groups are made of those of finer ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial, reduce
from typing import TYPE_CHECKING

from deltamark.dataflow.language.by_terms import fresh, projected
from deltamark.dataflow.language.collection import Collection, groups_of
from deltamark.dataflow.language.expr import SumExpr
from deltamark.dataflow.operators.aggregate import Aggregate, Sum
from deltamark.dataflow.operators.derived import Piece
from deltamark.dataflow.operators.node import is_unique
from deltamark.dataflow.passes.expansion import side_by_side
from deltamark.dataflow.plan.terms import (
    MOMENTS,
    Coalesce,
    Constant,
    Equal,
    Ratio,
    Term,
    column,
    double,
    number,
    product,
)
from deltamark.dataflow.scalars import values
from deltamark.dataflow.scalars.comparisons import first_known
from deltamark.dataflow.scalars.doubles import in_double, is_double
from deltamark.dataflow.scalars.expressions import Column, Expression, SqlType
from deltamark.dataflow.scalars.moments import MomentSums
from deltamark.dataflow.scalars.values import (
    TRUE,
    Cell,
    Value,
    as_number,
    both,
    chosen,
    known_column,
    negated,
    nullable_term,
    positive,
    surely,
    value_of,
)
from deltamark.dataflow.sql.bits import BITS, bit_terms, combined_bits
from deltamark.dataflow.sql.picks import ANY, PICKED, Picks
from deltamark.dataflow.sql.problems import unsupported
from deltamark.dataflow.sql.rows import Order, Rows, may_differ, stored_term, without_null
from deltamark.dataflow.types import Schema, Type, integer

if TYPE_CHECKING:
    from deltamark.dataflow.sql.written import Place

EXTREMES = {"min": "smallest", "max": "largest", "bool_and": "smallest", "bool_or": "largest"}
COUNTS = ("count", "count_star")
COUNTS_OF_CONDITIONS = ("count_if", "countif")
"""In DuckDB they are sums of 1 and 0, and so NULL without a row whose condition is known."""
MEANS = ("avg", "mean")
SUMS = ("sum", "sum_no_overflow", *MEANS, *COUNTS, *COUNTS_OF_CONDITIONS, *BITS, *MOMENTS)

Types = Mapping[str, Type]
Result = Callable[[Types], Cell]
"""Makes the value of an aggregate from the types of the columns that store it."""


@dataclass(frozen=True)
class AggregateCall:
    """An aggregate: its function, the argument, and the condition on rows that it reads."""

    function: str
    args: tuple[Expression[int], ...]
    type: SqlType
    distinct: bool = False
    condition: Expression[int] | None = None
    place: Place | None = field(default=None, compare=False)
    order: tuple[Order, ...] = ()
    quantile: Fraction | None = None
    is_descending: bool = False
    """Whether a quantile counts from the largest value."""
    separator: str | None = None
    """The text between those of a string_agg."""

    @property
    def name(self) -> str:
        """The function as the text has it."""
        return self.place.exact.name if self.place and self.place.exact else self.function


def aggregated(rows: Rows, groups: Sequence[Expression[int]], calls: Sequence[AggregateCall]) -> Rows:
    """Compute aggregates of groups. Without groups there is one row."""
    keys = [values.in_one_column(rows.cell(each)) for each in groups]
    rows, names = rows.as_columns(keys, "key")
    pieces = Pieces(rows, tuple(dict.fromkeys(names)), names)
    results = [pieces.result(each) for each in calls]
    collection = pieces.joined()
    types = {field.name: field.type for field in collection.schema.fields}
    cells = [values.cell_of(name, key, types) for name, key in zip(names, keys, strict=True)]
    return Rows(collection, (*cells, *(result(types) for result in results)))


class Pieces:
    """The aggregates of one grouping: sums over all rows, and pieces that are joined to them.

    taken: names that no new column gets; finer: the same aggregates of finer groups, if there are any.
    """

    def __init__(self, rows: Rows, keys: tuple[str, ...], taken: Iterable[str], finer: Pieces | None = None) -> None:
        self._rows, self._keys, self._finer = rows, keys, finer
        self._names = list(dict.fromkeys(taken))
        self._sums: dict[str, SumExpr] = {}
        self._pieces: list[Piece] = []
        self._found: dict[str, Collection] = {}
        """The extremes or the distinct values of the groups by the names of their columns."""
        self._picks = Picks(keys)

    def result(self, call: AggregateCall) -> Result:
        """Add the columns that an aggregate needs."""
        name = call.function
        if name in EXTREMES:
            return self._extreme(call)
        if name == "approx_count_distinct":
            return self._distinct(replace(call, function="count"))
        if name in PICKED:
            return self._picked(call)
        if name not in SUMS:
            raise unsupported(f"the aggregate {call.name}", call.place)
        if call.distinct:
            return self._distinct(call)
        return self._summed(call, self._rows, self._sums)

    def joined(self) -> Collection:
        """Return one row for each group, with the columns of all pieces."""
        keys = self._keys
        pieces = sorted([*self._pieces, *self._picks.pieces()], key=lambda each: not each.has_all_groups)
        if self._sums or not (pieces or keys):
            pieces.insert(0, Piece(self._totals().node, has_all_groups=True))
        elif not pieces or (keys and not pieces[0].has_all_groups):
            pieces.insert(0, Piece(self._groups().node, has_all_groups=True))
        return Collection(side_by_side(pieces, keys))

    def _totals(self) -> Collection:
        """Return the sums and counts of the groups."""
        finer = self._finer._totals() if self._finer is not None and self._sums else None  # noqa: SLF001
        if finer is None or any(finer.schema[name].kind == "double" for name in self._sums):  # which is rounded
            return self._rows.collection.aggregate(self._keys, **self._sums)
        return added_up(finer, self._keys, self._sums)

    def _groups(self) -> Collection:
        finer = self._rows.collection if self._finer is None else self._finer._groups()  # noqa: SLF001
        return finer.distinct(*self._keys)

    def _values(self, rows: Rows, found: Mapping[str, Term]) -> Collection:
        """Return the keys and the values of rows that an aggregate reads, or what it has found for finer groups."""
        if self._finer is not None:
            return self._finer._found[next(iter(found))].select(*self._keys, *found)  # noqa: SLF001
        return Collection(projected(rows.collection.node, {**self._key_terms(rows), **found}))

    def _summed(self, call: AggregateCall, rows: Rows, sums: dict[str, SumExpr]) -> Result:
        """Add the sum and the count that make a sum, a mean or a count."""
        condition: Term | None = TRUE if call.condition is None else rows.truth(call.condition).true
        if not call.args:
            return partial(_count, self._counted(condition, sums))
        if call.function in MOMENTS:
            return self._moment(call, rows, condition, sums)
        value = value_of(rows.cell(call.args[0]))
        known = both(condition, negated(value.null))
        if call.function in COUNTS:
            return partial(_count, self._counted(known, sums))
        if call.function in BITS:
            bits = (chosen(surely(known), each, number(0)) for each in bit_terms(call, value.term))
            summed_bits = [self._added(sums, SumExpr(each)) for each in bits]
            return partial(_bits, call, value, summed_bits, self._counted(known, sums))
        term, divisor = summand(value.term, call)
        nothing = double(0) if term.type.kind == "double" else number(0, term.type.scale)
        summed = self._added(sums, SumExpr(chosen(surely(known), term, nothing)))
        if call.function in MEANS:
            return partial(_mean, summed, self._counted(known, sums), divisor)
        counted = "" if known is TRUE else self._counted(known, sums)
        return lambda types: _sum(summed, counted or _row_count(sums), divisor, types)

    def _moment(self, call: AggregateCall, rows: Rows, condition: Term | None, sums: dict[str, SumExpr]) -> Result:
        """Add the sums that make a variance, a covariance or a correlation."""
        given = [value_of(rows.cell(each)) for each in call.args]
        known = reduce(both, (negated(each.null) for each in given), condition)
        terms: Iterable[Term]
        if any(isinstance(each.term, Ratio) or is_double(each.term) for each in given):
            missing = None if known is TRUE else negated(known)
            terms = (nullable_term(_in_double(each, call), missing) for each in given)
        else:
            numbers = [summand(each.term, call)[0] for each in given]
            terms = (chosen(surely(known), each, number(0, each.type.scale)) for each in numbers)
        moment = MomentSums(call.function, tuple(terms), rows.collection.schema.rows)
        names = {term: self._added(sums, SumExpr(term)) for term in moment.summands}
        return partial(_moment, moment, names, self._counted(known, sums))

    def _counted(self, condition: Term | None, sums: dict[str, SumExpr]) -> str:
        if condition is TRUE:
            return self._added(sums, SumExpr())
        return self._added(sums, SumExpr(chosen(surely(condition), number(1), number(0))))

    def _added(self, sums: dict[str, SumExpr], of: SumExpr) -> str:
        for name, other in sums.items():
            if other.expr is of.expr:
                return name
        name = self._named("count" if of.expr is None else "sum")
        sums[name] = of
        return name

    def _named(self, wish: str) -> str:
        self._names.append(fresh(wish, self._names))
        return self._names[-1]

    def _known_rows(self, call: AggregateCall) -> tuple[Rows, Cell]:
        """Return the rows that an aggregate reads and whose arguments are not NULL, and the first argument.

        Each argument has one column.
        """
        condition = () if call.condition is None else (self._rows.truth(call.condition),)
        arguments = [values.in_one_column(self._rows.cell(each)) for each in call.args]
        rows = self._rows.with_cells(arguments).where(*condition)
        rows = without_null(rows, rows.cells)
        return rows, rows.cells[0]

    def _has_all_groups(self, call: AggregateCall) -> bool:
        """Return whether an aggregate reads a row of each group."""
        return call.condition is None and all(self._rows.cell(each).nulls is None for each in call.args)

    def _extreme(self, call: AggregateCall) -> Result:
        rows, cell = self._known_rows(call)
        term = stored_term(Value(value_of(cell).term))
        name = self._named(call.function)
        found = self._values(rows, {name: term})
        if term.type.kind == "text":
            found = found.top(1, [name if EXTREMES[call.function] == "smallest" else f"-{name}"], self._keys)
        else:
            found = getattr(found, EXTREMES[call.function])(name, by=self._keys).distinct()
        self._found[name] = found
        self._pieces.append(Piece(found.node, self._has_all_groups(call)))
        return lambda types: values.cell_of(name, cell, types)

    def _picked(self, call: AggregateCall) -> Result:
        kind = value_of(self._rows.cell(call.args[0])).term
        if call.function in ANY and not call.order and not isinstance(kind, Ratio) and kind.type.kind != "text":
            return self._extreme(replace(call, function="min"))
        condition = () if call.condition is None else (self._rows.truth(call.condition),)
        return self._picks.add(call, self._rows.where(*condition), self._named(call.function))

    def _distinct(self, call: AggregateCall) -> Result:
        rows, _ = self._known_rows(call)
        names = [self._named("value") for _ in rows.cells]
        stored = {name: stored_term(cell) for name, cell in zip(names, rows.cells, strict=True)}
        seen = self._found[names[0]] = self._values(rows, stored).distinct()
        types = {field.name: field.type for field in seen.schema.fields}
        sums: dict[str, SumExpr] = {}
        arguments = tuple(values.cell_of(name, cell, types) for name, cell in zip(names, rows.cells, strict=True))
        only = AggregateCall(call.function, tuple(map(Column, range(len(names)))), call.type, place=call.place)
        result = self._summed(only, Rows(seen, arguments), sums)
        self._pieces.append(Piece(seen.aggregate(self._keys, **sums).node, self._has_all_groups(call)))
        return result

    def _key_terms(self, rows: Rows) -> dict[str, Term]:
        return {key: column(key, rows.types[key]) for key in self._keys}


def added_up(groups: Collection, keys: tuple[str, ...], sums: Iterable[str]) -> Collection:
    """Add up sums of groups by some of their keys. The bounds stay: they are those of the sums of all rows."""
    schema = groups.schema
    fields = [*map(schema.field, keys), *map(schema.field, sums)]
    total = tuple(Sum(name, "sum", column(name, schema[name])) for name in sums)
    bounded = Schema(tuple(fields), min(schema.rows, groups_of(fields[: len(keys)])))
    return Collection(Aggregate(groups.node, keys, total, schema=bounded))


def summand(term: Term | Ratio, call: AggregateCall) -> tuple[Term, Term | None]:
    """Return the number to sum, and the constant by which the sum is divided; other quotients are doubles."""
    divisor: Term | None = None
    if isinstance(term, Ratio) and isinstance(term.denominator, Constant) and term.denominator.value != 0:
        divisor, term = term.denominator, term.numerator
    if isinstance(term, Ratio) or is_double(term):
        return in_double(term), None
    term = as_number(term)
    if term.type.kind != "int":
        raise unsupported(f"{call.name} of a value that is no number", call.place)
    return term, divisor


def _in_double(value: Value, call: AggregateCall) -> Term:
    """Return a number as a double."""
    return in_double(value.term if isinstance(value.term, Ratio) else summand(value.term, call)[0])


def _moment(moment: MomentSums, names: Mapping[Term, str], counted: str, types: Types) -> Value:
    sums = {term: known_column(name, types[name]) for term, name in names.items()}
    return moment.value(_counter(counted, types), sums)


def _bits(call: AggregateCall, value: Value, summed: Sequence[str], counted: str, types: Types) -> Value:
    assert not isinstance(value.term, Ratio)
    counts = [_counter(each, types) for each in summed]
    return Value(combined_bits(call, value.term.type, counts, _counter(counted, types)), _missing(counted, types))


def _row_count(sums: Mapping[str, SumExpr]) -> str:
    """Return the column that counts all rows; an empty name if there is none."""
    return next((name for name, each in sums.items() if each.expr is None), "")


def _count(counted: str, types: Types) -> Value:
    return Value(_counter(counted, types))


def _counter(name: str, types: Types) -> Term:
    """Return a count, which is 0 where there is no row."""
    type_ = types[name]
    counted = column(name, type_)
    if not type_.nullable:
        return counted
    return Coalesce(counted, number(0), integer(0, max(type_.high, 0)))


def _sum(summed: str, counted: str, divisor: Term | None, types: Types) -> Value:
    value = values.stored_value(summed, types[summed])
    assert not isinstance(value.term, Ratio)
    missing = _missing(counted, types) if counted else value.null
    return Value(value.term, missing) if divisor is None else Value(Ratio(value.term, divisor), missing)


def _mean(summed: str, counted: str, divisor: Term | None, types: Types) -> Value:
    value, count = (values.stored_value(each, types[each]).term for each in (summed, counted))
    assert not isinstance(value, Ratio)
    assert not isinstance(count, Ratio)
    if is_double(value):
        return Value(in_double(Ratio(value, count)), _missing(counted, types))
    below = positive(count)
    if divisor is not None:
        below = product(below, divisor)
    return Value(Ratio(value, below), _missing(counted, types))


def _missing(counted: str, types: Types) -> Term | None:
    """Return the condition under which no value was counted."""
    if types[counted].low >= 1:
        return values.stored_value(counted, types[counted]).null
    return Equal(_counter(counted, types), number(0))


def is_first_of_one(rows: Rows, groups: Sequence[Expression[int]], calls: Sequence[AggregateCall]) -> bool:
    """Return whether an aggregate takes values of the one row that there may be, and perhaps counts it."""
    functions = {each.function for each in calls if each.condition is None}
    if groups or not "first" in functions <= {"first", "count_star"}:
        return False
    return may_differ(rows) or is_unique(rows.collection.node, ())


def only_row(rows: Rows, calls: Sequence[AggregateCall]) -> Rows:
    """Return values of the only row, or NULL if there is none, and how many rows there are. Several are an error."""
    names = [f"c{at}" for at in range(len(calls))]
    stored = rows.with_cells(rows.cell(each.args[0]) if each.args else Value(number(1)) for each in calls).stored(names)
    one = stored.collection if is_unique(stored.collection.node, ()) else stored.collection.at_most_one()
    found = Rows(one.or_null(), ())
    cells = [values.cell_of(name, cell, found.types) for name, cell in zip(names, stored.cells, strict=True)]
    counts = (
        first_known(cell, Value(number(0))) if not call.args else cell for cell, call in zip(cells, calls, strict=True)
    )
    return found.with_cells(counts)
