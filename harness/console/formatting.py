"""Entries of tables: a text to read and a number to sort by, and the formats of measured numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median


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
BRIEF = Units({"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}, " ", None)


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
    """Write a number with a regular noun: `1 cell`, `2 cells`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
