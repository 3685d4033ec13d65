"""The certificates of the suite of growth: a table, and the grades that take the place of what engines declare."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deltamark.harness.benchmarks.cell import GROWTH
from deltamark.harness.console.table import Table, TableEntry, brief, count, words
from deltamark.harness.measure.growth import (
    MAINTAINED,
    RECOMPUTED,
    Certificate,
    certificate,
    exponent,
    two_digits,
)
from deltamark.harness.measure.stats import median
from deltamark.harness.results.record import REFUSED, Record, latest
from deltamark.harness.tables.relation import Certified, Relations, why
from deltamark.harness.tables.suites import consistent_figures, shown

ROWS_OF = "rows_"
"""The beginning of the name of the figure that counts the changed rows of a relation."""


@dataclass(frozen=True)
class Growth:
    """The rows of a query and an engine, from the smallest base to the largest."""

    query: str
    engine: str
    rows: Sequence[Record]

    @property
    def gap(self) -> str | None:
        """The reason why a size has no time."""
        refused = ("refused" if row.note.startswith(REFUSED) else None for row in self.rows if not row.figures)
        return next(filter(None, map(why, self.rows)), next(refused, None))

    @property
    def sizes(self) -> list[float]:
        return [row.least("base") for row in self.rows]

    def per_row(self, *names: str) -> list[float]:
        """Return the seconds for each changed row of some relations."""
        return [
            sum(undisturbed(row.figures[f"seconds_{name}"]) for name in names)
            / sum(row.least(f"rows_{name}") for name in names)
            for row in self.rows
        ]

    @property
    def relations(self) -> list[str]:
        """The relations whose rows change at all sizes."""
        ends = (row.figures.keys() for row in self.rows)
        common = set[str].intersection(*map(set, ends))
        return sorted(name.removeprefix(ROWS_OF) for name in common if name.startswith(ROWS_OF))

    @property
    def certificate(self) -> Certificate | None:
        """The growth of a batch of as many rows as one over the largest base has."""
        if self.gap or not self.relations:
            return None
        last = self.rows[-1]
        of_batch = last.least("rows") / last.least("batches")
        return certificate(self.sizes, [each * of_batch for each in self.per_row(*self.relations)])

    @property
    def steepest(self) -> str:
        """The relation whose changes have the largest exponent, with this exponent."""
        seconds = {name: self.per_row(name) for name in self.relations}
        found = {name: exponent(self.sizes, each).value for name, each in seconds.items() if min(each) > 0}
        name = max(found, key=lambda each: found[each])
        return f"{name} {two_digits(found[name])}"

    @property
    def bytes_per_row(self) -> list[float]:
        return [row.least("bytes") / row.least("base") for row in self.rows]


def undisturbed(seconds: Sequence[float]) -> float:
    """Return the median of the fastest quarter of the runs: other programs can only make a run slower."""
    return median(sorted(seconds)[: -(-len(seconds) // 4)])


def growths(rows: Iterable[Record]) -> list[Growth]:
    """Group the rows of one benchmark by query and engine."""
    found: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for row in rows:
        query, _, engine = row.row.split(" ", 2)
        found[query, engine].append(row)
    return [Growth(*name, sorted(of, key=_scale)) for name, of in found.items()]


def _scale(row: Record) -> float:
    return float(row.row.split()[1])


def recorded_grades(records: Iterable[Record]) -> Certified:
    """Return the grades of all certificates in records of any suites."""
    by_benchmark: dict[str, list[Record]] = defaultdict(list)
    for row in latest(record for record in records if record.suite == GROWTH):
        by_benchmark[row.dataset].append(row)
    with consistent_figures(GROWTH):
        return {
            (name, each.query, each.engine): found.grade
            for name, rows in by_benchmark.items() for each in growths(rows) if (found := each.certificate)
        }  # fmt: skip


TEXTS = ("query", "engine", "why", "doubt", "interval", "without", "grade", "steepest")
NUMBERS = ("exponent", "base", "first", "last", "bytes", "more_bytes", "changes")
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in TEXTS),
        *((name, pa.float64()) for name in NUMBERS),
    ]
)


def growth_tables(db: Relations) -> Iterator[Table]:
    """Make the table of certificates."""
    found = growths(db.records)
    db.add("certificates", pa.Table.from_pylist([*map(_row, found)], SCHEMA))
    scales = [_scale(row) for each in found for row in each.rows]
    ends = [f"{end:g}" for end in (min(scales), max(scales))] if scales else ["", ""]
    yield db.table(
        "certificates", "Certificates of incrementality: how the time of a change grows with the base",
        [
            ("query", "query", words), ("engine", "engine", words),
            *(shown(f"change at {end}", name, brief) for end, name in zip(ends, ("first", "last"), strict=True)),
            shown("exponent", "CASE WHEN exponent IS NOT NULL THEN {'at': exponent, 'words': interval} END", _interval),
            shown("without fixed cost", "without", words), shown("certificate", "grade", words),
            shown("steepest input", "steepest", words), shown("bytes per row", "bytes", count),
            shown("their exponent", "more_bytes", _number), shown("changes out / in", "changes", _number),
        ],
        "FROM certificates r ORDER BY query, engine <> 'embedded', engine",
        NOTES,
    )  # fmt: skip


NOTES = [
    "change: the time for each changed row, over the smallest and the largest base, which keeps its size",
    "exponent: of this time by the rows of the base, with an interval of 95 %; 0: independent, 1: proportional",
    "without fixed cost: the exponent of the part that grows, if the whole does not show that it is maintained",
    f"maintained: the interval is below {MAINTAINED}, and no scan of the base can hide in the fixed cost",
    f"recomputed: the interval of the part that grows reaches {RECOMPUTED}; partly: it is between, as by partition",
    "undecided: more or larger SIZES may decide, or a quiet machine",
    "steepest input: the relation whose changes have the largest exponent",
    "bytes per row: the state for each live row that the query reads, over the largest base",
]


def _interval(value: dict[str, Any]) -> TableEntry:
    return TableEntry(value["words"], value["at"])


def _number(value: float) -> TableEntry:
    return TableEntry(two_digits(value), value)


def _row(of: Growth) -> dict[str, object]:
    """Return the row of a query and an engine in the relation of certificates."""
    named: dict[str, object] = {"query": of.query, "engine": of.engine, "why": of.gap, "doubt": ""}
    last = of.rows[-1]
    if of.gap or not of.relations:
        return named
    seconds, state, certified = of.per_row(*of.relations), of.bytes_per_row, of.certificate
    has_state = min(state) > 0 and certified is not None
    numbers = {
        "base": last.least("base"), "first": seconds[0], "last": seconds[-1], "bytes": state[-1] or None,
        "more_bytes": exponent(of.sizes, state).value if has_state else None,
        "changes": last.least("changes") / last.least("rows") if "changes" in last.figures else None,
    }  # fmt: skip
    if certified is None:
        return {**named, **numbers}
    is_maintained = certified.grade == "maintained"
    return {
        **named, **numbers, "exponent": certified.exponent.value, "interval": str(certified.exponent),
        "without": None if is_maintained or certified.without_fixed is None else str(certified.without_fixed),
        "grade": certified.grade, "steepest": of.steepest,
    }  # fmt: skip
