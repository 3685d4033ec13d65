"""The tables of costs: the CPU time of a million changed rows, and its price, beside published CPU times.

A price is that of the CPU time of a run, and of its peak memory for the time that it took. The prices of both are in
`results/published/prices.toml`, which can be edited. Records have no prices.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Annotated

import msgspec
import pyarrow as pa
from msgspec import Meta, Struct

from deltamark.harness.benchmarks.cell import COARSE, FINE, PHYSICAL, SMALL
from deltamark.harness.console.table import Table, TableEntry, brief, count, ratio, words
from deltamark.harness.results import published
from deltamark.harness.tables.comparisons import SUFFIX, mean_of
from deltamark.harness.tables.relation import Column, Relations, at, listed

BATCHINGS = (SMALL[0], PHYSICAL[0], FINE, COARSE)
"""The batches of the table of engines: those of the summary of a run."""

CPU = "coalesce(of_fastest(figures, 'timed_cpu'), of_fastest(figures, 'cpu'))"
"""The CPU seconds of the fastest run, in the clock if the engine has processes of its own."""

HOUR_S = 3600.0
FLINK, EVENTS = "flink-nexmark", 1_000_000
"""The source of the published figures of Nexmark, and its events at scale factor 1."""

Price = Annotated[float, Meta(ge=0)]


class Prices(Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """The content of `prices.toml`. source: whose prices they are."""

    currency: str
    source: str
    vcpu_hour: Price
    gb_hour: Price

    @property
    def sql(self) -> str:
        """The SQL of the price of a run."""
        return f"({CPU} * {self.vcpu_hour / HOUR_S} + peak_bytes / 1e9 * best * {self.gb_hour / HOUR_S})"

    @property
    def note(self) -> str:
        return (
            f"{self.currency}: for a billion changes, at {self.vcpu_hour:g} for an hour of a core and {self.gb_hour:g} "
            f"for an hour of a GB ({self.source}); the memory is that of the peak, for the time of the run"
        )


@cache
def prices() -> Prices:
    return msgspec.toml.decode((published.PUBLISHED / "prices.toml").read_bytes(), type=Prices)


def money(value: float) -> TableEntry:
    """Format a price with three digits."""
    digits = max(2 - math.floor(math.log10(value)), 0) if value > 0 else 2
    return TableEntry(f"{value:,.{digits}f}", value)


def cost_tables(db: Relations) -> Iterator[Table]:
    """Make the table of engines, and that of queries beside published ones."""
    yield by_engine(db)
    if all(record.benchmark == "nexmark" for record in db.latest):
        yield beside_flink(db)


def by_engine(db: Relations) -> Table:
    """Make the table of the CPU time and the price of changes, with a line for each engine."""
    found = [each for each in BATCHINGS if db.rows(f"FROM cells WHERE has_numbers AND (L, P) = {each} LIMIT 1")]
    columns: list[Column] = [("engine", f"runner || {SUFFIX}", words), ("queries", "any_value(most)", count)]
    for logical, size in found:
        for header, figure, show in ((f"{logical} x {size}", "cpu", brief), (prices().currency, "price", money)):
            columns.append((header, at(f"(L, P) = {(logical, size)}", _mean(figure)), mean_of(show)))
    source = f"""
        FROM (
            SELECT *, max(answered) OVER (PARTITION BY workload, workers, rank) AS most FROM (
                SELECT workload, workers, L, P, rank, runner, count(cpu) AS answered, bool_or(is_doubtful) AS doubtful,
                    list(cpu) FILTER (cpu > 0) AS cpus, list(price) FILTER (cpu > 0) AS prices
                FROM (
                    SELECT *, {CPU} / tuples * 1e6 AS cpu, {prices().sql} / tuples * 1e9 AS price
                    FROM cells WHERE dataflow = '' AND has_numbers AND (L, P) IN {listed(found)})
                GROUP BY ALL)
        ) WHERE most > 0 GROUP BY workload, workers, rank, runner
        ORDER BY NOT plain(workload), workload, workers, rank"""
    title = "Cost: CPU time of a million changes, and price of a billion"
    notes = [
        "a change is an inserted or a deleted row; geometric means over the queries that an engine answered",
        "CPU time of all threads, in the clock; in older records of external engines also outside",
        prices().note,
    ]
    return db.table("cost", title, columns, source, notes)


def _mean(figure: str) -> str:
    return f"""CASE WHEN len({figure}s) > 0 THEN
        {{'value': {{'numbers': {figure}s, 'most': most}}, 'text': NULL, 'mark': doubtful}} END"""


def beside_flink(db: Relations) -> Table:
    """Make the table of the CPU time of a million events of Nexmark, beside the published one of Flink."""
    theirs = [
        {"query": each.query, "cpu": each.value} for each in published.figures() if each.source == FLINK
    ]  # fmt: skip
    db.add("flink", pa.Table.from_pylist(theirs))
    own = f"{CPU} / (sf::DOUBLE * {EVENTS}) * 1e6"
    columns: list[Column] = [("query", "query", words)]
    for rank, name in db.rows(f"SELECT DISTINCT rank, runner FROM single c WHERE {_FINE} ORDER BY rank"):
        value = f"CASE WHEN has_numbers AND fully_timed THEN {own} END"
        columns.append((name, at(f"rank = {rank}", f"shown(c, {value})"), brief))
        columns.append(("Flink / it", at(f"rank = {rank}", f"shown(c, flink.cpu / ({value}))"), ratio))
    columns.append(("Flink", "any_value(flink.cpu)", brief))
    publication = published.sources()[FLINK]
    return db.table(
        "cost-flink", "Nexmark: CPU time of a million events, beside the published one of Flink", columns,
        f"FROM single c LEFT JOIN flink USING (query) WHERE {_FINE} GROUP BY query ORDER BY substr(query, 2)::INT",
        [
            f"1 x {FINE[1]}, one worker, by all events of the stream, whether the query reads them or not",
            f"Flink: {publication.label}", *publication.notes,
        ],
    )  # fmt: skip


_FINE = f"(L, P) = {FINE}"
