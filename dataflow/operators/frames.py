"""Frames: functions over the rows near each row of its group, from one end of a frame to the other.

    sales.window(by="shop", order=["day"], week=moving_sum("price", values_between(-6, 0)), before=lag("price"))

The kernel is in `dataflow/kernels/groups/frames.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.kernels.groups.double_sums import COUNTED_WORDS
from deltamark.dataflow.kernels.groups.frame_values import STATE_WORDS, SUMMED, TILED
from deltamark.dataflow.kernels.groups.frames import FRAMES
from deltamark.dataflow.kernels.groups.grouped_rows import RowRecord
from deltamark.dataflow.kernels.ordered.btree import COUNT, LARGEST, ROWS, SMALLEST, SUM, SUM_OF_DOUBLES, VERSIONS
from deltamark.dataflow.operators.grouped_rows import RowInput, grouped_rows
from deltamark.dataflow.operators.in_order import InOrder, RowFunction, StoredOrder
from deltamark.dataflow.operators.interning import PlanValue
from deltamark.dataflow.plan.term_sql import identifier

Unit = Literal["all", "rows", "peers", "values", "groups"]
"""The unit of an end of a frame: none, numbers of rows, the rows that are equal in order, values of the order, or
numbers of groups of rows that are equal in order."""

UNITS: tuple[Unit, ...] = Unit.__args__  # type: ignore[attr-defined]

Exclusion = Literal["nothing", "row", "peers", "ties"]
"""The rows of a frame that are left out: the row itself, the row and those equal in order, or only these others."""

EXCLUSIONS: tuple[Exclusion, ...] = Exclusion.__args__  # type: ignore[attr-defined]

Summary = Literal["rows", "count", "sum", "smallest", "largest"]
"""Functions of all rows of a frame."""

KINDS: dict[Summary, int] = {"rows": ROWS, "count": COUNT, "sum": SUM, "smallest": SMALLEST, "largest": LARGEST}
"""The kinds of sums of a tree."""


@dataclass(frozen=True)
class Bound(PlanValue):
    """An end of a frame: a number of units behind the row, or before it if the offset is negative."""

    unit: Unit
    offset: int = 0


@dataclass(frozen=True)
class Frame(PlanValue):
    """The rows from one end to the other, both included, without some of them."""

    start: Bound
    stop: Bound
    without: Exclusion = "nothing"

    def __str__(self) -> str:
        ends = " to ".join(each.unit if each.unit in ("all", "peers") else f"{each.offset:+d} {each.unit}"
                           for each in (self.start, self.stop))  # fmt: skip
        return ends if self.without == "nothing" else f"{ends} without {self.without}"

    @property
    def has_row(self) -> bool:
        """Whether the frame of each row contains the row."""
        before = self.start.unit in ("all", "peers") or self.start.offset <= 0
        behind = self.stop.unit in ("all", "peers") or self.stop.offset >= 0
        return before and behind and self.without in ("nothing", "ties")

    @property
    def by_rows(self) -> bool:
        """Whether an end is a number of rows."""
        return "rows" in (self.start.unit, self.stop.unit)


@dataclass(frozen=True)
class FrameFunction(RowFunction):
    """A column: a summary of the rows of a frame, the value of one of them, or the part of the group that a row is in.

    place: that of the row whose value it is, from 0 on, or from -1 backwards; of a tile the number of parts, which have
    equally many rows, or the first ones one more. known: only values that are not NULL count for the place.
    """

    function: Summary | Literal["value", "tile"]
    of: str
    frame: Frame
    place: int = 0
    known: bool = False

    def __str__(self) -> str:
        of = f"({identifier(self.of) if self.of else ''})"
        if self.function == "tile":
            return f"tile of {self.place} AS {identifier(self.name)}"
        place = f"{' known' * self.known} at {self.place}" if self.function == "value" else ""
        return f"{self.function}{of}{place} from {self.frame} AS {identifier(self.name)}"

    @property
    def reads(self) -> str:
        return self.of

    @property
    def orders_ties(self) -> bool:
        return self.function == "value" or self.frame.by_rows


@dataclass(frozen=True, eq=False)
class Frames(InOrder):
    """The rows with functions over frames of their group."""

    functions: tuple[FrameFunction, ...]

    @property
    def title(self) -> str:
        return "window"

    def append(self, stored: StoredOrder) -> Stream:
        program = stored.stream.program
        own = list(dict.fromkeys(each.frame for each in self.functions))
        sums = list(dict.fromkeys([("rows", ""), *map(_sum, self.functions)]))
        summed = {each.frame for each in self.functions if each.function not in ("value", "tile")}
        arguments = [_argument(self, stored, each) for each in self.functions]
        kinds = [self._kind(*each) for each in sums]
        words_of = [COUNTED_WORDS if each == SUM_OF_DOUBLES else 1 for each in kinds]
        of_sums = [stored.argument(self, of) for _, of in sums]
        in_record, size = RowRecord.size_in_words, sum(words_of)
        order = replace(
            stored.order, copies_word=in_record + len(stored.columns),
            sums=[
                word for kind, at, more in zip(kinds, of_sums, words_of, strict=True)
                for word in ((kind, in_record + at), *((ROWS, 0),) * (more - 1))
            ],
        )  # fmt: skip
        words, table = program.words, program.table
        return grouped_rows(
            FRAMES, stored.keys, [RowInput(stored.stream, stored.key, stored.columns, STATE_WORDS)],
            order=order, added=[each.name for each in self.functions], **stored.fields(self),
            by_copy=int(any(each.frame.by_rows for each in self.functions)),
            frames=len(own), starts=table(_words([each.start for each in own])),
            stops=table(_words([each.stop for each in own])),
            without=table([EXCLUSIONS.index(each.without) for each in own]),
            is_summed=table([int(each in summed) for each in own]),
            frame_of=table([own.index(each.frame) for each in self.functions]),
            items=table([sum(words_of[: sums.index(_sum(each))]) for each in self.functions]),
            arguments=table(arguments),
            places=table([each.place for each in self.functions]),
            is_open_before=int(any(each.start.unit == "all" for each in own)),
            is_open_behind=int(any(each.stop.unit == "all" for each in own)),
            most_rows=self.rows.schema.rows, sums=words(VERSIONS * size * len(own)), counted=words(size),
            old_spans=words(2 * len(own)), new_spans=words(2 * len(own)), group_start=words(VERSIONS),
            group_stop=words(VERSIONS), place=words(VERSIONS), change_place=words(VERSIONS),
        )  # fmt: skip

    def _kind(self, summary: Summary, of: str) -> int:
        """Return the kind of a sum of the tree."""
        if summary == "sum" and self.rows.schema[of].kind == "double":
            return SUM_OF_DOUBLES
        return KINDS[summary]


def _sum(function: FrameFunction) -> tuple[Summary, str]:
    """Return the sum of a tree that a function reads, or by which it counts rows."""
    if function.function == "value" or function.function == "tile":  # noqa: PLR1714 (mypy narrows it)
        return ("count", function.of) if function.known else ("rows", "")
    return function.function, function.of


def _argument(node: Frames, stored: StoredOrder, function: FrameFunction) -> int:
    """Return the value of a record that a function picks, or the kind of another function."""
    if function.function == "value":
        return stored.argument(node, function.of)
    return TILED if function.function == "tile" else SUMMED


def _words(ends: Sequence[Bound]) -> list[int]:
    """Return the unit and the offset of each end."""
    return [word for each in ends for word in (UNITS.index(each.unit), each.offset)]
