"""The tables that compare engines: side by side in the same cells, and beside published numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from deltamark.datagen.workloads.registry import PLAIN
from deltamark.harness.benchmarks.cell import Batching
from deltamark.harness.console.table import (
    MARK,
    Table,
    TableEntry,
    brief,
    count,
    megabytes,
    rate,
    ratio,
    short,
    words,
)
from deltamark.harness.engines.base import short_name
from deltamark.harness.measure.stats import geomean, median
from deltamark.harness.results import published
from deltamark.harness.results.record import Record
from deltamark.harness.tables.relation import Column, Format, Relations, at, literal

THEIRS = pa.schema(
    [(name, pa.string()) for name in ("query", "dataflow")] + [("value", pa.float64())]
    + [(name, pa.int64()) for name in ("number", "logical", "physical", "workers", "L", "P", "used")]
)  # fmt: skip

COMPARED = {
    ("post", "physical"): "the post, physical batches",
    ("post", "product"): "the post, L x P = 100,000",
    ("post", "workers"): "the post, workers",
    ("dd", "physical"): "differential dataflow, physical batches",
    ("dbtoaster", "logical"): "DBToaster, logical batches of 100,000",
    ("dd-draft", "logical"): "differential dataflow, logical batches of 100,000",
}
"""Published tables."""

MAX_COLUMNS_WITH_OURS = 4
"""The most published columns for which our rates are shown too; for more, only the ratios are."""


NAME = "CASE WHEN t.dataflow IN ('', known.default_variant) THEN t.query ELSE t.query || ' ' || t.dataflow END"
"""The name of a dataflow; the default one has the name of its query."""


def beside_published(db: Relations, sf: str, source: str, table: str) -> Table:
    """Make a table of published rates, with ours beside them.

    Ours are those of the same dataflow, with as many workers or with the most that we have measured below that.
    """
    figures = published.rates(source, table)
    measured = sorted(number for (number,) in db.rows("SELECT DISTINCT workers FROM latest WHERE ours"))
    used = {figure.workers: max((n for n in measured if n <= figure.workers), default=1) for figure in figures}
    theirs = [
        {
            "number": number, "query": figure.query, "dataflow": figure.variant, "logical": figure.logical,
            "physical": figure.physical, "workers": figure.workers, "L": figure.ours[0], "P": figure.ours[1],
            "used": used[figure.workers], "value": figure.value,
        }
        for number, figure in enumerate(figures)
    ]  # fmt: skip
    columns: list[Column] = [("query", NAME, words)]
    batchings = sorted({(figure.logical, figure.physical, figure.workers) for figure in figures})
    has_ours = len(batchings) <= MAX_COLUMNS_WITH_OURS
    for logical, size, number in batchings:
        column = f"(t.logical, t.physical, t.workers) = {(logical, size, number)}"
        header, own = _batching(logical, size, number), published.ours(source, logical, size)
        ours = (f"ours {_batching(*own, used[number])}", _last(column, "shown(c, c.rate)"), rate)
        columns += [
            (f"theirs {header}", _last(column, "t.value"), rate), *([ours] if has_ours else []),
            (f"ratio {header}", _last(column, "shown(c, c.rate / t.value)"), ratio),
        ]  # fmt: skip
    db.add("theirs", pa.Table.from_pylist(theirs, THEIRS))
    rows = f"""
        FROM theirs t JOIN (SELECT DISTINCT query, default_variant FROM latest) known USING (query)
            LEFT JOIN cells c ON c.ours AND plain(c.workload) AND c.query = t.query
            AND c.dataflow = t.dataflow AND (c.L, c.P, c.workers) = (t.L, t.P, t.used)
        GROUP BY {NAME} HAVING count(c.id) > 0 ORDER BY min(t.number)"""
    publication = published.sources()[source]
    notes = [f"theirs: {publication.label}", *publication.notes]
    if publication.sf != sf:
        notes.append(f"theirs was measured at SF {publication.sf}, ours at SF {sf}")
    title = f"Against {COMPARED[source, table]}: tuples per second"
    return db.table(f"{source}-{table}", title, columns, rows, notes, has_foot=True)


def _last(condition: str, value: str) -> str:
    return f"arg_max({value}, t.number) FILTER ({condition})"


def _batching(logical: int, physical: int, workers: int) -> str:
    return f"{short(logical)}x{short(physical)}" + (f" -w{workers}" if workers > 1 else "")


TO_FASTEST = "to the fastest"
PLACE = "workload, workers, L, P"
PLACE_ORDER = "NOT plain(workload), workload, workers, L * P, L"
PLACES = """
    SELECT workload, workers, logical AS L, physical AS P FROM latest WHERE is_default GROUP BY ALL
    HAVING count(DISTINCT engine) > 1 AND bool_or(engine IN (SELECT engine FROM latest WHERE is_external))"""
"""The batchings, with a workload and a number of workers, in which an external engine was measured beside another."""

BESIDE = f"""(
    SELECT *, rate / coalesce(max(rate) FILTER (NOT is_doubtful) OVER same, max(rate) OVER same) AS share
    FROM cells SEMI JOIN ({PLACES}) USING ({PLACE}) WHERE dataflow = '' WINDOW same AS (PARTITION BY {PLACE}, query)
)"""
"""The cells there, with the rate relative to that of the fastest engine with a plausible time."""

SUFFIX = """
    (CASE WHEN workers > 1 THEN ', ' || workers || ' workers' ELSE '' END)
    || (CASE WHEN NOT plain(workload) THEN ', ' || workload ELSE '' END)"""
"""The workers and the workload, unless they are the usual ones."""

Mean = tuple[str, str, Format]
MEANS: dict[str, tuple[str, list[Mean]]] = {
    "engines": ("tuples per second", [("", "rate", rate), (TO_FASTEST, "share", ratio)]),
    "engines-latency": ("latency of a batch, 99th percentile", [("", "p99", brief)]),
    "engines-memory": ("peak memory in MB", [("", "peak_bytes", megabytes)]),
}
"""The tables with a line for each engine: their titles, and the columns of each batching, without header if its header
is that of the batching.
"""


def side_by_side(db: Relations) -> Iterator[Table]:
    """Make the tables of engines: means by batching with a line for each engine, and rates by query."""
    places = db.rows(f"SELECT * FROM ({PLACES}) ORDER BY {PLACE_ORDER}")
    if places:
        yield from (_means(db, list(dict.fromkeys(place[2:] for place in places)), name) for name in MEANS)
        yield from (_by_query(db, *place) for place in places)


def _means(db: Relations, batchings: Sequence[Batching], name: str) -> Table:
    title, means = MEANS[name]
    columns: list[Column] = [("engine", f"runner || {SUFFIX}", words), ("queries", "any_value(most)", count)]
    for logical, size in batchings:
        for header, figure, show in means:
            value = f"{{'value': {{'numbers': {figure}, 'most': most}}, 'text': NULL, 'mark': doubtful}}"
            condition = f"(L, P) = {(logical, size)} AND len({figure}) > 0"
            columns.append((header or f"{logical} x {size}", at(condition, value), mean_of(show)))
    lists = ", ".join(f"list({figure}) FILTER (has_numbers AND {figure} > 0) AS {figure}" for _, figure, _ in means)
    source = f"""
        FROM (
            SELECT *, max(answered) OVER (PARTITION BY workload, workers, rank) AS most FROM (
                SELECT {PLACE}, rank, runner, {lists}, count(*) FILTER (has_numbers) AS answered,
                    bool_or(is_doubtful) AS doubtful
                FROM {BESIDE} GROUP BY {PLACE}, rank, runner)
        ) WHERE most > 0 GROUP BY workload, workers, rank, runner
        ORDER BY NOT plain(workload), workload, workers, rank"""
    notes = ["geometric means over the queries that an engine answered; columns are batches of L x P rounds"]
    table = db.table(name, f"Engines: {title}", columns, source, notes)
    if any(entry.text.removesuffix(MARK).endswith(")") for row in table.rows for entry in row[2:]):
        table.notes.append("(n): a mean over n queries alone, which is not comparable with those over more")
    if len(means) > 1:
        table.notes += [
            "to the fastest: the rate relative to that of the fastest engine with a plausible time for each query",
            *_clocks(db),
        ]
    return table


def mean_of(show: Format) -> Format:
    """Return the format of a geometric mean, with the number of its queries if it is less than usual."""

    def mean(value: dict[str, Any]) -> TableEntry:
        made, number = show(geomean(value["numbers"])), len(value["numbers"])
        return made if number == value["most"] else replace(made, text=f"{made.text} ({number})")

    return mean


def _by_query(db: Relations, workload: str, number: int, logical: int, size: int) -> Table:
    here = f"(c.workload, c.workers, c.L, c.P) = {literal((workload, number, logical, size))}"
    columns: list[Column] = [("query", "query", words)]
    for rank, runner in db.rows(f"SELECT DISTINCT rank, runner FROM {BESIDE} c WHERE {here} ORDER BY rank"):
        columns += [
            (runner, at(f"rank = {rank}", "shown(c, rate)"), rate),
            (TO_FASTEST, at(f"rank = {rank}", "shown(c, share)"), ratio),
        ]
    of = f"{logical} x {size}" + f", {number} workers" * (number > 1) + f", {workload}" * (workload not in PLAIN)
    name = f"engines {of}".replace(" x ", "x").replace(",", "").replace(" ", "-")
    source = f"FROM {BESIDE} c WHERE {here} GROUP BY query ORDER BY query"
    return db.table(name, f"Engines by query: tuples per second, {of}", columns, source)


def _clocks(db: Relations) -> Iterator[str]:
    """Describe the external engines: what those with a clock leave out of the time of the harness, and the CPU time
    outside the clock.
    """
    for (engine,) in db.rows("SELECT DISTINCT engine FROM latest ORDER BY engine"):
        records = [each for each in db.latest if each.engine == engine and each.has_numbers and each.external]
        own = [record for record in records if len(record.outside) == len(record.seconds)]
        name = f"{short_name(engine)} is {records[-1].external.name}" if records and records[-1].external else ""
        if own:
            share = median([1 - record.best / (record.of_fastest(record.outside) or math.nan) for record in own])
            yield f"{name}, timed by its own clock, which leaves out {share:.1%} (the pipe){_untimed(records)}"
        elif name:
            yield f"{name}, timed by the clock of the harness, with the pipe{_untimed(records)}"


def _untimed(records: Iterable[Record]) -> str:
    """Describe the CPU time of an external engine outside the clock; empty if it was not taken."""
    pairs = [(record.of_fastest(record.untimed_cpu), record.of_fastest(record.timed_cpu)) for record in records]
    shares = [untimed / timed for untimed, timed in pairs if untimed is not None and timed]
    return f"; its CPU time outside the clock is {ratio(median(shares)).text} that within" if shares else ""
