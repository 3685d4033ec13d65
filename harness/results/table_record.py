"""Records of suites whose cells yield rows of a table. A record is a line per row in `findings.jsonl`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Self

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from deltamark.harness.results.record import Amount, Count, Record, latest

Figures = dict[str, Annotated[list[Count | Amount], Meta(min_length=1)]]
"""Seconds, bytes and counts by name; a list has an entry per timed run."""


class AbsentFigureError(KeyError):
    """A row of an older version lacks a figure."""


class TableRow(Struct, frozen=True):
    name: str = field(name="row")
    figures: Figures = {}
    note: str = field(name="said", default="")
    """A text to show beside the figures."""

    def least(self, figure: str) -> float:
        if figure not in self.figures:
            raise AbsentFigureError(figure)
        return min(self.figures[figure])


class TableRecord(Record, frozen=True, kw_only=True):
    """The rows that one cell has yielded. A cell that failed has a single row without figures."""

    FILE = "findings.jsonl"

    dataset: str = field(name="of", default="")
    """The data that was measured: a graph, or TPC-H at a scale factor."""
    table: str = ""
    rows: tuple[TableRow, ...] = ()

    @property
    def lines(self) -> list[bytes]:
        header: dict[str, object] = msgspec.to_builtins(self)
        rows: list[dict[str, object]] = msgspec.to_builtins(header.pop("rows"))
        return [msgspec.json.encode(header | row) for row in rows]

    @classmethod
    def from_json(cls, line: bytes) -> Self:
        """Read one row; see `merged`."""
        return replace(super().from_json(line), rows=(msgspec.json.decode(line, type=TableRow),))


def merged(records: Iterable[TableRecord]) -> Iterator[TableRecord]:
    """Merge consecutive records of one measurement of a cell into one with all rows."""
    for _, group in groupby(records, key=lambda record: (record.cell, record.finished_at)):
        first, *others = group
        yield replace(first, rows=(*first.rows, *(row for record in others for row in record.rows)))


@dataclass(frozen=True)
class MeasuredRow:
    """A row together with the record that it belongs to."""

    record: TableRecord
    row: TableRow

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def figures(self) -> Figures:
        return self.row.figures

    @property
    def has_numbers(self) -> bool:
        return self.record.status == "ok"

    def least(self, figure: str) -> float:
        return self.row.least(figure)


def latest_rows(records: Iterable[Record], suite: str) -> list[MeasuredRow]:
    """Return the rows of the last record of each cell of a suite."""
    of_suite = (record for record in records if isinstance(record, TableRecord) and record.suite == suite)
    return [MeasuredRow(record, row) for record in latest(of_suite).values() for row in record.rows]
