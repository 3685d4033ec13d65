"""Tables of suites whose records have rows: shared formats, and grouping by dataset and table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from deltamark.errors import DeltamarkError
from deltamark.harness.console.formatting import NOTHING, TableEntry, brief, count, short, words
from deltamark.harness.console.table import Entries, Table
from deltamark.harness.results.record import Record
from deltamark.harness.results.table_record import AbsentFigureError, MeasuredRow, latest_rows
from deltamark.harness.tables.entry import why

ShowFigure = Callable[[MeasuredRow], TableEntry]
FigureColumns = Mapping[str, ShowFigure]
"""The columns of a table by their headers."""

RowsByTable = Mapping[str, Sequence[MeasuredRow]]
"""The rows of one dataset, by the name of their table."""


def suite_tables(records: Iterable[Record], suite: str, make: Callable[[RowsByTable], list[Table]]) -> list[Table]:
    """Make the non-empty tables of a suite, separately for each dataset."""
    last = latest_rows(records, suite)
    tables = []
    with consistent_figures(suite):
        for dataset in dict.fromkeys(row.record.dataset for row in last):
            by_table = rows_by_table(row for row in last if row.record.dataset == dataset)
            tables += [named(table, dataset) for table in make(by_table) if table.rows]
    return tables


@contextmanager
def consistent_figures(suite: str) -> Iterator[None]:
    """Turn an arithmetic or look-up error into one that names the suite: valid lines may contradict each other."""
    try:
        yield
    except (ArithmeticError, LookupError, ValueError) as error:
        remedy = "move findings.jsonl away and measure again; --debug shows more"
        raise DeltamarkError(f"figures of the suite {suite} contradict each other", repr(error), remedy) from error


def rows_by_table(measured: Iterable[MeasuredRow]) -> RowsByTable:
    """Group rows by table, and sort them by the numbers in their names."""
    by_table: dict[str, list[MeasuredRow]] = {}
    for row in measured:
        by_table.setdefault(row.record.table, []).append(row)
    return {name: sorted(rows, key=_numbers) for name, rows in by_table.items()}


def _numbers(measured: MeasuredRow) -> list[int]:
    return list(map(int, re.findall(r"\d+", measured.name)))


def rows(measured: Iterable[MeasuredRow], columns: FigureColumns, name: Callable[[str], str] = str) -> list[Entries]:
    """Make a row of a table for each measured one. name: formats the name of a row."""
    return [[words(name(row.name)), *entries(row, columns.values())] for row in measured]


def entries(measured: MeasuredRow, shows: Iterable[ShowFigure]) -> Entries:
    """Format figures of a row, or the reason why it has none."""
    return [entry_of(measured, show) for show in shows]


def entry_of(measured: MeasuredRow, show: ShowFigure) -> TableEntry:
    """Format a figure of a row, or the reason why it has none; a row of an older version may lack a figure."""
    try:
        return show(measured) if measured.has_numbers else why(measured.record)
    except AbsentFigureError:
        return NOTHING


def least(figure: str, write: Callable[[float], TableEntry] = brief) -> ShowFigure:
    """ShowFigure the smallest value of a figure."""
    return lambda row: write(row.least(figure))


def number(figure: str) -> ShowFigure:
    return least(figure, count)


def share(numerator: str, denominator: str, write: Callable[[float], TableEntry]) -> ShowFigure:
    """ShowFigure the quotient of two figures."""
    return lambda row: write(row.least(numerator) / row.least(denominator))


def tenths(value: float) -> TableEntry:
    return TableEntry(f"{value:.1f}", value)


def short_name(name: str) -> str:
    """Shorten the name of a row that is a batch size: 1000 is 1K."""
    return short(int(name)) if name.isdecimal() else name


def named(table: Table, dataset: str) -> Table:
    """Add the dataset to the name and title of a table."""
    slug = re.sub(r"\W+", "-", dataset).strip("-").lower()
    return replace(table, name=f"{table.name}-{slug}", title=f"{table.title} ({dataset})")
