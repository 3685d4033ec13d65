"""Records of queries as rows of charts, and the words about a cell: its name, its tooltip and its commands.

The relations, for SQL, besides those of tables/relation.py:

- `looks`: the last records with `who` measured them: an engine with its number of workers, or of shards on Spark. Each
  has a look of its own: the color of its engine, and an outline for each number of workers.
- `charted`: the records that charts draw: right answers of default dataflows. An engine is drawn with one worker,
  because more workers have their own chart, unless it was only measured with several. Spark has no records with one
  worker, so it is drawn with each number of shards. Workloads with retractions have outlines of their own.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from deltamark.harness.benchmarks.benchmark import DEFAULT as BENCHMARK
from deltamark.harness.benchmarks.cell import DEFAULT_ENGINE
from deltamark.harness.console.table import TableEntry, brief, count, counted, listed, megabytes, rate
from deltamark.harness.engines.base import short_name
from deltamark.harness.engines.duckdb import DuckDBEngine
from deltamark.harness.measure.stats import geomean
from deltamark.harness.report.chart import COLORS, LOOKS, Frame, Look, Row, Tooltip
from deltamark.harness.results.plausibility import doubt_of
from deltamark.harness.results.record import PROJECT, Record
from deltamark.harness.tables.relation import Certified, Relations

VIEWS = f"""
CREATE TABLE looks AS SELECT *, CASE engine WHEN '{DuckDBEngine.name}' THEN 'DuckDB' ELSE short END
            || CASE WHEN only_recomputes THEN ', recomputing' ELSE '' END
            || CASE WHEN workers = 1 AND has_master THEN ', 1 shard' WHEN workers = 1 THEN ''
                ELSE ', ' || workers || CASE WHEN has_master THEN ' shards' ELSE ' workers' END END AS who,
        rank % {COLORS} AS color, (rank + rank // {COLORS}) % {LOOKS} AS own_outline,
        dense_rank() OVER (PARTITION BY plain(workload) ORDER BY workload DESC) - 1 AS work
    FROM latest;
CREATE TABLE charted AS SELECT *, CASE WHEN plain(workload)
            THEN (own_outline + dense_rank() OVER (PARTITION BY engine ORDER BY workers) - 1) % {LOOKS}
            ELSE {LOOKS - 1} - work % 2 END AS outline
    FROM (FROM looks WHERE has_numbers AND is_default
        QUALIFY workers = 1 OR NOT bool_or(workers = 1 AND NOT has_master) OVER (PARTITION BY engine));
"""


def report_relations(records: Iterable[Record], grades: Certified) -> Relations:
    db = Relations.of_queries(records, grades=grades)
    db.rows(VIEWS)
    return db


def engine_names(db: Relations) -> list[str]:
    """Return the engines, ours first."""
    return [engine for engine, _ in db.rows("SELECT DISTINCT engine, rank FROM latest ORDER BY rank")]


def chart_rows(  # noqa: PLR0913 (the columns of the table that a chart draws)
    db: Relations,
    source: str,
    *,
    value: str,
    frame: str = "query",
    x: str = "0",
    interval: str = "NULL",
    kind: str = "'solid'",
    series: str = "who",
    order: str = "[]",
    outline: str = "outline",
    number: str = "''",
    show: Callable[[Any], str] = str,
    more: str = "NULL",
    tip: Callable[[Record, Any], Tooltip] = lambda record, _: tooltip(record),
) -> list[Row]:
    """Return the rows of a chart, each of a record.

    source: the SQL after the columns, which are SQL, too. number: the value at the end of a strip, formatted by `show`.
    more: a value for `tip`.
    """
    found = db.rows(f"""
        SELECT id, {frame}, {number}, color, {outline}, {kind}, {series}, {value}, {x}, {interval}, {order}, {more}
        {source}""")
    return [
        Row(
            Frame(name, {"query": record.query}, show(number)), Look(color, shape), of_kind, words, keys_of(record), y,
            tip(record, for_tip), x_at, bar, tuple(place),
        )
        for at, name, number, color, shape, of_kind, words, y, x_at, bar, place, for_tip in found
        for record in [db.records[at]]
    ]  # fmt: skip


Means = Mapping[tuple[str, str], Mapping[str, float]]
"""A number for each query, or for each cell, by who measured it."""


def numbers_of(db: Relations, columns: str, source: str) -> Means:
    """Return numbers, ours first. columns: the SQL of the item and of the number."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for who, engine, item, number in db.rows(f"SELECT who, engine, {columns} {source}"):
        found.setdefault((who, engine), {})[item] = number
    return found


def engine_name(who: str, *more: str) -> str:
    """Name an engine and its number of workers without a comma: `spark-sql (recomputing, 2 shards)`."""
    name, *others = [*who.split(", "), *more]
    return f"{name} ({', '.join(others)})" if others else name


def side_by_side(found: Means, show: Callable[[float], TableEntry]) -> str:
    """Return the geometric means of all engines, such as `8M/s with embedded and 1M/s with DuckDB`.

    A mean over fewer queries than usual has their number.
    """
    most = max(map(len, found.values()))
    parts = []
    for (who, _), numbers in found.items():
        fewer = [f"over {len(numbers)}"] if len(numbers) < most else []
        mean = show(geomean(number for number in numbers.values() if number > 0))
        parts.append(f"{mean.text} with {engine_name(who, *fewer)}")
    return listed(parts)


def over(found: Means, noun: str = "queries") -> str:
    """Name the queries, or the cells, of the means of `side_by_side`."""
    names = max((list(numbers) for numbers in found.values()), key=len)
    return f"in the geometric mean of {len(names)} {noun}" if len(names) > 1 else f"for {names[0]}"


VERIFIED = {"oracle": "answers equal DuckDB's", "digest": "same change stream as a cell whose answers equal DuckDB's"}


def tooltip(record: Record) -> Tooltip:
    p50, p99, slowest = (brief(record.latency[part]).text for part in ("p50", "p99", "max"))
    lines = (
        f"{rate(record.rate).text}: {count(record.tuples).text} tuples in {brief(record.best).text}",
        f"the fastest of {counted(len(record.seconds), 'run')}; a batch p50 {p50}, p99 {p99}, at most {slowest}",
        f"state {count(record.state_rows).text} rows, {megabytes(record.state_bytes).text} MB",
        VERIFIED.get(record.verified, "not verified"),
        *([f"the time is not plausible: {doubt}"] if (doubt := doubt_of(record)) else []),
    )
    return Tooltip(title(record), lines, command(record))


def title(record: Record) -> str:
    """Name a cell in words."""
    workers = f", {record.workers} workers" if record.workers > 1 else ""
    variant = "" if record.is_default else f" ({record.variant})"
    work = "" if record.is_plain else f", {record.workload}"
    return f"{record.query}{variant}{work}, {record.logical} x {record.physical}, {short_name(record.engine)}{workers}"


def command(record: Record, queries: str = "") -> str:
    """Return the command that measures a cell again, in another directory: in the same one the cell is done.

    queries: others that are measured, too.

    For REPO it has the name of the repository, whose directory is not known.
    """
    settings = {
        "BENCHMARK": shlex.quote(record.benchmark), "SF": record.sf, "QUERIES": queries or record.query,
        "VARIANTS": "" if record.is_default else record.variant,
        "WORKLOAD": record.workload, "LOGICAL": record.logical, "PHYSICAL": record.physical,
        "WORKERS": record.workers, "ENGINES": shlex.quote(record.engine), "SAMPLE": record.sample,
        "REPO": shlex.quote(record.repository), "RESULTS": "again",
    }  # fmt: skip
    return _command(
        "make bench",
        settings,
        {"BENCHMARK": BENCHMARK, "VARIANTS": "", "WORKLOAD": "insert", "WORKERS": 1, "REPO": PROJECT},
    )


def compare_command(before: Record, after: Record) -> str:
    """Return the command that compares two commits by a cell; only our engine over TPC-H has a past."""
    base, head = (record.commit.removesuffix("+") for record in (before, after))
    if before.engine != DEFAULT_ENGINE or before.benchmark != BENCHMARK:
        return f"git log --oneline {base}..{head}"
    settings = {
        "BASE": base, "HEAD": head, "SF": before.sf, "QUERIES": before.query,
        "VARIANT": "" if before.is_default else before.variant, "WORKLOAD": before.workload,
        "LOGICAL": before.logical, "PHYSICAL": before.physical, "WORKERS": before.workers,
    }  # fmt: skip
    return _command("make compare", settings, {"VARIANT": "", "LOGICAL": 1, "WORKERS": 1})


def _command(program: str, settings: Mapping[str, object], defaults: Mapping[str, object]) -> str:
    """Return a command with the settings that are not its defaults."""
    words = (f"{name}={value}" for name, value in settings.items() if value != defaults.get(name))
    return " ".join([program, *words])


def keys_of(record: Record) -> dict[str, str]:
    return {"query": record.query, "engine": record.engine, "workload": record.workload}


def choices(records: Iterable[Record], engines: Sequence[str]) -> dict[str, Sequence[str]]:
    """Return the values of the filters that some record has."""
    records = list(records)
    return {
        "query": sorted({record.query for record in records}), "engine": engines,
        "workload": sorted({record.workload for record in records}),
    }  # fmt: skip
