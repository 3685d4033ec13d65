"""Entries of tables: a text to read and a number to sort by, and the formats of measured numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class TableEntry:
    text: str
    value: float = math.nan
    """The sort key; NaN for text."""


NOTHING = TableEntry("-")


def words(text: str) -> TableEntry:
    return TableEntry(text)


def seconds(value: float) -> TableEntry:
    if math.isnan(value):
        return NOTHING
    if value < 0.01:
        return TableEntry(f"{value * 1e3:.2f}ms", value)
    return TableEntry(f"{value:.2f}s" if value >= 1 else f"{value:.3f}s", value)


def brief(value: float) -> TableEntry:
    """Format a duration of any size with three digits."""
    if math.isnan(value):
        return NOTHING
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size:
            return TableEntry(
                f"{value / size:.3g} {unit}" if value < 1000 * size else f"{value / size:.0f} {unit}", value
            )
    return TableEntry(f"{value / 1e-9:.0f} ns", value)


def rate(value: float) -> TableEntry:
    """Format a number per second in the style of the post's tables."""
    if math.isnan(value):
        return NOTHING
    for unit, size in (("G", 1e9), ("M", 1e6), ("K", 1e3)):
        if value >= size:
            return TableEntry(f"{value / size:.2f}{unit}/s", value)
    return TableEntry(f"{value:.0f}/s", value)


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
