"""Tables in several formats, the numbers and words of their entries, and bars of text that show parts of a time."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Literal

from tabulate import tabulate

from deltamark.harness.console.console import fold


@dataclass(frozen=True)
class Units:
    """The units of a quantity, the smallest first, each with its size; `gap` stands before the name of a unit."""

    sizes: Mapping[str, float]
    gap: str
    decimals: int | None
    """The digits after the point, if the unit is not 1; None for three digits in all."""

    def fitting(self, value: float) -> str:
        """Return the largest unit that is not larger than a value."""
        fitting = [unit for unit, size in self.sizes.items() if value >= size]
        return fitting[-1] if fitting else next(iter(self.sizes))

    def written(self, value: float, unit: str) -> str:
        number = value / self.sizes[unit]
        if self.decimals is None or 0 < number < 10**-self.decimals:
            return f"{_three_digits(number)}{self.gap}{unit}"
        decimals = 0 if self.sizes[unit] == 1 else self.decimals
        return f"{number:,.{decimals}f}{self.gap}{unit}"


def _three_digits(number: float) -> str:
    if number == 0:
        return "0"
    return f"{number:,.{max(2 - math.floor(math.log10(number) + 1e-12), 0)}f}"


RATE = Units({"/s": 1.0, "K/s": 1e3, "M/s": 1e6, "G/s": 1e9}, "", 2)
BRIEF = Units({"ns": 1e-9, "\u00b5s": 1e-6, "ms": 1e-3, "s": 1.0}, " ", None)


@dataclass(frozen=True)
class TableEntry:
    text: str
    value: float = math.nan
    """The sort key; NaN for text."""
    units: Units | None = None

    def in_unit(self, unit: str) -> TableEntry:
        """Return the entry in another unit, with the words behind its number."""
        assert self.units is not None
        usual = _quantity(self.value, self.units).text
        words = self.text.removeprefix(usual) if self.text.startswith(usual) else ""
        return TableEntry(self.units.written(self.value, unit) + words, self.value, self.units)


NOTHING = TableEntry("-")

MARK = " ~"
"""The end of an entry whose number is not plausible."""


def words(text: str) -> TableEntry:
    return TableEntry(text)


def _quantity(value: float, units: Units) -> TableEntry:
    """Format a number in the unit that fits it; outside of a column, zeros at the end are left out."""
    if math.isnan(value):
        return NOTHING
    unit = units.fitting(value)
    text = units.written(value, unit)
    if units.decimals is None and "." in text:
        number, _, unit = text.partition(" ")
        text = f"{number.rstrip('0').rstrip('.')} {unit}"
    return TableEntry(text, value, units)


def brief(value: float) -> TableEntry:
    """Format a duration of any size with three digits."""
    return _quantity(value, BRIEF)


def rate(value: float) -> TableEntry:
    """Format a number per second in the style of the post's tables."""
    return _quantity(value, RATE)


def in_one_unit(column: Sequence[TableEntry]) -> list[TableEntry]:
    """Return a column whose entries of one quantity have one unit, that of the median."""
    found = list(column)
    for units in (RATE, BRIEF):
        values = [entry.value for entry in column if entry.units is units]
        if values:
            unit = units.fitting(median(values))
            found = [entry.in_unit(unit) if entry.units is units else entry for entry in found]
    return found


def ratio(value: float) -> TableEntry:
    if math.isnan(value):
        return NOTHING
    digits = f"{value:.1g}" if value < 0.005 else f"{value:.2f}" if value < 100 else f"{value:,.0f}"
    return TableEntry(f"{digits}x", value)


def count(value: float) -> TableEntry:
    return TableEntry(f"{value:,.0f}", float(value))


def short(size: int) -> str:
    """Format a batch size as 100K or 1M."""
    for unit, factor in (("M", 1_000_000), ("K", 1000)):
        if size >= factor and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


def megabytes(value: float) -> TableEntry:
    return TableEntry(f"{value / 1e6:,.1f}", value)


def span(value: float) -> str:
    """Format an estimated duration, rounded to seconds or minutes."""
    return f"{value:.0f} s" if value < 90 else f"{value / 60:.0f} min"


def listed(parts: Sequence[str]) -> str:
    """Join parts as in a sentence: `a, b and c`."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def counted(number: int, noun: str) -> str:
    """Write a number with a regular noun: `1 cell`, `2 cells`, `2 queries`."""
    several = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else several}"


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
    notes = "".join(f"- {note}\n" for note in table.notes)
    return f"**{table.title}**\n\n{_grid(table, 'github')}\n\n{notes}"


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


def _grid(table: Table, style: Style) -> str:
    rows = [[entry.text for entry in row] for row in [*table.rows, *([table.foot] if table.foot else [])]]
    return grid(table.headers, rows, ["left", *["right"] * (len(table.headers) - 1)], style)


def grid(headers: Sequence[str], rows: Sequence[Sequence[str]], align: Sequence[str], style: Style = "simple") -> str:
    """Align the columns of a table, each to the `left` or to the `right`."""
    return tabulate(rows, headers, tablefmt=style, disable_numparse=True, colalign=align if rows else None)


WIDTH = 64
"""The characters of the longest bar."""

FULL, EIGHTHS = "█", " ▏▎▍▌▋▊▉"


@dataclass(frozen=True)
class Bar:
    """A part of a time, in milliseconds. A bar of depth n belongs to the last one before it of depth n - 1."""

    name: str
    depth: int
    start: float
    end: float


def flame(bars: Sequence[Bar]) -> str:
    """Draw bars on one scale of time, from the first start to the last end, each with its name and length."""
    first, last = min(bar.start for bar in bars), max(bar.end for bar in bars)
    scale = WIDTH / ((last - first) or 1)
    names = ["  " * bar.depth + bar.name for bar in bars]
    lengths = [brief((bar.end - bar.start) / 1e3).text for bar in bars]
    name_width, length_width = max(map(len, names)), max(map(len, lengths))
    drawn = [_drawn((bar.start - first) * scale, (bar.end - first) * scale) for bar in bars]
    rows = zip(names, lengths, drawn, strict=True)
    return "\n".join(f"{name:<{name_width}}  {length:>{length_width}}  {line}" for name, length, line in rows)


def _drawn(start: float, end: float) -> str:
    """Draw a bar from whole characters; its end has the precision of an eighth, and no bar is invisible."""
    first = round(start)
    eighths = max(round(8 * (end - start)), 1)
    return " " * first + FULL * (eighths // 8) + EIGHTHS[eighths % 8].strip()
