"""What a table is made of: entries that are read (text) and sorted by (a number), and how numbers are written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from deltamark.harness.measure.stats import geomean
from deltamark.harness.results.record import Record, Result


@dataclass(frozen=True)
class Entry:
    text: str
    value: float = math.nan
    """What it is sorted by; NaN where it is no number."""


NOTHING = Entry("-")
Row = list[Entry]


@dataclass
class Table:
    name: str
    title: str
    headers: list[str]
    rows: list[Row]
    notes: list[str] = field(default_factory=list)
    foot: Row | None = None
    """A last row that is not sorted with the others."""


def words(text: str) -> Entry:
    return Entry(text)


def seconds(value: float) -> Entry:
    if math.isnan(value):
        return NOTHING
    if value < 0.01:
        return Entry(f"{value * 1e3:.2f}ms", value)
    return Entry(f"{value:.2f}s" if value >= 1 else f"{value:.3f}s", value)


def brief(value: float) -> Entry:
    """Write a time of any size with three digits."""
    if math.isnan(value):
        return NOTHING
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size:
            return Entry(f"{value / size:.3g} {unit}" if value < 1000 * size else f"{value / size:.0f} {unit}", value)
    return Entry(f"{value / 1e-9:.0f} ns", value)


def rate(value: float) -> Entry:
    """Write a rate as the post does."""
    if math.isnan(value):
        return NOTHING
    for unit, size in (("G", 1e9), ("M", 1e6), ("K", 1e3)):
        if value >= size:
            return Entry(f"{value / size:.2f}{unit}/s", value)
    return Entry(f"{value:.0f}/s", value)


def ratio(value: float) -> Entry:
    if math.isnan(value):
        return NOTHING
    return Entry(f"{value:.2f}x" if value < 100 else f"{value:,.0f}x", value)


def count(value: float) -> Entry:
    return Entry(f"{value:,.0f}", float(value))


def short(size: int) -> str:
    """Write a size of batches as 100K or 1M."""
    for unit, worth in (("M", 1_000_000), ("K", 1000)):
        if size >= worth and size % worth == 0:
            return f"{size // worth}{unit}"
    return str(size)


def megabytes(value: float) -> Entry:
    return Entry(f"{value / 1e6:,.1f}", value)


def of(record: Record | None, show: Callable[[Record], Entry]) -> Entry:
    """Write something of a record, or why there is nothing."""
    if record is None:
        return NOTHING
    if record.status != "ok":
        return why(record)
    return show(record) if record.shown else NOTHING


def why(result: Result) -> Entry:
    """Write why there is no number."""
    return Entry({"wrong": "WRONG", "timeout": f">{result.limit:g}s"}.get(result.status, "failed"))


def whole(record: Record) -> Entry:
    """Write the seconds of a whole stream, or of a sample the rate."""
    return seconds(record.best) if record.whole else rate(record.rate)


def peak(records: Iterable[Record | None]) -> Entry:
    """Write the best rate of some records."""
    found = [record.rate for record in records if record is not None and record.shown]
    return rate(max(found)) if found else NOTHING


def mean_foot(table: Sequence[Row], write: Sequence[Callable[[float], Entry] | None]) -> Row | None:
    """Make a last row of our geometric means, in columns where every row has a number; None of fewer than two rows."""
    rows = [row for row in table if " " not in row[0].text]
    if len(rows) < 2:
        return None
    foot = [words("geomean")]
    for at, each in enumerate(write, 1):
        values = [row[at].value for row in rows]
        known = each is not None and all(value > 0 for value in values)
        foot.append(each(geomean(values)) if known and each is not None else words(""))
    return foot
