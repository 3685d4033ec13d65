"""Functions of a row and the rows before it in its group, for `Collection.window`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from deltamark.dataflow.operators.window import State, WindowFunction
from deltamark.dataflow.types import LARGEST, Schema, Type
from deltamark.errors import DeltamarkError


@dataclass(frozen=True)
class WindowExpr:
    """A function of `Collection.window`, without its name."""

    state: State
    of: str = ""
    with_peers: bool = False


def row_number() -> WindowExpr:
    """Return the place of a row in its group, from 1 on; equal rows have successive places."""
    return WindowExpr("row_number")


def rank() -> WindowExpr:
    """Return one more than the number of rows that come before a row and all its peers."""
    return WindowExpr("rank")


def dense_rank() -> WindowExpr:
    """Return one more than the number of different values of the order before a row."""
    return WindowExpr("dense_rank")


def running_count(of: str = "", *, with_peers: bool = False) -> WindowExpr:
    """Count the rows up to a row, or the values of a column that are not NULL.

    with_peers: up to the last row that is equal in order (RANGE), and not only up to the row itself (ROWS).
    """
    return WindowExpr("count" if of else "row_number", of, with_peers)


def running_sum(of: str, *, with_peers: bool = False) -> WindowExpr:
    """Sum a column over the rows up to a row; NULL if all are NULL. with_peers: as for `running_count`."""
    return WindowExpr("sum", of, with_peers)


def running_smallest(of: str, *, with_peers: bool = False) -> WindowExpr:
    """Return the smallest value of a column in the rows up to a row. with_peers: as for `running_count`."""
    return WindowExpr("smallest", of, with_peers)


def running_largest(of: str, *, with_peers: bool = False) -> WindowExpr:
    """Return the largest value of a column in the rows up to a row. with_peers: as for `running_count`."""
    return WindowExpr("largest", of, with_peers)


def window_functions(functions: Mapping[str, WindowExpr], schema: Schema) -> Iterator[tuple[WindowFunction, Type]]:
    """Yield the functions of a window with the types of their values. schema: that of the rows."""
    for name, each in functions.items():
        if not isinstance(each, WindowExpr):
            remedy = "write row_number(), rank(), dense_rank(), running_sum(...), or another running function"
            raise DeltamarkError("not a function of a window", f"{name} = {each!r}", remedy)
        yield WindowFunction(name, each.state, each.of, each.with_peers), _type(name, each, schema)


def _type(name: str, function: WindowExpr, schema: Schema) -> Type:
    rows = min(schema.rows, LARGEST)
    if not function.of:
        return Type("int", 0, min(1, rows), rows)
    of = schema[function.of]
    match function.state:
        case "count":
            return Type("int", 0, 0, rows)
        case "sum" if of.kind == "int":
            low, high = min(of.low, 0) * rows, max(of.high, 0) * rows
            if max(-low, high) > LARGEST:
                actual, remedy = f"{name} = {function.of} ({of})", "narrow its bounds, or those of the rows"
                raise DeltamarkError("a running sum may need more than 64 bits", actual, remedy)
            return Type("int", of.scale, low, high, nullable=of.nullable)
        case "smallest" | "largest" if of.kind != "text":
            return of
    raise DeltamarkError(f"no {function.state} of this type", f"{name} = {function.of} ({of})", "name another column")
