"""Windows of SQL: functions of each row and other rows of its partition, and the first rows of partitions.

Calls of one partition and order are one window. The windows of a SELECT are computed one over the other, the one with
a limit last. A function of a whole partition is an aggregate by group, which is joined to the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from deltamark.dataflow.language import windows as language
from deltamark.dataflow.language.by_terms import columns_of, joined, projected
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.windows import FrameExpr, WindowExpr
from deltamark.dataflow.operators.frames import Bound, Exclusion, Frame, Summary
from deltamark.dataflow.operators.window import State
from deltamark.dataflow.plan.terms import Equal, Not, Ratio, Term, difference, number, product
from deltamark.dataflow.scalars import values
from deltamark.dataflow.scalars.doubles import in_double, is_double
from deltamark.dataflow.scalars.evaluator import evaluate
from deltamark.dataflow.scalars.expressions import (
    Case,
    Cast,
    Column,
    Comparator,
    Comparison,
    Constant,
    Expression,
    Interval,
    SqlType,
    conjuncts,
)
from deltamark.dataflow.scalars.values import Cell, Value, either, negated, positive, value_of
from deltamark.dataflow.sql.groups import COUNTS, EXTREMES, MEANS, SUMS, AggregateCall, aggregated, summand
from deltamark.dataflow.sql.problems import unsupported
from deltamark.dataflow.sql.rows import MAX_ROWS, Order, Rows, order_keys, ordered, without_unread_columns
from deltamark.dataflow.types import MICROSECONDS_PER_DAY, Type

if TYPE_CHECKING:
    from deltamark.dataflow.sql.written import Place

COUNT = SqlType("BIGINT")
PLACES = {"row_number": language.row_number, "rank": language.rank, "dense_rank": language.dense_rank}
OF_TWO_NUMBERS = ("percent_rank", "cume_dist")
"""Functions of a place and the number of rows of the partition."""
PICKS = ("first_value", "last_value", "nth_value")
SHIFTS = ("lag", "lead")
OF_DISTINCT = ("sum", "sum_no_overflow", "count", *MEANS)
"""Functions of the different values of a frame that begins with its partition."""

Types = Mapping[str, Type]
Result = Callable[[Types], Cell]
"""Makes the value of a call from the types of the columns that store it."""

EndUnit = Literal["all", "row", "peers", "rows", "values", "groups"]


class End(NamedTuple):
    """An end of a frame in SQL. sign: whether it lies before the row (-1), or behind it (1)."""

    unit: EndUnit
    sign: int = 0
    distance: Expression[int] | None = None


@dataclass(frozen=True)
class WindowCall:
    """A call of a function over a window."""

    function: str
    args: tuple[Expression[int], ...]
    type: SqlType
    partitions: tuple[Expression[int], ...]
    orders: tuple[Order, ...]
    start: End
    stop: End
    without: Exclusion
    distinct: bool = False
    known: bool = False
    """Whether rows in which the value is NULL do not count."""
    condition: Expression[int] | None = None
    has_argument_order: bool = False
    place: Place | None = field(default=None, compare=False)

    @property
    def aggregate(self) -> AggregateCall:
        """The call as an aggregate of groups."""
        return AggregateCall(self.function, self.args, self.type, self.distinct, self.condition, self.place)

    @property
    def expressions(self) -> tuple[Expression[int], ...]:
        """The expressions that it reads, except for the ends of its frame."""
        orders = (each.expression for each in self.orders)
        return (*self.args, *self.partitions, *orders, *([self.condition] if self.condition else []))

    @property
    def only_grows(self) -> bool:
        """Whether the frame of a row contains those of all rows before it."""
        return self.start.unit == "all" and self.without == "nothing"

    @property
    def is_whole(self) -> bool:
        """Whether the frame of each row is the whole partition, of which no order shows."""
        if self.function in (*PLACES, *OF_TWO_NUMBERS, *PICKS, *SHIFTS, "ntile") or self.without != "nothing":
            return False
        units = {self.start.unit, self.stop.unit}
        if self.orders:
            return units == {"all"} and self.function in (*EXTREMES, *SUMS)
        return units <= {"all", "peers"}


def limits_of(conditions: Sequence[Expression[int]]) -> dict[int, int]:
    """Return the columns that are at most a number in rows that satisfy all conditions, with the least such number."""
    found: dict[int, int] = {}
    for each in (part for condition in conditions for part in conjuncts(condition)):
        match each:
            case Comparison(comparator, Column(key), Constant(SqlType(scale=0), int(most))):
                less, equal = Comparator.LESS, (Comparator.AT_MOST, Comparator.EQUAL)
            case Comparison(comparator, Constant(SqlType(scale=0), int(most)), Column(key)):
                less, equal = Comparator.GREATER, (Comparator.AT_LEAST, Comparator.EQUAL)
            case _:
                continue
        most -= comparator is less
        if comparator is less or comparator in equal:
            found[key] = min(most, found.get(key, most))
    return found


def first_of_each(rows: Rows, targets: Sequence[Expression[int]], orders: Sequence[Order]) -> Rows:
    """Keep the first row of each combination of some values, in an order (DISTINCT ON)."""
    rows, order = ordered(rows, orders)
    rows, keys = rows.as_columns([rows.cell(each) for each in targets], "key")
    return rows.with_node(rows.collection.top(1, order, by=dict.fromkeys(keys)).node)


def windowed(rows: Rows, calls: Sequence[WindowCall], limits: Mapping[int, int] | None = None) -> Rows:
    """Add the values of calls to rows. limits: the largest value of some calls, for which rows beyond may be left out.

    Only one limit is used, and only that of a place or a rank.
    """
    limited = next((at for at, most in (limits or {}).items() if calls[at].function in PLACES and most > 0), None)
    windows = _Windows(rows)
    if limited is not None:  # the function with the limit is the first one of its window
        windows.limited(calls[limited], min((limits or {})[limited], MAX_ROWS))
    results = [windows.result(each) for each in calls]
    return windows.with_results(results)


Spec = tuple[tuple[str, ...], tuple[str, ...]]
"""The columns of a partition, and those of an order, of which those with a sign are descending."""


class _Windows:
    """The windows of rows, whose values are stored in columns: first those of the rows, then those that calls read."""

    def __init__(self, rows: Rows) -> None:
        self._rows = without_unread_columns(rows)
        self._cells: list[Cell] = list(self._rows.cells)
        self._windows: dict[Spec, dict[str, WindowExpr | FrameExpr]] = {}
        self._limited: tuple[Spec, int] | None = None
        self._wholes: dict[tuple[str, ...], list[AggregateCall]] = {}
        self._places: dict[Spec, str] = {}
        """The columns of places among rows with equal values, by the partition, which has the value, and the order."""
        self._firsts: dict[tuple[str, str, Term | None], str] = {}
        """The columns of values that are NULL but in the first rows that have them, by the columns of the place and of
        the value, and by the term that stands for it."""
        self._count = 0

    def limited(self, call: WindowCall, most: int) -> None:
        """Keep only the rows for which a place is at most a number."""
        self.result(call)
        self._limited = self._spec(call), most

    def result(self, call: WindowCall) -> Result:
        """Add the columns that a call needs."""
        name = call.function
        if call.has_argument_order:
            raise unsupported(f"{name} with an order of its arguments over a window", call.place)
        if call.is_whole:
            return self._whole(call, call.aggregate)
        if call.distinct and name not in EXTREMES and not (name in OF_DISTINCT and call.only_grows):
            raise unsupported(f"DISTINCT in {name} over a frame", call.place)
        if name in PLACES:
            return self._number(self._added(call, PLACES[name]()))
        if name in OF_TWO_NUMBERS:
            return self._of_two_numbers(call)
        if name in PICKS or name in SHIFTS:
            return self._picked(call) if name in PICKS else self._shifted(call)
        if name in EXTREMES or name in SUMS:
            return self._summary(call)
        if name == "ntile" and isinstance(parts := _constant(call.args[0]), int) and 0 < parts <= language.MAX_OFFSET:
            return self._number(self._added(call, language.ntile(parts)))
        raise unsupported(f"the window function {name}", call.place)

    def with_results(self, results: Sequence[Result]) -> Rows:
        """Return the rows with the values of calls."""
        count = len(self._rows.cells)
        stored = self._rows.with_cells(self._cells).stored([f"c{at}" for at in range(len(self._cells))])
        collection = self._with_firsts(stored.collection)
        last = self._limited and self._limited[0]
        for spec in sorted(self._windows, key=lambda each: (each == last, self._is_running(each))):
            keys, order = spec
            limit = self._limited[1] if self._limited and spec == last else None
            collection = collection.window(keys, order, limit, **self._windows[spec])
        for at, (keys, calls) in enumerate(self._wholes.items()):
            collection = _beside(collection, stored, keys, calls, f"g{at}")
        types = {each.name: each.type for each in collection.schema.fields}
        cells = [values.cell_of(f"c{at}", cell, types) for at, cell in enumerate(stored.cells[:count])]
        return Rows(collection, (*cells, *(each(types) for each in results)))

    def _with_firsts(self, collection: Collection) -> Collection:
        """Add the columns of values in the first rows that have them. Places, before them, put these first in ties."""
        for (keys, order), name in self._places.items():
            collection = collection.window(keys, order, None, **{name: language.row_number()})
        terms: dict[str, Term] = dict(columns_of(collection.node))
        for (place, of, kept), name in self._firsts.items():
            value = values.value_of_term(terms[of])
            known = value.term
            assert not isinstance(known, Ratio)
            is_later = Not(Equal(terms[place], number(1)))
            terms[name] = values.nullable_term(kept or known, either(value.null, is_later))
        return Collection(projected(collection.node, terms)) if self._firsts else collection

    def _first(self, call: WindowCall, cell: Cell, kept: Term | None = None) -> str:
        """Return the column of a value in the first row that has it. kept: a term that stands for the value."""
        of = self._stored(cell)
        keys, order = self._spec(call)
        place = self._places.setdefault(((*keys, of), order), f"p{len(self._places)}")
        return self._firsts.setdefault((place, of, kept), f"d{len(self._firsts)}")

    def _is_running(self, spec: Spec) -> bool:
        """Return whether a window has functions of all rows before a row, whose values change for many rows."""
        return any(isinstance(each, WindowExpr) for each in self._windows[spec].values())

    def _stored(self, cell: Cell) -> str:
        """Return the name of the column, or of the columns of a quotient, in which a value is stored."""
        if cell not in self._cells:
            self._cells.append(cell)
        return f"c{self._cells.index(cell)}"

    def _keys(self, call: WindowCall) -> tuple[str, ...]:
        cells = (values.in_one_column(self._rows.cell(each)) for each in call.partitions)
        return tuple(dict.fromkeys(map(self._stored, cells)))

    def _spec(self, call: WindowCall) -> Spec:
        keys, order = self._keys(call), dict[str, str]()
        for cell, descending in order_keys(self._rows, call.orders):
            name = self._stored(cell)
            order.setdefault(name, f"-{name}" if descending else name)
        return keys, tuple(order.values())

    def _added(self, call: WindowCall, function: WindowExpr | FrameExpr, suffix: str = "") -> str:
        """Add a function to the window of a call, once; return the column of its values."""
        functions = self._windows.setdefault(self._spec(call), {})
        for name, other in functions.items():
            if other == function and name.endswith(suffix):
                return name
        self._count += not suffix or suffix == ".num"
        name = f"w{self._count}{suffix}"
        functions[name] = function
        return name

    def _number(self, name: str) -> Result:
        return lambda types: values.stored_value(name, types[name])

    def _whole(self, call: WindowCall, aggregate: AggregateCall) -> Result:
        """Add an aggregate of a whole partition."""
        wholes = self._wholes.setdefault(self._keys(call), [])
        if aggregate not in wholes:
            wholes.append(aggregate)
        group, at = list(self._wholes).index(self._keys(call)), wholes.index(aggregate)
        rows = self._rows
        kind = aggregated(rows, [], [aggregate]).cells[0]  # its kind alone is of use
        if aggregate.function in MEANS:
            kind = _as_mean(kind)
        return lambda types: values.cell_of(f"g{group}r{at}", kind, types)

    def _of_two_numbers(self, call: WindowCall) -> Result:
        is_rank = call.function == "percent_rank"
        place = self._number(self._added(call, language.rank() if is_rank else language.running_count(with_peers=True)))
        whole = self._whole(call, AggregateCall("count_star", (), COUNT))

        def divided(types: Types) -> Cell:
            above, below = (value_of(each(types)).term for each in (place, whole))
            assert not isinstance(above, Ratio)
            assert not isinstance(below, Ratio)
            one = number(1)
            return Value(Ratio(difference(above, one), positive(difference(below, one))) if is_rank
                         else Ratio(above, positive(below)))  # fmt: skip

        return divided

    def _summary(self, call: WindowCall) -> Result:
        """Add a sum, a count, a mean or an extreme of the rows of a frame."""
        missing = None if call.condition is None else negated(self._rows.truth(call.condition).true)
        if call.args:
            value = value_of(self._rows.cell(call.args[0]))
            missing = either(missing, value.null)
        if call.distinct and call.function in COUNTS:
            once = self._first(call, values.in_one_column(Value(value.term, missing)), number(1))
            return self._number(self._in_frame(call, "count", once))
        counted = self._stored(Value(number(1), missing)) if missing is not None else ""
        if call.function in COUNTS:
            return self._number(self._in_frame(call, "count" if counted else "rows", counted))
        if call.function in EXTREMES:
            cell = values.in_one_column(Value(value.term, missing))
            name = self._stored(cell)
            kind: Summary = "smallest" if EXTREMES[call.function] == "smallest" else "largest"
            return partial(_stored_as, self._in_frame(call, kind, name), cell)
        term, divisor = summand(value.term, call.aggregate)
        of = self._first(call, Value(term, missing)) if call.distinct else self._stored(Value(term, missing))
        counted = of if call.distinct else counted
        summed = self._in_frame(call, "sum", of)
        if call.function not in MEANS:
            return partial(_divided, summed, divisor)
        return partial(_mean, summed, self._in_frame(call, "count" if counted else "rows", counted), divisor)

    def _in_frame(self, call: WindowCall, kind: Summary, of: str) -> str:
        """Add a summary of the rows of a frame; return its column."""
        peers = call.stop.unit == "peers"
        if call.start.unit == "all" and call.stop.unit in ("row", "peers") and call.without == "nothing":
            state: State = "row_number" if kind == "rows" else kind
            return self._added(call, WindowExpr(state, of, peers))
        return self._added(call, FrameExpr(kind, of, self._frame(call)))

    def _frame(self, call: WindowCall) -> Frame:
        return Frame(self._bound(call, call.start), self._bound(call, call.stop), call.without)

    def _bound(self, call: WindowCall, end: End) -> Bound:
        match end.unit:
            case "all" | "peers":
                return Bound(end.unit)
            case "row":
                return Bound("rows", 0)
            case "values":
                return Bound("values", end.sign * self._distance(call, end))
        distance = _constant(end.distance)
        if not isinstance(distance, int) or distance < 0:
            raise unsupported("a frame whose ends are no constant numbers", call.place)
        if end.unit == "rows":
            return Bound("rows", end.sign * min(distance, language.MAX_OFFSET))
        if distance > language.MAX_GROUPS:
            raise unsupported(f"a frame of more than {language.MAX_GROUPS} GROUPS", call.place)
        return Bound("groups" if distance else "peers", end.sign * distance)

    def _distance(self, call: WindowCall, end: End) -> int:
        """Return the distance of values at which a frame ends, as the order stores them."""
        key = value_of(self._rows.cell(call.orders[-1].expression)).term
        match None if isinstance(key, Ratio) else key.type, end.distance:
            case Type(kind="date"), Constant(value=Interval(0, days, 0)):
                return days
            case Type(kind="timestamp" | "timestamptz"), Constant(value=Interval(0, days, micros)):
                return days * MICROSECONDS_PER_DAY + micros
            case Type(kind="date"), Constant(SqlType(scale=0), int(days)):
                return days
            case Type(kind="int", scale=places), Constant(SqlType(scale=scale), int(distance)):
                if distance * 10**places % 10**scale == 0:
                    return distance * 10**places // 10**scale
        raise unsupported("a frame whose ends are no constant numbers or days", call.place)

    def _picked(self, call: WindowCall) -> Result:
        """Add the value of a row of the frame."""
        place = 0 if call.function == "first_value" else -1
        if call.function == "nth_value":
            given = _constant(call.args[1])
            if not isinstance(given, int) or given < 1:
                raise unsupported("nth_value of a place that is no constant number from 1 on", call.place)
            place = given - 1
        if call.without != "nothing":
            raise unsupported(f"EXCLUDE in the frame of {call.function}", call.place)
        return self._value(call, self._frame(call), place)

    def _shifted(self, call: WindowCall) -> Result:
        """Add the value of a row at a distance, or another value if there is no such row."""
        distance = _constant(call.args[1]) if len(call.args) > 1 else 1
        if not isinstance(distance, int) or abs(distance) > language.MAX_OFFSET:
            raise unsupported(f"{call.function} by a distance that is no constant number", call.place)
        distance *= -1 if call.function == "lag" else 1
        frame, place = Frame(Bound("rows", distance), Bound("rows", distance)), 0
        if call.known and distance:
            if abs(distance) > 1:
                raise unsupported(f"{call.function} by several rows with IGNORE NULLS", call.place)
            ends = (Bound("all"), Bound("rows", -1)) if distance < 0 else (Bound("rows", 1), Bound("all"))
            frame, place = Frame(*ends), min(distance, 0)
        found = self._value(call, frame, place)
        if len(call.args) < 3 or _is_null(call.args[2]):
            return found
        default = self._rows.cell(call.args[2])
        kept = "" if isinstance(call.args[2], Constant) else self._stored(default)
        of = self._stored(Value(number(1), value_of(self._rows.cell(call.args[0])).null)) if call.known else ""
        rows = self._added(call, FrameExpr("count" if of else "rows", of, frame))

        def chosen(types: Types) -> Cell:
            other = values.cell_of(kept, default, types) if kept else default
            cells = [self._number(rows)(types), other, found(types)]
            is_outside = Comparison(Comparator.EQUAL, Column(0), Constant(COUNT, 0))
            return evaluate(Case(((is_outside, Column(1)),), Column(2)), cells.__getitem__)

        return chosen

    def _value(self, call: WindowCall, frame: Frame, place: int) -> Result:
        cell = self._rows.cell(call.args[0])
        of = self._stored(cell)
        is_ratio = isinstance(value_of(cell).term, Ratio)
        names = [
            self._added(call, FrameExpr("value", f"{of}{part}", frame, place, call.known), part)
            for part in ([".num", ".den"] if is_ratio else [""])
        ]
        return partial(_stored_as, names[0].removesuffix(".num"), cell)


def _stored_as(name: str, cell: Cell, types: Types) -> Cell:
    return values.cell_of(name, cell, types)


def _divided(summed: str, divisor: Term | None, types: Types) -> Cell:
    value = values.stored_value(summed, types[summed])
    assert not isinstance(value.term, Ratio)
    return value if divisor is None else Value(Ratio(value.term, divisor), value.null)


def _mean(summed: str, counted: str, divisor: Term | None, types: Types) -> Cell:
    value, count = (values.stored_value(each, types[each]) for each in (summed, counted))
    assert not isinstance(value.term, Ratio)
    assert not isinstance(count.term, Ratio)
    if is_double(value.term):
        return Value(in_double(Ratio(value.term, count.term)), value.null)
    below = positive(count.term)
    return _as_mean(Value(Ratio(value.term, below if divisor is None else product(below, divisor)), value.null))


def _as_mean(cell: Cell) -> Cell:
    """Return an average over a window; one of doubles is a double already."""
    if isinstance(cell, Value) and isinstance(cell.term, Ratio):
        return replace(cell, term=replace(cell.term, is_mean=True))
    return cell


def _constant(of: Expression[int] | None) -> object:
    """Return the value of a whole constant; None if it is none."""
    match of:
        case Constant(SqlType(scale=0), value):
            return value
        case Cast(value, SqlType("BIGINT")):  # in a plan that is not optimized
            return _constant(value)
    return None


def _is_null(of: Expression[int]) -> bool:
    return isinstance(of, Constant) and of.value is None


def _beside(
    collection: Collection, stored: Rows, keys: Sequence[str], calls: Sequence[AggregateCall], prefix: str
) -> Collection:
    """Join aggregates of groups to rows, in columns whose names begin with a prefix."""
    names = list(stored.types)
    key_cells = [values.stored_value(each, stored.types[each]) for each in keys]
    wide = len(stored.cells)
    groups = [Column(wide + at) for at in range(len(keys))]
    found = aggregated(stored.with_cells([*stored.cells, *key_cells]), groups, calls)
    made = [*(f"{prefix}k{at}" for at in range(len(keys))), *(f"{prefix}r{at}" for at in range(len(calls)))]
    assert not {*made} & {*names}
    node, _ = joined(collection.node, found.stored(made).collection.node, keys, made[: len(keys)])
    return Collection(node)
