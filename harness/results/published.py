"""Published numbers of other systems: `results/published/*.csv`, and their labels in `sources.json`."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from functools import cache

import msgspec

from deltamark.harness.system.machine import ROOT

PUBLISHED = ROOT / "results" / "published"

FINER = 10
"""The post's code uses 8 times as many logical times as ours at the same L > 1, so it is compared with our next finer
column.
"""


@dataclass(frozen=True)
class Publication:
    title: str
    system: str
    year: str
    hardware: str
    sf: str
    notes: tuple[str, ...]

    @property
    def label(self) -> str:
        of = f", SF {self.sf}" if self.sf != "-" else ""
        return f"{self.title} ({self.system}, {self.year}{of}; {self.hardware})"


@dataclass(frozen=True)
class Figure:
    """A published number. logical, physical, workers: 0 if it covers several; variant: ours, if it is known."""

    source: str
    table: str
    query: str
    label: str
    variant: str
    logical: int
    physical: int
    workers: int
    measure: str
    value: float

    @property
    def ours(self) -> tuple[int, int]:
        """L and P of our cell to compare with."""
        return ours(self.source, self.logical, self.physical)


def ours(source: str, logical: int, physical: int) -> tuple[int, int]:
    """Return L and P of our cells to compare with those of a source."""
    return (logical // FINER, physical * FINER) if source == "post" and logical > 1 else (logical, physical)


@cache
def sources() -> dict[str, Publication]:
    return msgspec.json.decode((PUBLISHED / "sources.json").read_bytes(), type=dict[str, Publication])


@cache
def figures() -> tuple[Figure, ...]:
    rows: list[Figure] = []
    for path in sorted(PUBLISHED.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            rows += [_figure(row) for row in csv.DictReader(file)]
    return tuple(rows)


def _figure(row: dict[str, str]) -> Figure:
    numbers = {name: int(row[name] or 0) for name in ("logical", "physical", "workers")}
    return msgspec.convert({**row, **numbers}, Figure, strict=False)


def rates(source: str, table: str) -> list[Figure]:
    """Return the figures of a table as tuples per second; seconds are converted by the peak rate of their row."""
    of_table = [each for each in figures() if (each.source, each.table) == (source, table)]
    as_rates = []
    for each in of_table:
        if each.measure == "rate":
            as_rates.append(each)
        elif each.measure == "seconds" and (tuples := _tuples(of_table, each.label)):
            as_rates.append(replace(each, measure="rate", value=tuples / each.value))
    return as_rates


def _tuples(of_table: list[Figure], label: str) -> float:
    """Return the number of tuples behind a row of a table: its peak rate times its fewest seconds."""
    peak = [each.value for each in of_table if each.label == label and each.measure == "peak_rate"]
    seconds = [each.value for each in of_table if each.label == label and each.measure == "seconds"]
    return peak[0] * min(seconds) if peak and seconds else 0.0


def hot_dog() -> dict[str, float]:
    """Return the hot dog column by query: tuples per second, fed one at a time."""
    return {each.query: each.value for each in figures() if each.table == "single-tuple"}
