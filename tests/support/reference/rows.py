"""Collections of the reference: a dict {row: weight} without zeros. A row is a tuple in the order of the schema."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from deltamark.dataflow.operators.node import Node

Row = tuple[Any, ...]
Update = tuple[Row, int, int]  # row, time, diff
Rows = dict[Row, int]
Stream = dict[tuple[int, Row], int]


def consolidated(changes: Iterable[tuple[Row, int]]) -> Rows:
    rows: Rows = {}
    for row, diff in changes:
        rows[row] = rows.get(row, 0) + diff
    return {row: diff for row, diff in rows.items() if diff}


def minus(now: Rows, before: Rows) -> Rows:
    return consolidated([*now.items(), *((row, -diff) for row, diff in before.items())])


def named(node: Node, row: Row) -> dict[str, Any]:
    return dict(zip(node.schema.names, row, strict=True))


def picked(node: Node, row: Row, names: Iterable[str]) -> Row:
    own = node.schema.names
    return tuple(row[own.index(name)] for name in names)
