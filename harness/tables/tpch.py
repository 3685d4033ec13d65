"""The tables of the queries of a benchmark: those of the post, and ours. comparisons.py has those of engines."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from deltamark.datagen.workloads.registry import KINDS, PLAIN, meanings
from deltamark.harness.benchmarks.cell import COARSE, CROSSOVER, FINE, ON_SPARK, PHYSICAL, PRODUCT, SMALL, Batching
from deltamark.harness.console.table import (
    MARK,
    NOTHING,
    Table,
    TableEntry,
    brief,
    count,
    counted,
    megabytes,
    rate,
    ratio,
    words,
)
from deltamark.harness.engines.base import short_name
from deltamark.harness.engines.spark import SparkEngine
from deltamark.harness.engines.spark_sql import SparkSqlEngine
from deltamark.harness.measure.stats import geomean
from deltamark.harness.results import published
from deltamark.harness.results.plausibility import doubt_of
from deltamark.harness.results.record import SPREAD, Record
from deltamark.harness.tables.comparisons import COMPARED, SUFFIX, beside_published, mean_of, side_by_side
from deltamark.harness.tables.cost import cost_tables
from deltamark.harness.tables.findings import findings_tables
from deltamark.harness.tables.relation import Column, Relations, at, listed, literal, without_mean
from deltamark.queries.sql_text import VARIANT

FASTEST = "the fastest of the timed runs; if only a sample was timed, its rate"
PEAK: Column = ("peak rate", "arg_max(shown(c, c.rate), c.rate)", rate)


def tables(records: Iterable[Record], sf: str) -> list[Table]:
    """Make the non-empty tables of a benchmark at a scale factor."""
    return made_tables(Relations.of_queries(of_scale(records, sf)), sf)


def of_scale(records: Iterable[Record], sf: str) -> list[Record]:
    return [record for record in records if record.sf == sf]


def made_tables(db: Relations, sf: str) -> list[Table]:
    """Make the tables of the records of a scale factor."""
    if not db.latest:
        return []
    candidates = [
        *findings_tables(db.records), *side_by_side(db), *cost_tables(db), physical(db), product(db), *workers(db),
        variants(db), from_sql(db), small(db), latency(db), *workloads(db), crossover(db), load(db), state(db),
        spread(db), others(db), distributed(db),
        *(beside_published(db, sf, *each) for each in COMPARED if db.is_published),
    ]  # fmt: skip
    return [with_reasons(table, db.latest) for table in candidates if table.rows]


def has(batching: Batching, more: str = "") -> str:
    """Return the condition that a cell has a batching."""
    return f"c.L = {batching[0]} AND c.P = {batching[1]}{more}"


def whole(value: dict[str, Any]) -> TableEntry:
    """Format the seconds of a fully timed stream, or the rate of a sampled one."""
    number: float | None = value["number"]
    return NOTHING if number is None else brief(number) if value["is_time"] else rate(number)


def by_batching(batchings: Iterable[Batching], headers: Iterable[str]) -> list[Column]:
    """Return a column for each batching, with the time of the whole stream."""
    return [(header, at(has(each), "c.whole"), whole) for each, header in zip(batchings, headers, strict=True)]


def single(batchings: Sequence[Batching]) -> str:
    """Select queries and engines with records at some batchings; other engines only outside of CROSSOVER."""
    return f"""
        FROM single c LEFT JOIN hot_dogs USING (query) WHERE (L, P) IN {listed(batchings)}
        GROUP BY rank, engine, query, name HAVING bool_or(ours OR (L, P) NOT IN {listed(CROSSOVER)})
        ORDER BY rank, query"""


def cutting(db: Relations, source: str) -> list[str]:
    """Return a note about the time for cutting batches, which the engines' times do not include."""
    ((low, high),) = db.rows(f"""
        SELECT min(low), max(high) FROM (SELECT min(c.cut) FILTER (has_numbers) AS low,
            max(c.cut) FILTER (has_numbers) AS high {source})""")
    if low is None:
        return []
    return [f"not included: cutting the batches and making their times, {brief(low).text} to {brief(high).text}"]


def physical(db: Relations) -> Table:
    """Make the table `1,000 10,000 100,000 1,000,000 peak rate hot dog`."""
    source = single(PHYSICAL)
    notes = [FASTEST, *cutting(db, source)]
    columns: list[Column] = [
        ("query", "name", words), *by_batching(PHYSICAL, PHYSICAL_HEADERS), PEAK,
    ]  # fmt: skip
    if db.is_published:
        columns.append(("hot dog", "any_value(hot_dog)", rate))
        notes.append(published.sources()["hot-dog"].label)
    title = "Physical batches: seconds for the whole stream, L = 1"
    return db.table("physical", title, columns, source, notes, has_foot=True)


PHYSICAL_HEADERS = [f"{size:,}" for _, size in PHYSICAL]


def product(db: Relations) -> Table:
    """Make the table of six columns L x P with the product 100,000."""
    source = single(PRODUCT)
    columns: list[Column] = [
        ("query", "name", words),
        *by_batching(PRODUCT, [f"{each[0]} x {each[1]}" for each in PRODUCT]),
        PEAK,
    ]
    title = "Logical x physical batches: seconds for the whole stream, L x P = 100,000"
    return db.table("product", title, columns, source, [FASTEST, *cutting(db, source)], has_foot=True)


SEVERAL = "workers > 1 AND is_default AND plain(workload)"
COST = (
    "COST: the fewest workers that beat one thread of DuckDB recomputing after each batch; "
    "for other engines: that beat one worker of ours"
)


def workers(db: Relations) -> list[Table]:
    """Make the tables of several workers: at 100000 x 1, and at each other measured batching."""
    found = db.rows(f"SELECT DISTINCT logical, physical FROM latest WHERE {SEVERAL} ORDER BY ALL")
    return [_workers(db, each) for each in [COARSE, *(each for each in found if each != COARSE)]]


def _workers(db: Relations, batching: Batching) -> Table:
    """Make the table of a batching. Cells with one number of shards are in the table of Spark."""
    logical, size = batching
    several = f"FROM latest WHERE {SEVERAL} AND (logical, physical) = {batching}"
    numbers = sorted({1} | {number for (number,) in db.rows(f"SELECT DISTINCT workers {several}")})
    source = f"""
        FROM cells c SEMI JOIN (SELECT engine, query {several}) USING (engine, query) LEFT JOIN (
            SELECT query, false AS of_ours, rate FROM single c WHERE ours AND {has(batching)}
            UNION ALL SELECT query, true, rate FROM recomputed WHERE rounds = {logical * size}
        ) rival ON rival.query = c.query AND rival.of_ours = c.ours
        WHERE dataflow = '' AND plain(workload) AND {has(batching)} AND workers IN {listed(numbers)}
        GROUP BY rank, engine, c.query, name
        HAVING NOT (count(*) = 1 AND bool_or(has_master) AND {batching in ON_SPARK}) ORDER BY rank, c.query"""
    gain = "max(c.rate) FILTER (workers > 1) / any_value(c.rate) FILTER (workers = 1)"
    beating = "[min(workers) FILTER (c.rate > rival.rate), max(workers)]"
    header = f"{logical} x {size}"
    columns: list[Column] = [
        ("query", "name", words),
        *((header + f" -w{n}" * (n > 1), at(f"workers = {n}", "c.whole"), whole) for n in numbers),
        PEAK, ("improvement", gain, ratio),
        ("COST", f"CASE WHEN any_value(rival.rate) IS NOT NULL THEN {beating} END", _fewest),
    ]  # fmt: skip
    name = "workers" if batching == COARSE else f"workers-{logical}x{size}"
    return db.table(
        name, f"Workers: seconds for the whole stream, {header}", columns, source, [FASTEST, COST], has_foot=True
    )


def _fewest(beating: Sequence[int]) -> TableEntry:
    fewest, most = beating
    return TableEntry(f"more than {most}", math.inf) if fewest is None else TableEntry(str(fewest), fewest)


def variants(db: Relations) -> Table:
    """Make the table of the variants of queries beside those of the post, the default one first."""
    figures = [figure for figure in published.figures() if figure.table == "physical"]
    labels = {(figure.query, figure.variant): figure.label for figure in figures}
    columns: list[Column] = [
        ("query", "query || ' ' || variant", words), *by_batching(PHYSICAL, PHYSICAL_HEADERS), PEAK,
        ("the post's", "[query, variant]", lambda dataflow: words(labels.get(tuple(dataflow), ""))),
    ]  # fmt: skip
    source = f"""
        FROM (
            SELECT DISTINCT query, is_default, variant, count(*) OVER (PARTITION BY query) AS number
            FROM (SELECT DISTINCT query, is_default, variant FROM latest WHERE ours)
        ) LEFT JOIN (
            SELECT dataflow AS variant, * EXCLUDE (variant, is_default) FROM cells
            WHERE ours AND workers = 1 AND plain(workload) AND (L, P) IN {listed(PHYSICAL)}
        ) c USING (query, variant)
        WHERE number > 1 GROUP BY query, is_default, variant ORDER BY query, NOT is_default, variant"""
    notes = [FASTEST, "the other tables show the first dataflow of a query"]
    return db.table("variants", "Dataflows of one query: seconds for the whole stream, L = 1", columns, source, notes)


FROM_SQL: tuple[Batching, ...] = ((1, 1), (1, 1000), (1, 100_000), COARSE)


def from_sql(db: Relations) -> Table:
    """Make the table of the dataflows that are made of SQL, beside those written by hand, with the ratio of times."""
    written, made = (f" AND dataflow = '{variant}'" for variant in ("", VARIANT))
    columns: list[Column] = [("query", "query", words)]
    for each in FROM_SQL:
        slower = f"{at(has(each, written), 'c.rate')} / {at(has(each, made), 'c.rate')}"
        header = f"{each[0]} x {each[1]:,}"
        columns += [
            (header, at(has(each, written), "c.whole"), whole),
            (f"{header} from SQL", at(has(each, made), "c.whole"), whole), (f"{header} ratio", slower, ratio),
        ]  # fmt: skip
    source = f"""
        FROM cells c WHERE ours AND workers = 1 AND plain(workload) AND (L, P) IN {listed(FROM_SQL)}
        GROUP BY query HAVING bool_or(dataflow = '{VARIANT}') ORDER BY query"""
    title = "Dataflows from SQL, beside those written by hand: seconds for the whole stream, or tuples a second"
    notes = ["ratio: how much longer the dataflow from SQL takes"]
    return db.table("sql", title, columns, source, notes, has_foot=True)


def small(db: Relations) -> Table:
    """Make the table of rates at P = 1, 10 and 100 beside the hot dog column."""
    columns: list[Column] = [
        ("query", "name", words), *((f"{each[1]:,}", at(has(each), "shown(c, c.rate)"), rate) for each in SMALL),
    ]  # fmt: skip
    notes = ["only windows spread over the stream are timed"]
    if db.is_published:
        columns += [
            ("hot dog", "any_value(hot_dog)", rate), ("ratio", at(has(SMALL[0]), "shown(c, c.rate / hot_dog)"), ratio),
        ]  # fmt: skip
        notes.append(published.sources()["hot-dog"].label + "; ratio: ours at 1 to theirs")
    return db.table("small", "Small batches: tuples per second, L = 1", columns, single(SMALL), notes, has_foot=True)


LATENCY = (SMALL[0], PHYSICAL[0], FINE)


def latency(db: Relations) -> Table:
    """Make the table of batch latencies."""
    columns: list[Column] = [("query", "name", words)] + [
        (f"{part} {each[1]:,}", at(has(each), f'shown(c, c."{part}")'), brief) for each in LATENCY for part in SPREAD
    ]
    title = "Latency of a batch of 1, 1,000 and 100,000 rounds, L = 1"
    notes = ["batches of the fastest run; at 1, those of windows spread over the stream"]
    return db.table("latency", title, columns, single(LATENCY), notes, has_foot=True)


def workloads(db: Relations) -> Iterator[Table]:
    """Make the tables of workloads: by query, and the means of several engines."""
    found = db.rows("""
        SELECT DISTINCT workload, physical FROM latest
        WHERE NOT plain(workload) AND workers = 1 AND logical = 1 AND is_default""")
    streams = sorted(found, key=_order)
    names = [name if size == FINE[1] else f"{name}, 1 x {size}" for name, size in streams]
    conditions = [f"c.workload = {literal(name)} AND c.P = {size}" for name, size in streams]
    source = f"""
        FROM cells c LEFT JOIN single i ON i.engine = c.engine AND i.query = c.query AND (i.L, i.P) = {FINE}
        WHERE c.dataflow = '' AND c.workers = 1 AND c.L = 1 AND (c.workload, c.P) IN {listed(streams)}"""
    columns: list[Column] = [
        ("query", "c.name", words), ("insert", "any_value(shown(i, i.rate))", rate),
        *((name, at(each, "shown(c, c.rate / i.rate)"), ratio) for name, each in zip(names, conditions, strict=True)),
    ]  # fmt: skip
    notes = [
        meanings(workload for workload, _ in streams),
        "insert: tuples per second, 1 x 100000; others: rates relative to it, which count deletions like insertions",
        "a load is not timed, except that of refresh; -: nothing changes after the load, or not measured",
    ]
    by_query = "GROUP BY c.rank, c.engine, c.query, c.name ORDER BY c.rank, c.query"
    yield db.table("workloads", "Workloads: rates relative to insert", columns, f"{source} {by_query}", notes)
    known = "c.rate / i.rate IS NOT NULL"
    means: list[Column] = [("engine", "any_value(c.short)", words)] + [
        (name, f"list(c.rate / i.rate) FILTER ({condition} AND {known})", lambda rates: ratio(geomean(rates)))
        for name, condition in zip(names, conditions, strict=True)
    ]
    title = "Workloads: rates relative to insert, geometric means over queries"
    notes = [notes[0], "over the queries with both rates"]
    yield db.table("workload-means", title, means, f"{source} GROUP BY c.rank, c.engine ORDER BY c.rank", notes)


def _order(stream: tuple[str, int]) -> tuple[int, tuple[str, int]]:
    """Return the position of a workload among the columns: kinds that newer code has recorded come last."""
    kind = stream[0].partition(":")[0]
    return [*KINDS, kind].index(kind), stream


def crossover(db: Relations) -> Table:
    """Make the table of batch times when maintained and when recomputed, with the batch size at which they cross."""
    columns: list[Column] = [("query", "c.name", words)]
    for logical, size in CROSSOVER:
        columns += [
            (f"maintained {logical:,}", at(has((logical, size)), "shown(c, c.batch_seconds)"), brief),
            (f"recomputed {logical:,}", at(f"r.rounds = {logical}", "shown(r, r.batch_seconds)"), brief),
        ]
    points = """
        list([c.logical * c.physical, r.batch_seconds / c.batch_seconds] ORDER BY c.L)
        FILTER (c.L = r.rounds AND c.has_numbers AND r.has_numbers)"""
    sizes = listed(logical for logical, _ in CROSSOVER)
    source = f"""
        FROM single c LEFT JOIN recomputed r ON r.query = c.query AND r.rounds IN {sizes}
        WHERE NOT c.recomputes AND (c.L, c.P) IN {listed(CROSSOVER)}
        GROUP BY c.rank, c.engine, c.query, c.name ORDER BY c.rank, c.query"""
    title = "Maintaining against recomputing with DuckDB: time of a batch, P = 1, L = batch size"
    notes = ["crossover: the batch size in rounds above which recomputing is faster, interpolated on log axes"]
    columns.append(("crossover", points, crossover_size))
    return db.table("crossover", title, columns, source, notes, has_foot=True)


def crossover_size(points: Sequence[Sequence[float]]) -> TableEntry:
    """Interpolate the size above which a ratio (recomputed / maintained), known at some sizes, stays below 1."""
    at_least = max((index for index, (_, share) in enumerate(points) if share >= 1), default=-1)
    if at_least == -1:
        return TableEntry(f"below {points[0][0]:,.0f}", 0.0)
    if at_least == len(points) - 1:
        return TableEntry(f"above {points[-1][0]:,.0f}", math.inf)
    (size, share), (next_size, next_share) = points[at_least], points[at_least + 1]
    part = math.log(share) / (math.log(share) - math.log(next_share))
    return count(round(math.exp(math.log(size) + part * math.log(next_size / size)), -1))


def load(db: Relations) -> Table:
    """Make the table of the whole stream beside the query once, with the additional cost of small batches."""
    coarse, fine, least = COARSE, FINE, PHYSICAL[0]
    costs, times = (f"({at(has(each), 'c.best')})" for each in (least, fine)), at(has(least), "c.batches")
    small_cost, fine_cost = costs
    cost = f"{small_cost} > {fine_cost} AND {at(has(least), 'c.fully_timed')}"
    columns: list[Column] = [("query", "query", words), ("DuckDB once", "any_value(once)", brief)]
    for header, ratio_header, each in (("100000 x 1", "ratio", coarse), ("1 x 100000", "ratio, 1 x 100000", fine)):
        columns += [
            (header, at(has(each), "shown(c, c.best)"), brief),
            (ratio_header, at(has(each), "shown(c, c.best / once)"), ratio),
        ]
    batch = f"CASE WHEN {cost} THEN ({small_cost} - {fine_cost}) / {times} END"
    columns.append(("cost per batch, 1 x 1000", batch, without_mean(brief)))
    source = f"""
        FROM single c JOIN (
            SELECT query, arg_max(oracle_seconds, cell) AS once FROM latest
            WHERE plain(workload) AND oracle_seconds > 0 GROUP BY query
        ) USING (query) WHERE ours GROUP BY query
        HAVING bool_or((L, P) IN {listed((coarse, fine))}) ORDER BY query"""
    return db.table(
        "load", "Maintaining over the whole stream, against running the query once in DuckDB with one thread",
        columns, source,
        [
            "DuckDB once: the query over all rows, already loaded; ratio: the time of all batches relative to it",
            "cost per batch, without that of its rows: (time at 1 x 1000 - time at 1 x 100000) / batches",
        ],
        has_foot=True,
    )  # fmt: skip


def state(db: Relations) -> Table:
    """Make the table of state at the end of the stream."""
    columns: list[Column] = [
        ("query", "name", words), ("tuples in", "shown(c, tuples)", count),
        ("state rows", "shown(c, state_rows)", count), ("state MB", "shown(c, state_bytes)", megabytes),
        ("bytes per row", "shown(c, row_bytes(state_bytes, state_rows))", count),
        ("peak MB", "shown(c, peak_bytes)", megabytes), ("changes out", "shown(c, changes)", count),
    ]  # fmt: skip
    source = f"""
        FROM single c WHERE (L, P) IN {listed((FINE, COARSE))}
        QUALIFY row_number() OVER (PARTITION BY engine, query ORDER BY L) = 1 ORDER BY rank, query"""
    return db.table(
        "state", "State and memory at the end of the stream, 1 x 100000 (or 100000 x 1 if that was not measured)",
        columns, source,
        [
            "state MB: memory of the state at the end; changes out: if recomputed, the rows of all answers",
            "peak MB: the peak memory of the process, including Python, kernels and pages of mapped files",
        ],
    )  # fmt: skip


def spread(db: Relations) -> Table:
    """Make the table of the noise in the times: the slowest run of a cell, and the first, relative to the fastest."""
    columns: list[Column] = [
        ("query", "name", words), ("cells", "count(*)", count), ("runs", "max(runs)", count),
        ("first / fastest", "median(first)", ratio), ("slowest / fastest", "median(ratio)", ratio),
        ("largest", "max(ratio)", ratio),
        ("largest at", f"arg_max(logical || ' x ' || physical || {SUFFIX}, ratio)", words),
    ]  # fmt: skip
    source = """
        FROM (
            SELECT *, len(figures['seconds']) AS runs, list_max(figures['seconds']) / best AS ratio,
                figures['seconds'][1] / best AS first FROM latest WHERE has_numbers
        ) WHERE runs > 1 GROUP BY rank, engine, query, name ORDER BY rank, query"""
    title = "Spread: the slowest of the timed runs of a cell relative to the fastest"
    notes = [
        "runs: at most; medians over all cells with several runs; the other tables have the fastest run",
        "first: the run with fresh memory, as in a new process; later runs of our engine use that of earlier ones",
    ]
    return db.table("spread", title, columns, source, notes, has_foot=True)


OTHERS = f"""
    FROM latest c WHERE NOT CASE WHEN NOT plain(workload) THEN false
        WHEN is_default THEN workers > 1 OR (logical, physical) IN {listed({*PHYSICAL, *PRODUCT, *SMALL, *CROSSOVER})}
        ELSE ours AND workers = 1 AND (logical, physical) IN {listed(PHYSICAL)} END"""
"""The records that no other table has a column for."""


def others(db: Relations) -> Table:
    columns: list[Column] = [("query", "dataflow_name", words)]
    for workload, logical, size, number in db.rows(
        f"SELECT DISTINCT workload, logical, physical, workers {OTHERS} ORDER BY ALL"
    ):
        header = f"{workload} " * (workload not in PLAIN) + f"{logical} x {size}" + f" -w{number}" * (number > 1)
        cell = f"(workload, logical, physical, workers) = {literal((workload, logical, size, number))}"
        columns.append((header, f"arg_max(c.whole, cell) FILTER ({cell})", whole))
    title = "Other batches and workloads: seconds for the whole stream, or tuples per second"
    source = f"{OTHERS} GROUP BY dataflow_name ORDER BY dataflow_name"
    return db.table("others", title, [*columns, PEAK], source, [FASTEST])


def distributed(db: Relations) -> Table:
    """Make the table of batch times: embedded, on Spark, and recomputed on Spark, if possible of one commit."""
    spark, spark_sql = SparkEngine.name, SparkSqlEngine.name
    ((shards,),) = db.rows(f"SELECT coalesce(max(workers), 0) FROM latest WHERE engine = '{spark}'")
    traced = """CASE WHEN len(again.figures['trace_rows']) > 0 AND again.has_numbers AND spark.has_numbers
        THEN {'rows': again.figures['trace_rows'], 'seconds': again.figures['trace_seconds'],
            'median': spark.p50} END"""
    stored_bytes = "CASE WHEN spark.state_rows > 0 THEN spark.state_bytes END"
    columns: list[Column] = [("query", "query", words)]
    for size, _ in ON_SPARK:
        for header, value, form in (
            ("embedded", "shown(own, own.p50)", brief), ("Spark", "shown(spark, spark.p50)", brief),
            ("recomputed", "shown(again, again.p50)", brief),
            ("price", "spark.batch_seconds / own.batch_seconds", ratio),
            ("gain", "again.batch_seconds / spark.batch_seconds", ratio),
            ("wins from", traced, _winning),
            ("p99 / median", "shown(spark, spark.p99 / spark.p50)", ratio),
            ("state rows", "shown(spark, nullif(spark.state_rows, 0))", count),
            ("state MB", f"shown(spark, {stored_bytes})", without_mean(megabytes)),
        ):  # fmt: skip
            columns.append((f"{header} {size:,}", at(f"L = {size}", value), form))
    source = f"""
        FROM (
            SELECT query, L, spark, coalesce(one.record, embedded) AS own, coalesce(two.record, recomputed) AS again
            FROM (
                SELECT query, L, any_value(r) FILTER (ours AND workers = 1) AS embedded,
                    any_value(r) FILTER (engine = '{spark}' AND workers = {shards}) AS spark,
                    any_value(r) FILTER (engine = '{spark_sql}' AND workers = {shards}) AS recomputed
                FROM (SELECT L, P, dataflow, id FROM cells) JOIN records r USING (id)
                WHERE dataflow = '' AND plain(workload) AND (L, P) IN {listed(ON_SPARK)} GROUP BY query, L
            )
            LEFT JOIN by_commit one ON one.cell = embedded.cell AND one.commit = spark.commit
            LEFT JOIN by_commit two ON two.cell = recomputed.cell AND two.commit = spark.commit
        ) WHERE {shards} > 0 GROUP BY query HAVING bool_or(spark IS NOT NULL OR again IS NOT NULL) ORDER BY query"""
    return db.table(
        "distributed", f"On Spark, {shards} shards: median seconds of a batch, P = 1, L = batch size", columns, source,
        [
            "embedded: one worker; recomputed: the batch appended to Parquet files, the query's SQL over the live rows",
            "price: Spark / embedded, gain: recomputed / Spark, both by the mean of all timed batches",
            "wins from: the number of rows after which recomputing always takes longer than Spark's median batch",
            "p99 / median: of Spark's batches; state: in the logs of all shards, after the last batch",
        ],
        has_foot=True,
    )  # fmt: skip


def _winning(traced: dict[str, Any]) -> TableEntry:
    """Return the number of rows after which recomputing always takes longer than Spark's median batch."""
    lost = max((at for at, seconds in enumerate(traced["seconds"]) if seconds <= traced["median"]), default=-1)
    return count(traced["rows"][lost + 1]) if lost + 1 < len(traced["rows"]) else TableEntry("never", math.inf)


GROWTH = "growth"

SCALE_FACTORS = ("0.1", "1", "10")
"""The scale factors that a note of the table of growth names while they have no records."""


def bench_command(sf: str) -> str:
    """Return the command that measures the cells of the table of growth at a scale factor."""
    return f"make bench SF={sf} ENGINES=embedded PHYSICAL={FINE[1]}"


def growth(records: Iterable[Record]) -> Table | None:
    """Make the table of our engine at all scale factors; None if fewer than two have records."""
    records = list(records)
    if not records:
        return None
    db = Relations.of_queries(*(of_scale(records, sf) for sf in {record.sf for record in records}))
    cells = f"FROM single c WHERE ours AND (L, P) = {FINE}"
    factors = [sf for (sf,) in db.rows(f"SELECT sf {cells} GROUP BY sf ORDER BY sf::DOUBLE")]
    if len(factors) < 2:
        return None
    tuple_s = [at(f"sf = '{sf}'", "c.best / c.tuples") for sf in factors]
    columns: list[Column] = [
        ("query", "query", words),
        *((f"SF {sf}", at(f"sf = '{sf}'", "shown(c, c.best / c.tuples * 1e6)"), brief) for sf in factors),
        (f"SF {factors[-1]} / SF {factors[-2]}", f"{tuple_s[-1]} / {tuple_s[-2]}", ratio),
        (f"peak MB SF {factors[-1]}", at(f"sf = '{factors[-1]}'", "shown(c, peak_bytes)"), megabytes),
    ]  # fmt: skip
    notes = [
        "a ratio of 1.00x: the time grows in proportion to the rows; peak MB: the peak memory of the process",
        *(f"no records of SF {sf}: {bench_command(sf)}" for sf in SCALE_FACTORS if sf not in factors),
    ]
    title = "Growth with the data: time for a million tuples, one worker, 1 x 100000"
    return db.table(GROWTH, title, columns, f"{cells} GROUP BY query ORDER BY query", notes, has_foot=True)


def with_reasons(table: Table, records: Iterable[Record]) -> Table:
    """Append the reasons for the marks of a table, with the first cell of each engine."""
    if any(entry.text.endswith(MARK) for row in table.rows for entry in row):
        table.notes += _reasons(records)
    return table


def _reasons(records: Iterable[Record]) -> Iterator[str]:
    doubtful: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if doubt_of(record):
            doubtful[record.engine].append(record)
    yield "~: the time is not plausible; docs/benchmark.md has the rule"
    for engine, found in doubtful.items():
        first = found[0]
        cell = f"{first.query} {first.logical} x {first.physical}"
        yield f"~ {short_name(engine)}, {counted(len(found), 'cell')}, such as {cell}: {doubt_of(first)}"


MAX_ROWS, HEAD, TAIL = 12, 6, 17
SHORT = f"CASE WHEN len(name) > {HEAD + 3 + TAIL} THEN name[: {HEAD}] || '...' || name[-{TAIL} :] ELSE name END"
"""A long name without its middle: its end tells workloads apart."""
SHOWN_FIRST = (SMALL[0], PHYSICAL[0], FINE, COARSE, CROSSOVER[0])
"""The batchings that the summary shows if there are too many for the screen."""


def summary(records: Iterable[Record], sf: str) -> Table:
    """Make the summary at the end of a run, for a screen of 80 columns and 30 lines: a line for each engine and
    batching, with the mean over queries, the slowest and the fastest one.
    """
    db = Relations.of_queries(of_scale(records, sf))
    groups = f"""
        SELECT runner || {SUFFIX} AS name,
            logical, physical, list(rate) AS rates, count(*) AS number,
            arg_min(c, (rate, cell)) AS slowest, arg_max(c, (rate, -cell)) AS fastest, bool_or(is_doubtful) AS doubtful,
            row_number() OVER (
                ORDER BY rank, workers, NOT plain(workload), workload, logical * physical, logical) AS position
        FROM latest c WHERE has_numbers AND is_default GROUP BY rank, runner, workers, workload, logical, physical"""
    total, most = db.rows(f"SELECT count(*), coalesce(max(number), 0) FROM ({groups})")[0]
    columns: list[Column] = [
        ("M tuples/s", SHORT, words),
        ("L x P", "logical || ' x ' || physical", words),
        (
            "geomean",
            "{'value': {'numbers': rates, 'most': max(number) OVER ()}, 'text': NULL, 'mark': doubtful}",
            mean_of(_millions),
        ),
        ("slowest", "shown(slowest, {'query': slowest.query, 'rate': slowest.rate})", _extreme),
        ("fastest", "shown(fastest, {'query': fastest.query, 'rate': fastest.rate})", _extreme),
    ]
    source = f"""
        FROM ({groups}) QUALIFY row_number() OVER (ORDER BY (logical, physical) NOT IN {listed(SHOWN_FIRST)}, position)
            <= {MAX_ROWS} ORDER BY position"""
    table = db.table("summary", f"SF {sf}, {counted(most, 'query')}", columns, source)
    if len(table.rows) < total:
        table.notes.append(f"{total - len(table.rows)} more batchings are in the tables")
    if any(row[2].text.removesuffix(MARK).endswith(")") for row in table.rows):
        table.notes.append("(n): a mean over n queries alone, which is not comparable with the others")
    if counts := Counter(record.status for record in db.latest if record.status != "ok"):
        numbers = ", ".join(f"{number} {status}" for status, number in sorted(counts.items()))
        table.notes.append(f"cells without a number: {numbers}; the tables show them")
    return with_reasons(table, db.latest)


def _millions(value: float) -> TableEntry:
    """Format a number per second in millions, with three digits."""
    millions = value / 1e6
    digits = max(3 - len(f"{int(millions)}"), 0) if millions >= 1 else 3
    return TableEntry(f"{millions:.{digits}f}", value)


def _extreme(value: dict[str, Any]) -> TableEntry:
    return TableEntry(f"{value['query']} {_millions(value['rate']).text}", value["rate"])
