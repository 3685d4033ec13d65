"""Tables as SQL over records: a query, a format for each column, and notes.

DuckDB gets records as relations, and a table selects from them. A value is a number that the column's format writes, a
text, or NULL, which is shown as `-`. The macro `shown` makes a value of a number of a record `r`, with a mark if its
time is not plausible, or of the reason why the record has no number. A column for each batching or engine is an
aggregate with a FILTER: see `at`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa

from deltamark.harness.console.table import (
    MARK,
    NOTHING,
    Entries,
    Table,
    TableEntry,
    brief,
    megabytes,
    rate,
    ratio,
    words,
)
from deltamark.harness.measure.stats import geomean
from deltamark.harness.results.record import Record

Format = Callable[[Any], TableEntry]
Column = tuple[str, str, Format]
"""The header of a column, its SQL, and the format of its values."""

WITH_MEAN: tuple[Format, ...] = (brief, rate, ratio, megabytes)
"""The formats of the columns that have a geometric mean in the foot of a table."""

MIN_STATE_ROWS = 1000
"""The fewest rows of state for which bytes per row are shown; not measured."""

MACROS = f"""
CREATE MACRO shown(r, x) AS {{'value': x, 'text': r.why, 'mark': r.is_doubtful}};
CREATE MACRO row_bytes(size, number) AS CASE WHEN number >= {MIN_STATE_ROWS} THEN size / number END;
"""


class Relations:
    """A database of records, in which tables are made."""

    def __init__(self, relations: Mapping[str, pa.Table], views: str) -> None:
        self._database = duckdb.connect(config={"threads": 1})
        self._database.execute(MACROS)
        for name, rows in relations.items():
            self.add(name, rows)
        self._database.execute(views)

    def add(self, name: str, rows: pa.Table) -> None:
        """Add or replace a relation."""
        self._database.register("added", rows)
        self._database.execute(f"CREATE OR REPLACE TABLE {name} AS FROM added")

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self._database.execute(sql).fetchall()

    def table(  # noqa: PLR0913 (the parts of a table)
        self,
        name: str,
        title: str,
        columns: Iterable[Column],
        source: str,
        notes: Sequence[str] = (),
        *,
        has_foot: bool = False,
    ) -> Table:
        """Make a table.

        source: the SQL after the columns. has_foot: whether the last row has the means of our engine's rows.
        """
        headers, selected, formats = zip(*columns, strict=True)
        rows = [
            [entry(value, form) for value, form in zip(row, formats, strict=True)]
            for row in self.rows(f"SELECT {', '.join(selected)} {source}")
        ]
        return Table(name, title, list(headers), rows, list(notes), mean_foot(rows, formats) if has_foot else None)


def entry(value: Any, form: Format) -> TableEntry:
    """Format a value of DuckDB."""
    if value is None:
        return NOTHING
    if isinstance(value, str):
        return words(value)
    if isinstance(value, dict) and "mark" in value:
        made = words(value["text"]) if value["text"] else entry(value["value"], form)
        return marked(made) if value["mark"] else made
    if isinstance(value, float) and not math.isfinite(value):
        raise ZeroDivisionError("a figure is divided by zero")
    return form(value)


def marked(of: TableEntry) -> TableEntry:
    return replace(of, text=of.text + MARK)


def mean_foot(rows: Sequence[Entries], formats: Sequence[Format]) -> Entries | None:
    """Return a row of geometric means over our engine's rows, or None for fewer than two of them.

    A column has a mean if its format has, and every row has a positive number in it.
    """
    ours = [row for row in rows if " " not in row[0].text]
    if len(ours) < 2:
        return None
    foot = [words("geomean")]
    for column, form in enumerate(formats[1:], 1):
        values = [row[column].value for row in ours]
        has_mean = form in WITH_MEAN and all(value > 0 for value in values)
        foot.append(form(geomean(values)) if has_mean else words(""))
    return foot


def at(condition: str, value: str) -> str:
    """Return the SQL of a value of the record of a group for which a condition holds."""
    return f"any_value({value}) FILTER ({condition})"


def listed(values: Iterable[object]) -> str:
    """Return the right side of IN: a list of numbers, texts or tuples, which may be empty."""
    return f"({', '.join(map(literal, values)) or 'NULL'})"


def literal(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))})"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def without_mean(show: Format) -> Format:
    """Return a format whose columns have no mean in the foot."""
    return partial(show)


def why(record: Record) -> str | None:
    """Return the reason why a record has no number; None if it is right."""
    texts = {"ok": None, "wrong": "WRONG", "timeout": f">{record.limit:g}s", "refused": "refused"}
    return texts.get(record.status, "failed")
