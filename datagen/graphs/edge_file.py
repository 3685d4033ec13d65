"""Edges from a file of the user: text (one `src dst` on each line), Parquet or Arrow.

Every line or row is an edge. Graphs are multisets, so an edge that occurs twice has the multiplicity 2; loops are
allowed. Text may begin with comment lines (# or %); its numbers are separated by one tab, comma, semicolon or space.
"""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from deltamark.errors import DeltamarkError

DELIMITERS = "\t,; "


def read_edges(path: Path) -> pa.Table:
    """Return the columns src and dst of a file, as int64."""
    try:
        table = _read(path)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, str(error)) from error
    if table.num_rows == 0:
        raise _unreadable(path, "it is empty")
    return table


def _read(path: Path) -> pa.Table:
    match path.suffix:
        case ".parquet":
            return _picked(path, pq.read_table(path))
        case ".arrow" | ".feather" | ".ipc":
            return _picked(path, pa.ipc.open_file(pa.memory_map(str(path))).read_all())
    return _text(path)


def _text(path: Path) -> pa.Table:
    with path.open(encoding="utf-8", errors="replace") as lines:
        comments = sum(1 for _ in takewhile(lambda line: line[0] in "#%\n", lines))
    with path.open(encoding="utf-8", errors="replace") as lines:
        first = next((line for number, line in enumerate(lines) if number >= comments), "")
    if not first:
        raise _unreadable(path, "it has no edges")
    delimiter = next((delimiter for delimiter in DELIMITERS if delimiter in first.strip()), " ")
    return pc.read_csv(
        path,
        read_options=pc.ReadOptions(column_names=["src", "dst"], skip_rows=comments),
        parse_options=pc.ParseOptions(delimiter=delimiter),
        convert_options=pc.ConvertOptions(column_types={"src": pa.int64(), "dst": pa.int64()}, null_values=[]),
    )


def _picked(path: Path, table: pa.Table) -> pa.Table:
    """Return the columns src and dst, or the only two columns."""
    names = ["src", "dst"] if {"src", "dst"} <= set(table.column_names) else table.column_names
    types = [table.schema.field(name).type for name in names]
    if len(names) != 2 or not all(map(pa.types.is_integer, types)):
        columns = ", ".join(f"{name} {type_}" for name, type_ in zip(names, types, strict=True))
        raise _unreadable(path, f"its columns are {columns}")
    picked = table.select(names).rename_columns(["src", "dst"])
    if any(column.null_count for column in picked.columns):
        raise _unreadable(path, "a vertex is missing")
    return picked.cast(pa.schema([("src", pa.int64()), ("dst", pa.int64())]))


def _unreadable(path: Path, actual: str) -> DeltamarkError:
    remedy = "give a text with two whole numbers on each line, or Parquet or Arrow with columns src and dst of integers"
    return DeltamarkError("not a list of edges", f"{path}: {actual}", remedy)
