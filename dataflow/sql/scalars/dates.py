"""Functions of dates: tables over all days between the bounds of a column."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping

import numpy as np

from deltamark.dataflow.plan import terms
from deltamark.dataflow.plan.terms import Add, Subtract, Table, Term, number
from deltamark.dataflow.sql.problems import unsupported
from deltamark.dataflow.types import EPOCH, FIRST_DAY, LAST_DAY, Type, date_type, integer

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
    if {a.kind, b.kind} != {"date", "int"} or (kind is Subtract and a.kind == "int"):
        raise unsupported("such arithmetic with a date")
    return kind(left, right, date_type(low, high))


def part_of(name: str, day: Term) -> Term:
    """Compute a part of a date, or round it."""
    if name in PARTS:
        return _counted(day, PARTS[name])
    if name in ROUNDED:
        values = _table(day.type, lambda each: (ROUNDED[name](each) - EPOCH).days)
        return Table(day, day.type.low, values, date_type(min(values), max(values)))
    raise unsupported(f"the part {name} of a date")


def difference(part: str, first: Term, last: Term) -> Term:
    """Count the ends of days, months or years between two dates."""
    if part in ("day", "days"):
        return moved(Subtract, last, first)
    counts: Mapping[str, Callable[[dt.date], int]] = {
        "month": lambda day: day.year * 12 + day.month,
        "quarter": lambda day: day.year * 4 + (day.month - 1) // 3,
        "year": lambda day: day.year,
    }
    name = part.removesuffix("s")
    if name not in counts:
        raise unsupported(f"a difference of dates in {part}")
    one, other = (_counted(each, counts[name]) for each in (first, last))
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


MOST_DAYS = 1 << 20
"""The days of a table, which is 8 MB then."""


def _table(type_: Type, function: Callable[[dt.date], int]) -> tuple[int, ...]:
    low, high = type_.low, type_.high
    if not FIRST_DAY <= low <= high <= LAST_DAY or high - low >= MOST_DAYS:
        raise unsupported("a function of dates with such bounds", remedy="declare narrower bounds of the column")
    days = np.arange(low, high + 1).astype("datetime64[D]").tolist()
    try:
        return tuple(map(function, days))
    except (ValueError, OverflowError) as error:
        remedy = "declare narrower bounds of the column"
        raise unsupported("a date that may lie outside the years 1 to 9999", remedy=remedy) from error
