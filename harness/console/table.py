"""Tables, and their forms as text, Markdown and CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from tabulate import tabulate

from deltamark.harness.console.console import fold
from deltamark.harness.console.formatting import MARK, TableEntry, in_one_unit

Entries = list[TableEntry]
Style = Literal["simple", "github"]

GAP = "  "
"""The gap that tabulate leaves between two columns."""
HEADER_PADDING = 2
"""The characters by which tabulate makes a column wider than its header."""


@dataclass
class Table:
    """A table with a title, and notes below it."""

    name: str
    title: str
    headers: list[str]
    rows: list[Entries]
    notes: list[str] = field(default_factory=list)
    foot: Entries | None = None
    """The last row, which is not sorted with the others."""
    has_units_by_row: bool = False
    """Whether rows are of different quantities; otherwise the entries of a column get one unit."""

    def __post_init__(self) -> None:
        if self.has_units_by_row:
            return
        everything = [*self.rows, *([self.foot] if self.foot else [])]
        columns = [in_one_unit(column) for column in zip(*everything, strict=True)]
        rows: list[Entries] = [list(row) for row in zip(*columns, strict=True)]
        self.foot = rows.pop() if self.foot else None
        self.rows = rows


def text(table: Table, width: int | None = None) -> str:
    """Return the table as text. width: columns that do not fit are put below, each time beside the first one."""
    parts = [_grid(part, "simple") for part in _parts(table, width)]
    notes = [fold(f"  {note}", width) for note in table.notes]
    return "\n\n".join([fold(table.title, width), *parts]) + "\n\n" + "".join(f"{note}\n" for note in notes)


def _parts(table: Table, width: int | None) -> Iterator[Table]:
    """Yield tables of the first column and as many of the others as fit."""
    widths = [_width(table, column) + len(GAP) for column in range(len(table.headers))]
    columns = [0]
    for column in range(1, len(widths)):
        if width is not None and len(columns) > 1 and sum(widths[each] for each in [*columns, column]) > width:
            yield _with_columns(table, columns)
            columns = [0]
        columns.append(column)
    yield _with_columns(table, columns)


def _width(table: Table, column: int) -> int:
    foot = [table.foot[column].text] if table.foot else []
    entries = max(map(len, [*foot, *(row[column].text for row in table.rows)]), default=0)
    return max(len(table.headers[column]) + HEADER_PADDING, entries)


def _with_columns(table: Table, columns: Sequence[int]) -> Table:
    chosen = [[row[column] for column in columns] for row in table.rows]
    foot = [table.foot[column] for column in columns] if table.foot else None
    return replace(table, headers=[table.headers[column] for column in columns], rows=chosen, foot=foot)


def markdown(table: Table) -> str:
    return f"**{table.title}**\n\n{_body(table)}"


def folded(table: Table) -> str:
    """Return Markdown that shows only the title until it is clicked."""
    return f"<details><summary>{table.title}</summary>\n\n{_body(table)}\n</details>\n"


def comma_separated(table: Table) -> str:
    """Return CSV with unformatted numbers, except those with a mark, which stay texts."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["table", *table.headers])
    for row in table.rows:
        writer.writerow([table.name, *map(_unformatted, row)])
    return out.getvalue()


def _unformatted(entry: TableEntry) -> str | float:
    return entry.text if math.isnan(entry.value) or entry.text.endswith(MARK) else entry.value


FORMATS: dict[str, Callable[[Table], str]] = {"text": text, "markdown": markdown, "csv": comma_separated}


def _body(table: Table) -> str:
    return f"{_grid(table, 'github')}\n\n" + "".join(f"- {note}\n" for note in table.notes)


def _grid(table: Table, style: Style) -> str:
    rows = [[entry.text for entry in row] for row in [*table.rows, *([table.foot] if table.foot else [])]]
    return grid(table.headers, rows, ["left", *["right"] * (len(table.headers) - 1)], style)


def grid(headers: Sequence[str], rows: Sequence[Sequence[str]], align: Sequence[str], style: Style = "simple") -> str:
    """Align the columns of a table, each to the `left` or to the `right`."""
    return tabulate(rows, headers, tablefmt=style, disable_numparse=True, colalign=align if rows else None)
