"""The parts that several queries share. Decimals are integers of hundredths, and dates are days since 1970."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from deephaven import agg
from deephaven.table import Table

EPOCH = dt.date(1970, 1, 1)
Parameters = Mapping[str, Any]

REVENUE = "revenue = l_extendedprice * (100 - l_discount)"


class Tables:
    """The relations of a query. keys: the relations whose declared key is in their rows."""

    lineitem: Table
    orders: Table
    customer: Table
    part: Table
    partsupp: Table
    supplier: Table
    nation: Table
    region: Table

    def __init__(self, relations: Mapping[str, Table], keyed: Collection[str]) -> None:
        self.keyed = keyed
        for name, table in relations.items():
            setattr(self, name, table)

    def matched(
        self, rows: Table, others: Table, on: str | Sequence[str], joins: Sequence[str], *, key_of: str
    ) -> Table:
        """Join rows with others, whose columns are the key of a relation.

        With a declared key a row finds one other. Without one there may be several, which costs more.
        """
        if key_of in self.keyed:
            return found(rows, others, on, joins)
        return rows.join(others, on, joins)


def found(rows: Table, others: Table, on: str | Sequence[str], joins: Sequence[str]) -> Table:
    """Join rows with the only other row of their key, and leave out those that have none."""
    marked = others.update_view("is_found = true")
    joined = rows.natural_join(marked, on, [*joins, "is_found"]).where("!isNull(is_found)")
    return joined.drop_columns("is_found")


def absent(rows: Table, others: Table, on: str) -> Table:
    """Keep the rows that have no other of their key."""
    marked = others.update_view("is_found = true")
    return rows.natural_join(marked, on, "is_found").where("isNull(is_found)").drop_columns("is_found")


def in_region(t: Tables, rows: Table, nationkey: str, region: str) -> Table:
    """Add the name of the nation to rows whose nation is in a region."""
    regions = t.region.where(f"r_name = `{region}`")
    nations = t.matched(t.nation, regions, "n_regionkey = r_regionkey", [], key_of="region")
    return t.matched(rows, nations, f"{nationkey} = n_nationkey", ["n_name"], key_of="nation")


def of_nation(t: Tables, rows: Table, nationkey: str, nation: str) -> Table:
    """Keep the rows of a nation."""
    return t.matched(rows, t.nation.where(f"n_name = `{nation}`"), f"{nationkey} = n_nationkey", [], key_of="nation")


def summed(rows: Table, sums: str | Sequence[str], by: str | Sequence[str] | None = None) -> Table:
    return rows.agg_by([agg.sum_(sums)], by)


def counted(rows: Table, by: str | Sequence[str], name: str = "number") -> Table:
    return rows.agg_by([agg.count_(name)], by)


def first(rows: Table, count: int, **order: str) -> Table:
    """Return the first rows. order: `up` or `down` for each column."""
    from deephaven import SortDirection  # noqa: PLC0415

    directions = {"up": SortDirection.ASCENDING, "down": SortDirection.DESCENDING}
    return rows.sort(list(order), [directions[each] for each in order.values()]).head(count)


def with_one(rows: Table, one: Table, joins: Sequence[str]) -> Table:
    """Join all rows with the only row of a table."""
    return rows.natural_join(one, [], joins)


def days(date: str, months: int = 0) -> int:
    """Return a date, or the same day some months later, in days since 1970."""
    day = dt.date.fromisoformat(date)
    month = day.month - 1 + months
    return (day.replace(year=day.year + month // 12, month=month % 12 + 1) - EPOCH).days


def within(column: str, date: str, months: int) -> list[str]:
    """Return the conditions that a day is in some months."""
    return [f"{column} >= {days(date)}", f"{column} < {days(date, months)}"]


def year(column: str) -> str:
    return f"java.time.LocalDate.ofEpochDay({column}).getYear()"


def one_of(column: str, values: Sequence[object]) -> str:
    """Return the condition that a column has one of some values."""
    listed = ", ".join(f"`{each}`" if isinstance(each, str) else str(each) for each in values)
    return f"{column} in {listed}"


def has(column: str, word1: str, word2: str) -> str:
    """Return the condition that a text has one word, and then another."""
    at = f"{column}.indexOf(`{word1}`)"
    return f"({at} >= 0 && {column}.indexOf(`{word2}`, {at} + {len(word1)}) >= 0)"
