"""Rows of users as tables of Arrow, from frames of pandas and Polars, relations of DuckDB, streams, dictionaries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from deltamark.errors import DataError, ProgrammingError, unknown


class ArrowStream(Protocol):
    """An object that hands out a stream of Arrow: a table, a frame, a relation, a result."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Frame: TypeAlias = "ArrowStream | Iterable[Mapping[str, Any]]"
"""Rows by columns: an object with a stream of Arrow, or dictionaries."""


def arrow_rows(frame: object) -> pa.Table:
    """Return the rows of a frame, without copies where Arrow allows it.

    >>> arrow_rows([{"shop": 7, "price": 9}, {"shop": 8}]).to_pydict()
    {'shop': [7, 8], 'price': [9, None]}
    """
    try:
        return _table(frame)
    except (pa.ArrowException, TypeError, ValueError) as error:
        actual = str(error).splitlines()[0] if str(error) else type(frame).__name__
        raise DataError("rows that Arrow cannot read", actual, "give values of one type in each column") from None


def _table(frame: object) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if type(frame).__module__.partition(".")[0] == "pandas":  # its own stream has a column for the index
        return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(frame).read_all()
    if isinstance(frame, Mapping):
        return pa.table(dict(frame))
    if isinstance(frame, Iterable) and not isinstance(frame, str | bytes):
        rows = list(frame)
        if all(isinstance(each, Mapping) for each in rows):
            names = dict.fromkeys(name for each in rows for name in each)
            return pa.table({name: [each.get(name) for each in rows] for name in names})
    remedy = "give a table of Arrow, a frame of pandas or Polars, a relation of DuckDB, or a list of dictionaries"
    raise ProgrammingError("not rows", type(frame).__name__, remedy)


def renamed(rows: pa.Table, table: str, columns: Iterable[str]) -> pa.Table:
    """Return rows whose columns have the names of a table's; SQL ignores the case of letters."""
    known = {name.lower(): name for name in columns}
    names = []
    for name in rows.column_names:
        if name.lower() not in known:
            raise unknown(f"column of {table}", name, known.values())
        names.append(known[name.lower()])
    for name in names:
        if names.count(name) > 1:
            raise ProgrammingError("several columns with the same name", f"{table}.{name}", "give one of them")
    return rows.rename_columns(names)
