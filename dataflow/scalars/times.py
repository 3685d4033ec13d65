"""Timestamps and times of day: whole numbers of microseconds, whose days have the calendar of dates.

A timestamp with a time zone is read in UTC. A date stands for its midnight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from deltamark.dataflow.plan.terms import Add, Multiply, Quotient, Subtract, Term, difference, number, quotient
from deltamark.dataflow.scalars.expressions import Interval
from deltamark.dataflow.scalars.problems import unsupported
from deltamark.dataflow.types import (
    MICROSECONDS_PER_DAY,
    TIME,
    TIMESTAMPS,
    Kind,
    Type,
    date_type,
    integer,
    interval_type,
)

SECOND = 10**6
UNITS = {
    "microsecond": 1, "millisecond": 1000, "second": SECOND, "minute": 60 * SECOND, "hour": 3600 * SECOND,
    "day": MICROSECONDS_PER_DAY,
}  # fmt: skip
"""The microseconds of units of time."""
LENGTHS = {**UNITS, "week": 7 * MICROSECONDS_PER_DAY}
"""Those of the units of intervals."""

PARTS = {
    "hour": (3600 * SECOND, 24), "minute": (60 * SECOND, 60), "second": (SECOND, 60), "millisecond": (1000, 60_000),
    "microsecond": (1, 60 * SECOND),
}  # fmt: skip
"""The parts of a time of day: the microseconds of their unit, and the number of their values."""

EPOCHS = {"epoch_us": (1, 1), "epoch_ms": (1000, 1), "epoch_ns": (1, 1000)}
"""The functions that count units since 1970: the microseconds that they divide by, and the factor."""

BUCKETS_BEGIN = 10_959 * MICROSECONDS_PER_DAY
"""The beginning of a bucket of time of each width, 2000-01-03, as in DuckDB."""


def _typed(term: Term, type_: Type) -> Term:
    """Return a stored number as one of another type."""
    return Add(term, number(0), type_)


def as_timestamp(term: Term, kind: Kind = "timestamp") -> Term:
    """Return a date as the timestamp of its midnight, and a timestamp as one with or without a time zone."""
    if term.type.kind == kind:
        return term
    if term.type.kind in TIMESTAMPS:
        return _typed(term, replace(term.type, kind=kind))
    low, high = (bound * MICROSECONDS_PER_DAY for bound in (term.type.low, term.type.high))
    integer(low, high)  # bounds that are too wide are an error
    return Multiply(term, number(MICROSECONDS_PER_DAY), Type(kind, 0, low, high))


def as_milliseconds(term: Term) -> Term:
    """Return the milliseconds since 1970, with three decimal places."""
    return _typed(term, integer(term.type.low, term.type.high, 3))


def of_milliseconds(count: Term) -> Term:
    """Return the timestamp of a number of milliseconds since 1970."""
    width = UNITS["millisecond"]
    low, high = (bound * width for bound in (count.type.low, count.type.high))
    integer(low, high)  # bounds that are too wide are an error
    return Multiply(count, number(width), Type("timestamp", 0, low, high))


def at(day: Term, time: Term) -> Term:
    """Return the timestamp of a time on a day."""
    midnight = as_timestamp(day)
    high = midnight.type.high + MICROSECONDS_PER_DAY - 1
    return Add(midnight, time, replace(midnight.type, high=high))


def day_of(term: Term) -> Term:
    """Return the date of a timestamp."""
    low, high = (bound // MICROSECONDS_PER_DAY for bound in (term.type.low, term.type.high))
    return Quotient(term, number(MICROSECONDS_PER_DAY), date_type(low, high))


def time_of(term: Term) -> Term:
    """Return the time of day of a timestamp, or a time."""
    return term if term.type.kind == "time" else _rest(term, MICROSECONDS_PER_DAY, TIME)


def part_of(name: str, term: Term, part_of_date: Callable[[str, Term], Term]) -> Term:
    """Compute a part of a timestamp or a time. part_of_date: computes that of a date, or rounds it."""
    is_time = term.type.kind == "time"
    unit = name.removeprefix("trunc ")
    if name in PARTS:
        width, count = PARTS[name]
        return _rest(_divided(time_of(term), width), count, integer(0, count - 1))
    if name == "epoch":
        return _typed(term, integer(term.type.low, term.type.high, 6))
    if term.type.kind == "interval":
        raise unsupported(f"the part {name} of an interval", "write date_diff, or epoch, which counts seconds")
    if name in EPOCHS:
        width, factor = EPOCHS[name]
        counted = _divided(term, width)
        return Multiply(counted, number(factor), integer(counted.type.low * factor, counted.type.high * factor))
    if name == f"trunc {unit}" and unit in PARTS and not is_time:
        return _rounded(term, PARTS[unit][0], 0)
    if is_time:
        raise unsupported(f"the part {name} of a time")
    found = part_of_date(name, day_of(term))
    return as_timestamp(found, term.type.kind) if name.startswith("trunc ") else found


def between(unit: str, first: Term, last: Term) -> Term | None:
    """Count the ends of units between two timestamps or times; None if the unit is longer than a day."""
    width = UNITS.get(unit)
    return None if width is None else difference(_divided(last, width), _divided(first, width))


def shifted(term: Term, interval: Interval, later: Callable[[Term, int, int], Term]) -> Term:
    """Add an interval to a date, a timestamp or a time. later: adds months and days to a date."""
    if term.type.kind == "time":
        moved = Add(term, number(interval.micros % MICROSECONDS_PER_DAY), integer(0, 2 * MICROSECONDS_PER_DAY))
        return _rest(moved, MICROSECONDS_PER_DAY, TIME)
    if term.type.kind not in TIMESTAMPS:
        term = as_timestamp(later(term, interval.months, interval.days))
    elif interval.months:
        term = as_timestamp(at(later(day_of(term), interval.months, interval.days), time_of(term)), term.type.kind)
    else:
        interval = interval._replace(micros=interval.micros + interval.days * MICROSECONDS_PER_DAY)
    return _moved(term, interval.micros)


def later_by(term: Term, months: Term, later: Callable[[Term, Term], Term]) -> Term:
    """Add a number of months to a date, a timestamp or a time. later: adds them to a date."""
    match term.type.kind:
        case "date":
            return later(term, months)
        case "time":
            return term
        case "timestamp" | "timestamptz":
            return as_timestamp(at(later(day_of(term), months), time_of(term)), term.type.kind)
    raise unsupported("an interval of months added to an interval")


def combined(
    kind: type[Add | Subtract], left: Term, right: Term, compute: Callable[[Term, Term], Term] | None = None
) -> Term:
    """Add an interval to a time, subtract one, or return the interval between two times, or that of two intervals.

    compute: computes with the microseconds as numbers, if their bounds do not prove that the result fits in 64 bits.
    """
    for each in (left, right):
        if each.type.kind not in ("interval", "date", *TIMESTAMPS):
            raise unsupported("such arithmetic with a timestamp or an interval")
    a, b = (each if each.type.kind == "interval" else as_timestamp(each) for each in (left, right))
    low, high = (
        (a.type.low + b.type.low, a.type.high + b.type.high)
        if kind is Add
        else (a.type.low - b.type.high, a.type.high - b.type.low)
    )
    if compute is not None:
        found = compute(*(_typed(each, integer(each.type.low, each.type.high)) for each in (a, b)))
        low, high = found.type.low, found.type.high
    of_intervals = [each.type.kind == "interval" for each in (a, b)]
    integer(low, high)  # bounds that are too wide are an error
    if all(of_intervals) or (kind is Subtract and not any(of_intervals)):
        type_ = interval_type(low, high)
    elif kind is Subtract and of_intervals[0]:
        raise unsupported("an interval less a time")
    else:
        type_ = replace((b if of_intervals[0] else a).type, low=low, high=high)
    return kind(a, b, type_) if compute is None else _typed(found, type_)


def as_interval(count: Term) -> Term:
    """Return a number of microseconds as an interval."""
    return _typed(count, interval_type(count.type.low, count.type.high))


def bucket(interval: Interval, term: Term) -> Term:
    """Return the beginning of the bucket of time in which a timestamp lies."""
    width = interval.days * MICROSECONDS_PER_DAY + interval.micros
    if interval.months or width <= 0:
        raise unsupported("buckets of months, or of no width")
    if term.type.kind == "date":
        return day_of(bucket(interval, as_timestamp(term)))
    return _rounded(term, width, BUCKETS_BEGIN % width)


def _moved(term: Term, by: int) -> Term:
    low, high = term.type.low + by, term.type.high + by
    integer(low, high)  # bounds that are too wide are an error
    return Add(term, number(by), replace(term.type, low=low, high=high)) if by else term


def _divided(term: Term, width: int) -> Term:
    return quotient(term, number(width), 0)


def _rest(term: Term, width: int, type_: Type) -> Term:
    """Return the remainder of a division that rounds down."""
    whole = _divided(term, width)
    low, high = (bound * width for bound in (whole.type.low, whole.type.high))
    return Subtract(term, Multiply(whole, number(width), integer(low, high)), type_)


def _rounded(term: Term, width: int, start: int) -> Term:
    """Round a timestamp down to a multiple of a width, after a start."""
    return Subtract(term, _rest(_moved(term, -start), width, integer(0, width - 1)), replace(
        term.type, low=term.type.low - width + 1
    ))  # fmt: skip
