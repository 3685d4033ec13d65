"""Records of suites whose cells yield rows of a table. A record is a line per row in `findings.jsonl`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from itertools import groupby
from typing import Any, Self

from deltamark.harness.results.json_types import check_fields, json_name, stored_as
from deltamark.harness.results.record import Record, latest

Figures = dict[str, list[float]]
"""Seconds, bytes and counts by name; a list has an entry per timed run."""


class AbsentFigureError(KeyError):
    """A row of an older version lacks a figure."""


@dataclass(frozen=True)
class TableRow:
    name: str = stored_as("row")
    figures: Figures = field(default_factory=dict)
    note: str = stored_as("said", "")
    """A text to show beside the figures."""

    def least(self, figure: str) -> float:
        if figure not in self.figures:
            raise AbsentFigureError(figure)
        return min(self.figures[figure])


@dataclass(frozen=True, kw_only=True)
class TableRecord(Record):
    """The rows that one cell has yielded. A cell that failed has a single row without figures."""

    FILE = "findings.jsonl"

    dataset: str = stored_as("of", "")
    """The data that was measured: a graph, or TPC-H at a scale factor."""
    table: str = ""
    rows: tuple[TableRow, ...] = ()

    @property
    def lines(self) -> list[dict[str, Any]]:
        (header,) = super().lines
        header.pop("rows")
        return [{**header, **{json_name(each): getattr(row, each.name) for each in _ROW_FIELDS}} for row in self.rows]

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Self:
        """Read one row; see `merged`."""
        row = TableRow(**check_fields(raw, TableRow))
        for name, values in row.figures.items():
            if not values:
                raise ValueError(f"figures.{name} has no values")
        return replace(cls(**check_fields(raw, cls)), rows=(row,))


_ROW_FIELDS = fields(TableRow)


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
