"""The parts that several queries share. Decimals are integers of hundredths, and dates are days since 1970."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

import pathway as pw
from pathway import left, right, this

EPOCH = dt.date(1970, 1, 1)
Parameters = Mapping[str, Any]
Table = pw.Table[Any]


class Tables:
    """The relations of a query, as parts of the table that all rows enter through."""

    def __init__(self, everything: Table, columns: Mapping[str, Any]) -> None:
        for number, (name, each) in enumerate(columns.items()):
            rows = everything.filter(this.relation == number)
            setattr(self, name, rows.select(*(this[column] for column, _ in each)))

    lineitem: Table
    orders: Table
    customer: Table
    part: Table
    partsupp: Table
    supplier: Table
    nation: Table
    region: Table


def days(date: str, months: int = 0) -> int:
    """Return a date, or the same day some months later, in days since 1970."""
    day = dt.date.fromisoformat(date)
    month = day.month - 1 + months
    return (day.replace(year=day.year + month // 12, month=month % 12 + 1) - EPOCH).days


def year(column: Any) -> Any:
    return pw.apply_with_type(lambda day: (EPOCH + dt.timedelta(day)).year, int, column)


def matches(column: Any, test: Callable[[str], bool]) -> Any:
    return pw.apply_with_type(test, bool, column)


REVENUE = this.l_extendedprice * (100 - this.l_discount)


def first(table: Table, count: int, key: Any, *order: Any) -> Table:
    """Return the first rows by levels: each level keeps the first rows of fewer buckets, and the last has one."""
    rows = table.select(key=key, row=pw.make_tuple(*order))
    for buckets in (4096, 64, 1):
        grouped = rows.select(this.row, this.key, bucket=this.key % buckets).groupby(this.bucket)
        best = grouped.reduce(rows=pw.reducers.sorted_tuple(pw.make_tuple(this.row, this.key)))
        cut = best.select(rows=pw.apply(lambda each: each[:count], this.rows))
        flat = cut.flatten(this.rows)
        rows = flat.select(row=this.rows[0], key=pw.apply_with_type(int, int, this.rows[1]))
    return rows.select(this.row)


def unpacked(table: Table, **types: tuple[int, type]) -> Table:
    """Make columns of the elements of `row`, each with its position and type."""
    return table.select(
        **{name: pw.apply_with_type(_element(at), type_, this.row) for name, (at, type_) in types.items()}
    )


def _element(at: int) -> Callable[[tuple[Any, ...]], Any]:
    return lambda row: row[at]


def in_region(t: Tables, rows: Table, nationkey: Any, region: str) -> Table:
    """Add the name of the nation to rows whose nation is in a region."""
    nations = t.nation.join(t.region.filter(this.r_name == region), left.n_regionkey == right.r_regionkey).select(
        left.n_nationkey, left.n_name
    )
    return rows.join(nations, left[nationkey.name] == right.n_nationkey).select(*left, right.n_name)


def summed(table: Table, **columns: Any) -> Table:
    """Sum columns of all rows. There is no row if there are no rows."""
    sums = table.reduce(count=pw.reducers.count(), **{name: pw.reducers.sum(each) for name, each in columns.items()})
    return sums.filter(this.count > 0).select(*(this[name] for name in columns))


def with_one(rows: Table, one: Table) -> Table:
    """Join all rows with the only row of a table."""
    return rows.select(*this, one=0).join(one.select(*this, one=0), left.one == right.one).select(
        *(left[name] for name in rows.column_names()), *(right[name] for name in one.column_names())
    )  # fmt: skip


def has(text: str, word1: str, word2: str) -> bool:
    """Return whether a text has one word, and then another."""
    at = text.find(word1)
    return at >= 0 and text.find(word2, at + len(word1)) >= 0
