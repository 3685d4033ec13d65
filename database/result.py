"""The rows that a statement returns, as Arrow, frames of others, or rows of Python."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa

from deltamark.errors import DeltamarkError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

Row = tuple[Any, ...]

Description = list[tuple[str, str, None, None, None, None, None]]
"""The names and types of columns, as the database interface of Python has them."""

SHOWN_ROWS = 20
"""Rows that the `repr` of a result shows."""

MAX_WIDTH = 40
"""Characters of a value that the `repr` of a result shows."""

READ_AS: Mapping[str, Callable[[Any], Any]] = {"HUGEINT": int, "UHUGEINT": int, "UUID": UUID}
"""The types whose values Arrow has as decimals or texts."""

COUNT = "Count"
"""The column of the number of rows that a statement changed."""


class Result:
    """The rows of a statement, which were computed when it ran.

    It is a stream of Arrow (`__arrow_c_stream__`), so pyarrow, Polars, pandas and DuckDB take it as it is.
    """

    def __init__(self, table: pa.Table, types: Sequence[str], changed: int | None = None) -> None:
        self._table, self._changed = table, changed
        self._at = 0
        self.columns: list[str] = list(table.column_names)
        self.types: list[str] = list(types)
        """The types of the columns in SQL."""

    @property
    def description(self) -> Description:
        """The names and types of the columns, as the database interface of Python has them."""
        return [
            (name, type_, None, None, None, None, None) for name, type_ in zip(self.columns, self.types, strict=True)
        ]

    @property
    def has_rows(self) -> bool:
        """Whether the statement returned rows, perhaps none of them; otherwise it has changed or declared something."""
        return bool(self.columns) and not (self._changed is not None and self.columns == [COUNT])

    @property
    def rowcount(self) -> int:
        """The rows that the statement changed, or else those that it returned; -1 for a statement without rows."""
        if self._changed is not None:
            return self._changed
        return self._table.num_rows if self.columns else -1

    def arrow(self) -> pa.Table:
        """Return the rows as a table of Arrow."""
        return self._table

    def df(self) -> pd.DataFrame:
        """Return the rows as a frame of pandas."""
        _imported("pandas")
        return self._table.to_pandas()

    def pl(self) -> pl.DataFrame:
        """Return the rows as a frame of Polars, which must be installed."""
        frame: pl.DataFrame = _imported("polars").from_arrow(self._table)
        return frame

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)

    def fetchall(self) -> list[Row]:
        """Return the rows that were not fetched before."""
        return self.fetchmany(self._table.num_rows)

    def fetchmany(self, size: int = 1) -> list[Row]:
        """Return at most `size` of the rows that were not fetched before."""
        part = self._table.slice(self._at, size)
        self._at += part.num_rows
        return list(zip(*self._values(part), strict=True)) if self.columns else []

    def fetchone(self) -> Row | None:
        """Return the next row; None if all were fetched."""
        return next(iter(self.fetchmany()), None)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.fetchall())

    def __len__(self) -> int:
        return self._table.num_rows

    def _values(self, part: pa.Table) -> list[list[Any]]:
        columns = []
        for type_, column in zip(self.types, part.columns, strict=True):
            values = column.to_pylist()
            if type_ in READ_AS:
                values = [None if each is None else READ_AS[type_](each) for each in values]
            elif pa.types.is_timestamp(column.type) and column.type.tz:
                values = [None if each is None else each.astimezone(dt.UTC) for each in values]
            columns.append(values)
        return columns

    def __repr__(self) -> str:
        if not self.columns:
            return "no rows"
        table = [self.columns, self.types, *self._shown_rows()]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  ".join(
                f"{cell:>{width}}" if right else f"{cell:<{width}}"
                for cell, width, right in zip(row, widths, map(_is_number, self.types), strict=True)
            ).rstrip()
            for row in table
        ]
        lines.insert(2, "  ".join("-" * width for width in widths))
        return "\n".join([*lines, self._count()])

    def _repr_html_(self) -> str:
        """Return a table of HTML, which notebooks show."""
        if not self.columns:
            return "<p>no rows</p>"
        return html_table([self.columns, self.types], self._shown_rows(), self._count(), map(_is_number, self.types))

    def _shown_rows(self) -> list[list[str]]:
        values = self._values(self._table[:SHOWN_ROWS])
        return [[_shown(each) for each in row] for row in zip(*values, strict=True)]

    def _count(self) -> str:
        count = self._table.num_rows
        more = f", of which {SHOWN_ROWS} are shown" if count > SHOWN_ROWS else ""
        return f"{count:,} row{'' if count == 1 else 's'}{more}"


def html_table(
    heads: Sequence[Sequence[str]], rows: Iterable[Sequence[str]], caption: str, numeric: Iterable[bool] = ()
) -> str:
    """Return a table of HTML. numeric: the columns that are aligned to the right.

    >>> html_table([["city"]], [["a < b"]], "1 row")
    '<table><thead><tr><th>city</th></tr></thead><tbody><tr><td>a &lt; b</td></tr></tbody></table><p>1 row</p>'
    """
    is_right = tuple(numeric)

    def line(cells: Sequence[str], tag: str) -> str:
        styles = [' style="text-align: right"' if each else "" for each in is_right] or [""] * len(cells)
        joined = "".join(f"<{tag}{style}>{escape(each)}</{tag}>" for each, style in zip(cells, styles, strict=True))
        return f"<tr>{joined}</tr>"

    head, body = "".join(line(each, "th") for each in heads), "".join(line(each, "td") for each in rows)
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table><p>{escape(caption)}</p>"


def _is_number(type_: str) -> bool:
    return type_.startswith(("DECIMAL", "DOUBLE", "FLOAT")) or type_.endswith("INT") or type_ == "INTEGER"


def nothing() -> Result:
    """Return the result of a statement that returns no rows."""
    return Result(pa.table({}), [])


def counted(rows: int) -> Result:
    """Return the result of a statement that changed some rows and returns none."""
    return Result(pa.table({COUNT: [rows]}), ["BIGINT"], rows)


def _shown(value: object) -> str:
    text = "NULL" if value is None else str(value).replace("\n", "\\n")
    return text if len(text) <= MAX_WIDTH else f"{text[: MAX_WIDTH - 3]}..."


def _imported(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise DeltamarkError("a package that is not installed", name, f"run: pip install {name}") from None
