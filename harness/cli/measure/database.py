"""The command that measures a database: the latency of an INSERT, and the throughput of `insert`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamark.database.connection import Connection, connect
from deltamark.database.files import MEMORY
from deltamark.database.subscriptions import Subscription
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.sql.arrow_tables import arrow_batch
from deltamark.dataflow.sql.query import sql
from deltamark.dataflow.sql.tables import sql_tables
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.scratch import scratch
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import DEFAULT, Benchmark, benchmark
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.oracle import sql_values
from deltamark.harness.cli.commands import command
from deltamark.harness.cli.data.data import ensure
from deltamark.harness.cli.options import add_data, whole
from deltamark.harness.cli.parser import Parser
from deltamark.harness.console.console import say
from deltamark.harness.console.progress import ensure_compiled
from deltamark.harness.console.table import Entries, Table, brief, count, rate, ratio, text, words
from deltamark.harness.measure.stats import median, percentile
from deltamark.harness.system.clock import Stopwatch, without_collections

TABLE, FIRST_VIEW = "lineitem", "q01"
"""The table of TPC-H that gets rows, and the query that is the only view at first."""

WARM_UP = 30
"""Inserts that are not timed. Not tuned."""

RECOMPUTED = 3
"""Times that DuckDB computes the answers; the fastest counts."""

SALES = "CREATE TABLE sales (shop INTEGER NOT NULL, price DECIMAL(9, 2) NOT NULL)"
REVENUE = "SELECT shop, sum(price) AS revenue, count(*) AS n FROM sales GROUP BY shop"

SHOPS = 1000
BATCHES = {1: 600, 1000: 200, 10_000: 60, 100_000: 20}
"""The batches of each number of rows. Not tuned."""

PIECES = 10
"""The pieces into which batches are divided: each is inserted and fed, in alternation."""


def _add_settings(parser: Parser) -> None:
    text = "rows that are inserted and timed, for each number of views"
    parser.add_argument("--times", type=whole(10, 10**6), default=500, help=text)


@command("bench-database", add_data, _add_settings)
def bench_database(args: Namespace) -> int:
    """Measure the latency of an INSERT in a database, and the throughput of insert beside that of Dataflow.feed.

    The latency is that of one row of lineitem of TPC-H, until the changes of all subscribed views are read: for one
    view and for 22, in memory and in a durable file, beside DuckDB computing the answers again on one thread.
    """
    if args.benchmark != DEFAULT:
        raise DeltamarkError("a benchmark without these tables", args.benchmark, f"leave BENCHMARK={DEFAULT}")
    dataset, home = ensure(args), benchmark(args.benchmark)
    ensure_compiled()
    queries = {name: Cell(name, str(args.sf)).sql for name in home.queries}
    rows = list(_latencies(dataset, home, queries, args.times))
    headers = ["views", "file", "p50", "p99", "CPU p50", "CPU p99", "DuckDB again"]
    say(f"\n{text(Table('latency', 'Time from an INSERT of one row to the changes of all views', headers, rows))}")
    rows = [_throughput(size, batches) for size, batches in BATCHES.items()]
    headers = ["rows of a batch", "batches", "insert", "feed", "with keep", "insert / feed", "insert / with keep"]
    title = (
        "Rows of Arrow per second of CPU: insert, and the same batches in Dataflow.feed, also if it keeps the answer"
    )
    say(f"\n{text(Table('throughput', title, headers, rows))}")
    return 0


def _latencies(dataset: Dataset, home: Benchmark, queries: dict[str, str], times: int) -> Iterator[Entries]:
    for views in ({FIRST_VIEW: queries[FIRST_VIEW]}, queries):
        for file in ("in memory", "durable"):
            with scratch() as folder, _filled(dataset, home, None if file == "in memory" else folder) as con:
                found = _latency(con, views, times)
            again = _recomputed(dataset, home, views)
            entries = [
                brief(percentile(sorted(each), percent)) for each in (found.wall, found.cpu) for percent in (50, 99)
            ]
            yield [count(len(views)), words(file), *entries, brief(again)]


@contextmanager
def _filled(dataset: Dataset, home: Benchmark, folder: Path | None) -> Iterator[Connection]:
    """Open a database with the tables of TPC-H."""
    path = MEMORY if folder is None else str(folder / "bench.db")
    with connect(path, durable=folder is not None) as con:
        for name in home.relations:
            con.register("stored", dataset.table(name))
            con.execute(_table(dataset, name))
            con.unregister("stored")
        yield con


def _table(dataset: Dataset, name: str) -> str:
    """Return the statement that makes a table of stored rows."""
    relation = dataset.relations[name]
    columns = sql_values(relation, [each.name for each in relation.columns])
    return f"CREATE TABLE {name} AS SELECT {columns} FROM stored"  # noqa: S608 (names of ours)


@dataclass(frozen=True)
class Laps:
    """The seconds of each insert, on the wall and of the CPU."""

    wall: list[float]
    cpu: list[float]


def _latency(con: Connection, views: dict[str, str], times: int) -> Laps:
    """Insert copies of rows, and read the changes of views behind each."""
    found, statement = Laps([], []), ""
    rows = con.execute(f"FROM {TABLE} LIMIT {times + WARM_UP}").fetchall()
    with ExitStack() as open_, without_collections():
        for name, query in views.items():
            con.execute(f"CREATE VIEW {name} AS {query}")
        followed = [open_.enter_context(con.subscribe(name)) for name in views]
        statement = f"INSERT INTO {TABLE} VALUES ({', '.join('?' * len(rows[0]))})"  # noqa: S608 (names of ours)
        for number in range(times + WARM_UP):
            with Stopwatch() as watch:
                con.execute(statement, rows[number % len(rows)])
                _read(followed)
            if number >= WARM_UP:
                found.wall.append(watch.seconds)
                found.cpu.append(watch.cpu)
    return found


def _read(followed: Sequence[Subscription]) -> None:
    for each in followed:
        while (changes := each.read(timeout=0)) is not None:
            changes.arrow()


def _recomputed(dataset: Dataset, home: Benchmark, views: dict[str, str]) -> float:
    """Return the seconds in which DuckDB computes the answers of views."""
    with duckdb.connect(config={"threads": 1}) as plain:
        for name in home.relations:
            plain.register("stored", dataset.table(name))
            plain.execute(_table(dataset, name))
        watch = Stopwatch()
        for _ in range(RECOMPUTED):
            with watch:
                for query in views.values():
                    plain.execute(query).fetchall()
    return min(watch.laps)


def _throughput(size: int, batches: int) -> Entries:
    """Insert batches and feed them, in alternation; return the rates, and the medians of their ratios."""
    rng = np.random.default_rng(1)
    tables = sql_tables(SALES)
    rows = [_sales(rng, size) for _ in range(batches)]
    with connect() as con, Dataflow(sql(REVENUE, tables)) as plain, Dataflow(sql(REVENUE, tables)) as keeping:
        con.execute(f"{SALES}; CREATE VIEW revenue AS {REVENUE}")
        keeping.keep()
        schema = tables["sales"].schema
        ways: list[Callable[[int], object]] = [
            lambda number: con.insert("sales", rows[number]),
            lambda number: plain.feed({"sales": arrow_batch(rows[number], schema, number)}),
            lambda number: keeping.feed({"sales": arrow_batch(rows[number], schema, number)}),
        ]
        seconds = [_cpu_of(ways, piece.tolist()) for piece in np.array_split(np.arange(batches), PIECES)]
        _compare(con, batches * size)
    insert, feed, keep = zip(*seconds, strict=True)
    rates = [rate(batches * size / sum(each)) for each in (insert, feed, keep)]
    shares = [median([fed / put for put, fed in zip(insert, each, strict=True)]) for each in (feed, keep)]
    return [count(size), count(batches), *rates, *map(ratio, shares)]


def _cpu_of(ways: Sequence[Callable[[int], object]], numbers: Sequence[int]) -> list[float]:
    """Return the CPU seconds in which each way takes some batches."""
    watches = [Stopwatch() for _ in ways]
    with without_collections():
        for watch, take in zip(watches, ways, strict=True):
            with watch:
                for number in numbers:
                    take(number)
    return [each.cpu for each in watches]


def _sales(rng: np.random.Generator, size: int) -> pa.Table:
    shops, prices = rng.integers(0, SHOPS, size, np.int32), rng.integers(100, 100_000, size)
    cents = pc.multiply(pa.array(prices).cast(pa.decimal128(19, 0)), Decimal("0.01"))
    return pa.table({"shop": shops, "price": cents.cast(pa.decimal128(9, 2))})


def _compare(con: Connection, rows: int) -> None:
    """Refuse a measurement in which rows were lost."""
    (found,) = con.execute("SELECT sum(n)::BIGINT FROM revenue").fetchall()[0]
    if found != rows:
        raise DeltamarkError("a view with other rows", f"{found:,}, not {rows:,}", "run make check")
