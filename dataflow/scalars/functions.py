"""The functions of expressions. Those of dates are tables over all days between the bounds of a column."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise

import numpy as np

from deltamark.dataflow.plan import terms
from deltamark.dataflow.plan.terms import (
    TRUE,
    Add,
    Constant,
    Equal,
    Less,
    Or,
    Ratio,
    Subtract,
    Table,
    Term,
    When,
    all_of,
    double,
    number,
)
from deltamark.dataflow.scalars import doubles, numbers, times
from deltamark.dataflow.scalars.comparisons import best_of
from deltamark.dataflow.scalars.expressions import Call, Function, Interval
from deltamark.dataflow.scalars.numbers import combined, of_number, of_whole_numbers, rounding, sum_of
from deltamark.dataflow.scalars.problems import unsupported
from deltamark.dataflow.scalars.texts import TEXT_FUNCTIONS
from deltamark.dataflow.scalars.values import Truth, Value, constant, either, kind_of, value_of
from deltamark.dataflow.types import (
    EPOCH,
    FIRST_DAY,
    LAST_DAY,
    TIMESTAMPS,
    TOO_WIDE,
    Type,
    date_type,
    integer,
)
from deltamark.errors import DeltamarkError

PARTS: Mapping[str, Callable[[dt.date], int]] = {
    "year": lambda day: day.year,
    "month": lambda day: day.month,
    "day": lambda day: day.day,
    "dayofmonth": lambda day: day.day,
    "quarter": lambda day: (day.month + 2) // 3,
    "dayofweek": lambda day: day.isoweekday() % 7,
    "weekday": lambda day: day.isoweekday() % 7,
    "dow": lambda day: day.isoweekday() % 7,
    "isodow": lambda day: day.isoweekday(),
    "dayofyear": lambda day: day.timetuple().tm_yday,
    "doy": lambda day: day.timetuple().tm_yday,
    "week": lambda day: day.isocalendar()[1],
    "weekofyear": lambda day: day.isocalendar()[1],
}
"""The parts of a date that are numbers."""

ROUNDED: Mapping[str, Callable[[dt.date], dt.date]] = {
    "trunc year": lambda day: day.replace(month=1, day=1),
    "trunc quarter": lambda day: day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1),
    "trunc month": lambda day: day.replace(day=1),
    "trunc week": lambda day: day - dt.timedelta(days=day.weekday()),
    "trunc day": lambda day: day,
    "last_day": lambda day: (day.replace(day=28) + dt.timedelta(days=4)).replace(day=1) - dt.timedelta(days=1),
}
"""The functions from dates to dates."""


def moved(kind: type[Add | Subtract], left: Term, right: Term) -> Term:
    """Add days to a date, subtract days from it, or count the days between two dates."""
    a, b = left.type, right.type
    low, high = (a.low + b.low, a.high + b.high) if kind is Add else (a.low - b.high, a.high - b.low)
    if a.kind == b.kind:
        if kind is Add:
            raise unsupported("the sum of two dates")
        return kind(left, right, integer(low, high))
    if {a.kind, b.kind} == {"date", "time"} and kind is Add:
        return times.at(*((left, right) if a.kind == "date" else (right, left)))
    if {a.kind, b.kind} != {"date", "int"} or (kind is Subtract and a.kind == "int"):
        raise unsupported("such arithmetic with a date")
    return kind(left, right, date_type(low, high))


def part_of(name: str, day: Term) -> Term:
    """Compute a part of a date, a timestamp or a time, or round it."""
    if day.type.kind != "date":
        found = times.part_of(name, day, part_of)
        return times.day_of(found) if name == "last_day" and found.type.kind in TIMESTAMPS else found
    if name.removeprefix("trunc ") in times.PARTS or name in ("epoch", *times.EPOCHS):
        return times.part_of(name, times.as_timestamp(day), part_of)
    if name in PARTS:
        return _counted(day, PARTS[name])
    if name in ROUNDED:
        values = _table(day.type, lambda each: (ROUNDED[name](each) - EPOCH).days)
        return Table(day, day.type.low, values, date_type(min(values), max(values)))
    raise unsupported(f"the part {name} of a date")


def difference(part: str, first: Term, last: Term) -> Term:
    """Count the ends of days, months or years between two dates."""
    if part == "day":
        return moved(Subtract, last, first)
    counts: Mapping[str, Callable[[dt.date], int]] = {
        "month": lambda day: day.year * 12 + day.month,
        "quarter": lambda day: day.year * 4 + (day.month - 1) // 3,
        "year": lambda day: day.year,
    }
    if part not in counts:
        raise unsupported(f"a difference of dates by {part}")
    one, other = (_counted(each, counts[part]) for each in (first, last))
    return terms.difference(other, one)


def _counted(day: Term, function: Callable[[dt.date], int]) -> Term:
    values = _table(day.type, function)
    return Table(day, day.type.low, values, integer(min(values), max(values)))


def later(day: Term, months: int, days: int) -> Term:
    """Add months, then days, to a date; a day that the month lacks becomes its last."""

    def add(each: dt.date) -> int:
        count = each.month - 1 + months
        year, month = each.year + count // 12, count % 12 + 1
        last = (dt.date(year + month // 12, month % 12 + 1, 1) - dt.timedelta(days=1)).day
        return (dt.date(year, month, min(each.day, last)) - EPOCH).days + days

    if not months:
        return moved(Add, day, number(days))
    values = _table(day.type, add)
    return Table(day, day.type.low, values, date_type(min(values), max(values)))


def months_later(day: Term, months: Term) -> Term:
    """Add a number of months to a date; a day that the month lacks becomes its last."""
    count = terms.total(_counted(day, lambda each: each.year * 12 + each.month - 1), months)
    low, high = count.type.low, count.type.high
    if not FIRST_MONTH <= low <= high < LAST_MONTH:
        raise unsupported("a date that may lie outside the years 1 to 9999", NARROWER)
    starts = [(dt.date(each // 12, each % 12 + 1, 1) - EPOCH).days for each in range(low, high + 2)]
    places = tuple(behind - start - 1 for start, behind in pairwise(starts))
    first = Table(count, low, tuple(starts[:-1]), date_type(starts[0], starts[-2]))
    last = Table(count, low, places, integer(27, 30))
    place = _counted(day, lambda each: each.day - 1)
    return moved(Add, first, When(Less(place, last), place, last, integer(0, 30)))


FIRST_MONTH, LAST_MONTH = 12, 12 * 9999 + 11
"""The months since year 0 of the first date that Python has, and of the last one."""

NARROWER = "declare narrower bounds of the column"

MOST_DAYS = 1 << 20
"""The days of a table, which is 8 MB then."""


def _table(type_: Type, function: Callable[[dt.date], int]) -> tuple[int, ...]:
    low, high = type_.low, type_.high
    if not FIRST_DAY <= low <= high <= LAST_DAY or high - low >= MOST_DAYS:
        raise unsupported(f"a function of dates between the days {low} and {high} since 1970", NARROWER)
    days = np.arange(low, high + 1).astype("datetime64[D]").tolist()
    try:
        return tuple(map(function, days))
    except (ValueError, OverflowError) as error:
        raise unsupported("a date that may lie outside the years 1 to 9999", NARROWER) from error


def _date(of: Call[object], value: Value) -> Term:
    """Return a date, a timestamp, a time or an interval."""
    if isinstance(value.term, Ratio) or value.term.type.kind not in ("date", "time", "interval", *TIMESTAMPS):
        actual = f"the argument of {of.name} is {kind_of(value)}"
        raise DeltamarkError("not of type date", actual, "use a value of type date")
    return value.term


def _part(name: str) -> Callable[..., Value]:
    """Return a function that computes a part of a date, or rounds it."""

    def compute(of: Call[object], day: Value) -> Value:
        if day.null is TRUE:
            return value_of(constant(of.type, None))
        if name == "epoch_ms" and not isinstance(day.term, Ratio) and day.term.type.kind == "int":
            return Value(times.of_milliseconds(day.term), day.null)
        term = _date(of, day)
        if name == "epoch_ms" and term.type.kind in TIMESTAMPS:  # DuckDB rounds it, and no other part
            return Value(numbers.rounded(times.as_milliseconds(term), 0), day.null)
        return Value(part_of(name, term), day.null)

    return compute


def _named_part(prefix: str) -> Callable[..., Value]:
    """Return a function whose first argument is the name of a part of a date."""

    def compute(of: Call[object], name: Value, day: Value) -> Value:
        if not isinstance(name.term, Constant):
            raise unsupported(f"{of.name} with a part that is no constant")
        return _part(prefix + str(name.term.value).lower().removesuffix("s"))(of, day)

    return compute


def _date_diff(of: Call[object], part: Value, first: Value, last: Value) -> Value:
    name = part.term.value if isinstance(part.term, Constant) else ""
    if TRUE in (first.null, last.null):
        return Value(number(0), TRUE)
    one, other = _date(of, first), _date(of, last)
    unit, missing = str(name).lower().removesuffix("s"), either(first.null, last.null)
    if {one.type.kind, other.type.kind} != {"date"} or unit in times.PARTS:
        same = [times.as_timestamp(each) if each.type.kind == "date" else each for each in (one, other)]
        found = times.between(unit, *same)
        if found is not None:
            return Value(found, missing)
        one, other = map(times.day_of, same)
    return Value(difference(unit, one, other), missing)


def interval_of(unit: str) -> Function:
    """Return the function that makes an interval of a number of units."""

    def compute(of: Call[object], count: Value) -> Value:
        if count.null is TRUE:
            return value_of(constant(of.type, None))
        whole = numbers.exact_number(of, count)
        if whole.type.scale:
            raise unsupported(f"{of.name} of a number with decimal places")
        width = number(times.LENGTHS[unit])
        try:
            found: Term = terms.product(whole, width)
        except DeltamarkError as error:
            if error.cause != TOO_WIDE:
                raise
            found = numbers.checked("*", count, Value(width))
        return Value(times.as_interval(found), count.null)

    return Function(f"to_{unit}s", compute)


MONTHS = {"to_months": 1, "to_quarters": 3, "to_years": 12, "to_decades": 120}
"""The functions that make an interval of a number of units, with the months of a unit."""


def _only_added(of: Call[object], _: Value) -> Value:
    raise unsupported(f"{of.name} that is not added to a date or a timestamp")


def later_by(months: int) -> Function:
    """Return the function that adds a number of units to a time. months: those of a unit; negative ones subtract."""

    def compute(of: Call[object], day: Value, count: Value) -> Value:
        missing = either(day.null, count.null)
        if missing is TRUE:
            return value_of(constant(of.type, None))
        term, whole = _date(of, day), numbers.exact_number(of, count)
        if whole.type.scale:
            raise unsupported("an interval of a number with decimal places")
        return Value(times.later_by(term, terms.product(whole, number(months)), months_later), missing)

    return Function("+", compute)


NORMALIZED = Function("normalized_interval", lambda _, interval: interval)
"""The function by whose values DuckDB compares and groups intervals, which have one form here."""


def bucket(width: Interval) -> Function:
    """Return the function that rounds timestamps down to the beginnings of buckets of time."""

    def compute(of: Call[object], moment: Value) -> Value:
        if moment.null is TRUE:
            return value_of(constant(of.type, None))
        return Value(times.bucket(width, _date(of, moment)), moment.null)

    return Function("time_bucket", compute)


def _of_double(name: str) -> Function:
    """Return a function of a number as a double."""
    compute = doubles.function(name)
    return Function(name, of_number(lambda term: compute(doubles.in_double(term)), compute))


def _of_two_doubles(name: str, sign: str) -> Function:
    """Return a function of two numbers as doubles. sign: its name in terms."""

    def compute(of: Call[object], left: Value, right: Value) -> Value:
        missing = either(left.null, right.null)
        if missing is TRUE:
            return value_of(constant(of.type, None))
        return Value(doubles.arithmetic(sign, *(doubles.in_double(each.term) for each in (left, right))), missing)

    return Function(name, compute)


def _test_of_double(name: str, test: Callable[[Term], Term]) -> Function:
    """Return a test of a number as a double. DuckDB makes one of `-x >= 1`, which is true of NaN."""

    def compute(of: Call[object], value: Value) -> Truth:  # noqa: ARG001
        missing = value.null is TRUE
        return Truth(None, None, total=False) if missing else Truth.of(test(doubles.in_double(value.term)), value.null)

    return Function(name, compute)


def _is_finite(value: Term) -> Term:
    return all_of([Less(double(-math.inf), value), Less(value, double(math.inf))])


DOUBLE_FUNCTIONS = ("sqrt", "exp", "ln", "log10", "log2", "sin", "cos", "tan", "asin", "acos", "atan")


def _checked(sign: str, left_null: Term | None, right_null: Term | None, left: Term, right: Term) -> Term:
    """Compute with microseconds, of which those of NULL have no meaning."""
    return numbers.checked(sign, Value(left, left_null), Value(right, right_null))


def _sum(kind: type[Add | Subtract]) -> Callable[..., Value]:
    """Return the sum or the difference of numbers, quotients or dates; one argument is negated."""
    combine = sum_of(terms.total if kind is Add else terms.difference)

    def added(of: Call[object], left: Term | Ratio, right: Term | Ratio) -> Term | Ratio:
        if isinstance(left, Ratio) or isinstance(right, Ratio):
            return combine(left, right)
        if are_times(of, left, right):
            return times.combined(kind, left, right)
        return moved(kind, left, right) if "date" in {left.type.kind, right.type.kind} else combine(left, right)

    def are_times(of: Call[object], left: Term, right: Term) -> bool:
        kinds = {left.type.kind, right.type.kind}
        return bool(kinds & {"interval", *TIMESTAMPS}) or (kinds == {"date"} and of.type.name == "INTERVAL")

    def compute(of: Call[object], left: Value, right: Value | None = None) -> Value:
        if right is None:
            return combined(of, Value(number(0)), left, combine, "-")
        sign = "+" if kind is Add else "-"
        try:
            return combined(of, left, right, partial(added, of), sign)
        except DeltamarkError as error:
            one, other = left.term, right.term
            if error.cause != TOO_WIDE or isinstance(one, Ratio) or isinstance(other, Ratio):
                raise
            if not are_times(of, one, other):
                raise
            found = times.combined(kind, one, other, partial(_checked, sign, left.null, right.null))
            return Value(found, either(left.null, right.null))

    return compute


ADD, SUBTRACT = Function("+", _sum(Add)), Function("-", _sum(Subtract))
MULTIPLY, DIVIDE = Function("*", numbers.multiplied), Function("/", numbers.divided)
WHOLE_QUOTIENT = Function("//", of_whole_numbers(numbers.truncated))
REMAINDER = Function("%", of_whole_numbers(numbers.remainder))

_OTHERS = (
    Function("abs", of_number(numbers.absolute, doubles.function("abs"))),
    Function("sign", of_number(numbers.sign, numbers.sign_of_double)),
    Function("round", rounding), Function("floor", of_number(numbers.floored, doubles.function("floor"))),
    Function("ceil", of_number(numbers.ceiled, doubles.function("ceil"))),
    Function("trunc", of_number(numbers.truncated_to_whole, doubles.function("trunc"))),
    Function("greatest", partial(best_of, largest=True)), Function("least", partial(best_of, largest=False)),
    Function("date_part", _named_part("")), Function("date_trunc", _named_part("trunc ")),
    _test_of_double("isnan", lambda value: Less(double(math.inf), value)), _test_of_double("isfinite", _is_finite),
    _test_of_double("isinf", lambda value: Or(*(Equal(value, double(each)) for each in (math.inf, -math.inf)))),
    Function("date_diff", _date_diff), *map(_of_double, DOUBLE_FUNCTIONS), _of_two_doubles("pow", "**"),
    _of_two_doubles("atan2", "atan2"),
    *map(interval_of, times.LENGTHS), NORMALIZED, *(Function(name, _only_added) for name in MONTHS),
    *(Function(name, _part(name)) for name in ("last_day", "epoch", *PARTS, *times.PARTS, *times.EPOCHS)),
)  # fmt: skip
_ALIASES = {
    "@": "abs", "ceiling": "ceil", "datepart": "date_part", "datetrunc": "date_trunc", "datediff": "date_diff",
    "log": "log10", "power": "pow", "**": "pow", "^": "pow",
}  # fmt: skip

FUNCTIONS: Mapping[str, Function] = {
    "+": ADD, "-": SUBTRACT, "*": MULTIPLY, "/": DIVIDE, "//": WHOLE_QUOTIENT, "%": REMAINDER, "mod": REMAINDER,
    **TEXT_FUNCTIONS, **{each.name: each for each in _OTHERS},
}  # fmt: skip
"""The functions by their names in SQL."""

FUNCTIONS = {**FUNCTIONS, **{name: FUNCTIONS[of] for name, of in _ALIASES.items()}}
