"""Functions of a row and other rows of its group, for `Collection.window`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from deltamark.dataflow.operators.frames import EXCLUSIONS, Bound, Exclusion, Frame, FrameFunction, Summary, Unit
from deltamark.dataflow.operators.window import State, WindowFunction
from deltamark.dataflow.types import DOUBLE, LARGEST, Schema, Type
from deltamark.errors import DeltamarkError

MAX_OFFSET = 2**60
"""The largest distance of an end of a frame. A larger one contains no other rows: a group has fewer."""

MAX_GROUPS = 1000
"""The most groups of equal rows between a row and an end of its frame, each of which is a search. Not measured."""


@dataclass(frozen=True)
class WindowExpr:
    """A function of the rows up to a row, without its name."""

    state: State
    of: str = ""
    with_peers: bool = False

    def function(self, name: str) -> WindowFunction:
        """Return the function with its name."""
        return WindowFunction(name, self.state, self.of, self.with_peers)

    def framed(self) -> WindowExpr | FrameExpr:
        """Return the same function over a frame, if it depends on the order of ties."""
        if self.with_peers or self.state == "rank" or self.state == "dense_rank":  # noqa: PLR1714 (mypy narrows it)
            return self
        kind: Summary = "rows" if self.state == "row_number" else self.state
        return FrameExpr(kind, self.of, rows_between(None, 0))


@dataclass(frozen=True)
class FrameExpr:
    """A function of the rows of a frame, without its name. See `FrameFunction` for its fields."""

    kind: Summary | Literal["value", "tile"]
    of: str
    frame: Frame
    place: int = 0
    known: bool = False

    def function(self, name: str) -> FrameFunction:
        """Return the function with its name."""
        return FrameFunction(name, self.kind, self.of, self.frame, self.place, self.known)


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


def rows_between(start: int | None, stop: int | None, *, without: Exclusion = "nothing") -> Frame:
    """Return the frame from `start` rows behind a row to `stop` rows behind it, both included (ROWS BETWEEN).

    `rows_between(-2, 0)` has the row and the two before it. None is the first row of the group, or the last one.
    without: "row", "peers" (the row and those equal in order), or "ties" (only these others).
    """
    return _frame("rows", start, stop, without)


def values_between(start: int | None, stop: int | None, *, without: Exclusion = "nothing") -> Frame:
    """Return the frame of the rows whose value in the last column of the order lies near that of a row (RANGE BETWEEN).

    `values_between(-6, 0)` has the rows of a week up to a row, in an order by day. In descending order, smaller values
    lie behind. A number with a scale is given times 10**scale, as in batches. With an end other than None or 0, the
    order has one column of numbers or dates. None and `without` are as for `rows_between`.
    """
    return _frame("values", start, stop, without)


def groups_between(start: int | None, stop: int | None, *, without: Exclusion = "nothing") -> Frame:
    """Return the frame of the rows that lie some groups of equal rows in order before a row or behind it (GROUPS).

    `groups_between(-1, 1)` has the row with those equal in order, and those with the next smaller and larger values.
    Each value is computed in as many steps as there are groups. None and `without` are as for `rows_between`.
    """
    for each in (start, stop):
        if isinstance(each, int) and abs(each) > MAX_GROUPS:
            raise DeltamarkError("too many groups of a frame", each, f"give at most {MAX_GROUPS}, or None for no end")
    return _frame("groups", start, stop, without)


def _frame(unit: Unit, start: int | None, stop: int | None, without: Exclusion) -> Frame:
    if without not in EXCLUSIONS:
        raise DeltamarkError("no such rows of a frame", repr(without), f"write one of {', '.join(EXCLUSIONS)}")
    for each in (start, stop):
        if each is not None and (not isinstance(each, int) or isinstance(each, bool)):
            raise DeltamarkError("not an end of a frame", repr(each), "give a number, or None for no end")
    return Frame(_bound(unit, start), _bound(unit, stop), without)


def _bound(unit: Unit, offset: int | None) -> Bound:
    if offset is None:
        return Bound("all")
    if unit in ("values", "groups") and offset == 0:
        return Bound("peers")
    return Bound(unit, max(min(offset, MAX_OFFSET), -MAX_OFFSET))


def moving_count(frame: Frame, of: str = "") -> FrameExpr:
    """Count the rows of a frame, or the values of a column in it that are not NULL."""
    return FrameExpr("count" if of else "rows", of, frame)


def moving_sum(of: str, frame: Frame) -> FrameExpr:
    """Sum a column over a frame; NULL if it has no values."""
    return FrameExpr("sum", of, frame)


def moving_smallest(of: str, frame: Frame) -> FrameExpr:
    """Return the smallest value of a column in a frame; NULL if it has no values."""
    return FrameExpr("smallest", of, frame)


def moving_largest(of: str, frame: Frame) -> FrameExpr:
    """Return the largest value of a column in a frame; NULL if it has no values."""
    return FrameExpr("largest", of, frame)


def nth_value(of: str, place: int, frame: Frame, *, known: bool = False) -> FrameExpr:
    """Return a column of a row of a frame: 1 is the first row, -1 the last one. NULL if the frame has fewer rows.

    known: count only rows in which the column is not NULL (IGNORE NULLS).
    """
    if not isinstance(place, int) or place == 0 or place < -1:
        raise DeltamarkError("no such row of a frame", repr(place), "give 1 for the first row, or -1 for the last one")
    if frame.without != "nothing":
        raise DeltamarkError("a row of a frame without some rows", str(frame), "leave out `without`")
    return FrameExpr("value", of, frame, place - 1 if place > 0 else place, known)


def lag(of: str, rows: int = 1) -> FrameExpr:
    """Return a column of the row that lies some rows before a row; NULL if there is none."""
    return nth_value(of, 1, rows_between(-rows, -rows))


def lead(of: str, rows: int = 1) -> FrameExpr:
    """Return a column of the row that lies some rows behind a row; NULL if there is none."""
    return lag(of, -rows)


def ntile(parts: int) -> FrameExpr:
    """Divide a group into parts of equally many rows, or one more in the first ones; return the part of a row."""
    if not isinstance(parts, int) or not 1 <= parts <= MAX_OFFSET:
        raise DeltamarkError("no such number of parts", repr(parts), "give at least 1")
    return FrameExpr("tile", "", rows_between(0, 0), parts)


def with_frames_of_doubles(
    functions: Mapping[str, WindowExpr | FrameExpr], schema: Schema
) -> Mapping[str, WindowExpr | FrameExpr]:
    """Return functions in which running sums of doubles are over frames: they are too long to be kept for each row."""
    return {
        name: FrameExpr("sum", each.of, Frame(Bound("all"), Bound("peers" if each.with_peers else "rows")))
        if isinstance(each, WindowExpr) and each.state == "sum" and schema[each.of].kind == "double"
        else each
        for name, each in functions.items()
    }


def with_one_order_of_ties(functions: Mapping[str, WindowExpr | FrameExpr]) -> Mapping[str, WindowExpr | FrameExpr]:
    """Return functions of which those that depend on the order of ties are all over frames, if one is.

    So one operator orders the ties of all.
    """
    frames = [each.function("") for each in functions.values() if isinstance(each, FrameExpr)]
    if not any(each.orders_ties for each in frames):
        return functions
    return {name: each.framed() if isinstance(each, WindowExpr) else each for name, each in functions.items()}


def window_functions(
    functions: Mapping[str, WindowExpr | FrameExpr], schema: Schema
) -> Iterator[tuple[WindowFunction | FrameFunction, Type]]:
    """Yield the functions of a window with the types of their values. schema: that of the rows."""
    for name, each in functions.items():
        match each:
            case WindowExpr():
                yield each.function(name), _type(name, each, schema)
            case FrameExpr():
                yield each.function(name), _type_in_frame(name, each, schema)
            case _:
                remedy = "write row_number(), running_sum(...), moving_sum(...), lag(...), or another function"
                raise DeltamarkError("not a function of a window", f"{name} = {each!r}", remedy)


def _type(name: str, function: WindowExpr, schema: Schema) -> Type:
    rows = min(schema.rows, LARGEST)
    if not function.of:
        return Type("int", 0, min(1, rows), rows)
    of = schema[function.of]
    match function.state:
        case "count":
            return Type("int", 0, 0, rows)
        case "sum" if of.kind == "int":
            return replace(_sum_type(of, rows), nullable=of.nullable)
        case "smallest" | "largest" if of.kind != "text":
            return of
    raise DeltamarkError(f"no {function.state} of this type", f"{name} = {function.of} ({of})", "name another column")


def _type_in_frame(name: str, function: FrameExpr, schema: Schema) -> Type:
    frame = function.frame
    rows = min(schema.rows, LARGEST)
    if frame.start.unit == frame.stop.unit == "rows":
        rows = max(min(rows, frame.stop.offset - frame.start.offset + 1), 0)
    if function.kind == "tile":
        return Type("int", 0, 1, max(min(function.place, schema.rows), 1))
    if not function.of:
        return Type("int", 0, min(int(frame.has_row), rows), rows)
    of = schema[function.of]
    match function.kind:
        case "count":
            return Type("int", 0, 0, rows)
        case "value":
            is_in = frame.has_row and function.place in (0, -1)
        case "sum" if of.kind == "double":
            is_in = frame.has_row and not of.nullable
            of = DOUBLE
        case "sum" if of.kind == "int":
            if max(abs(of.low), abs(of.high)) * rows > LARGEST:
                actual, remedy = f"{name} = {function.of} ({of})", "narrow its bounds, or those of the rows"
                raise DeltamarkError("a moving sum may need more than 64 bits", actual, remedy)
            of, is_in = _sum_type(of, rows), frame.has_row and not of.nullable
        case "smallest" | "largest" if of.kind != "text":
            is_in = frame.has_row
        case _:
            actual = f"{name} = {function.of} ({of})"
            raise DeltamarkError(f"no {function.kind} of this type", actual, "name another column")
    return of if is_in else of.or_null()


def _sum_type(of: Type, rows: int) -> Type:
    """Bound a sum, of which the operator checks that it fits."""
    return Type("int", of.scale, max(min(of.low, 0) * rows, -LARGEST), min(max(of.high, 0) * rows, LARGEST))


def refuse_frame(frame: Frame, order: Sequence[Type]) -> None:
    """Raise an error for a frame by values in an order that has no last column of numbers. order: its types."""
    offsets = [each.offset for each in (frame.start, frame.stop) if each.unit == "values"]
    if not offsets:
        return
    if not order or order[-1].kind not in ("int", "date"):
        actual = "an order without columns" if not order else str(order[-1])
        raise DeltamarkError("a frame by values that are no numbers", actual, "order by a number or a date last")
    most = max(abs(order[-1].low), abs(order[-1].high)) + max(map(abs, offsets)) + 1
    if most > LARGEST:
        raise DeltamarkError("a frame by values beyond 64 bits", most, "narrow the bounds of the order, or the frame")
