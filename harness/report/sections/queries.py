"""Sections of charts of queries: rates, recomputing, latency, more workers, and state.

Each chart is a table by SQL, drawn by `chart`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from deltamark.harness.benchmarks.cell import COARSE, CROSSOVER, FINE, PRODUCT, Batching
from deltamark.harness.console.table import TableEntry, brief, counted, listed, megabytes, rate, ratio
from deltamark.harness.measure.stats import geomean
from deltamark.harness.report.cells import chart_rows, engine_name, numbers_of, over, side_by_side, tooltip
from deltamark.harness.report.chart import (
    LOOKS,
    WIDE,
    Axes,
    Axis,
    Frame,
    Linear,
    Log,
    Look,
    Row,
    Tooltip,
    chart,
    legend,
    short,
    tick,
)
from deltamark.harness.report.document import Section, beside, lists, panels, tag
from deltamark.harness.results.record import Record
from deltamark.harness.tables.relation import Relations, literal
from deltamark.harness.tables.relation import listed as sql_list

ORDER = "ORDER BY rank, workers"


def throughput(db: Relations) -> Section | None:
    kind = """CASE WHEN NOT plain(workload) THEN 'dotted' WHEN logical = 1 THEN 'solid'
        WHEN physical = 1 THEN 'hollow' END"""
    lines = f"(SELECT *, {kind} AS kind FROM charted) WHERE kind IS NOT NULL"
    batches = """CASE kind WHEN 'solid' THEN 'L = 1, so a batch is P' WHEN 'hollow' THEN 'P = 1, so a batch is L'
        ELSE workload END"""
    rows = chart_rows(
        db, f"FROM {lines} ORDER BY query, rounds, cell", value="rate", x="rounds", kind="kind",
        series=f"who || ': ' || {batches}",
    )  # fmt: skip
    if not rows:
        return None
    best = numbers_of(db, "query, max(rate)", f"FROM {lines} GROUP BY who, engine, rank, workers, query {ORDER}")
    return Section(
        "throughput", "Throughput against batch size",
        f"At the best batch size, the rate is {side_by_side(best, rate)}, {over(best)}.",
        "Tuples per second by rounds per batch, over the same logarithmic axes for every query. If the line of "
        "recomputing is above, running the query again is faster than maintaining its answer.",
        [legend(rows), panels(chart(rows, _rates(rows)))],
    )  # fmt: skip


def _rates(rows: Sequence[Row]) -> Axes:
    """Return the axes of rates by batch size."""
    return Axes(
        Axis("tuples per second", Log.over(row.value for row in rows), short),
        Axis("rounds per batch", Log.over(row.x for row in rows), short),
    )


def engines(db: Relations) -> Section | None:
    """Draw the mean rates of all engines, if several have batches that a line shows: L or P is 1."""
    drawn = "FROM charted WHERE plain(workload) AND 1 IN (logical, physical)"
    if len(db.rows(f"SELECT DISTINCT engine {drawn}")) < 2:
        return None
    means = db.rows(f"""
        SELECT * EXCLUDE place FROM (
            SELECT engine, who, color, outline, CASE logical WHEN 1 THEN 'solid' ELSE 'hollow' END AS kind, rounds,
                list(rate), [rank, workers], min((rounds, cell)) AS place {drawn} GROUP BY ALL)
        ORDER BY min(place) OVER (PARTITION BY engine, who, kind), place""")
    rows = [
        Row(
            Frame("geometric mean"), Look(color, outline), kind, who, {"engine": engine}, geomean(rates),
            _mean_tooltip(who, size, rates), size, order=tuple(order),
        )
        for engine, who, color, outline, kind, size, rates, order in means
    ]  # fmt: skip
    sizes = f"SELECT rounds FROM (SELECT DISTINCT rounds, engine, workers {drawn}) GROUP BY rounds"
    ((size,),) = db.rows(f"{sizes} ORDER BY count(*) DESC, rounds DESC LIMIT 1")
    found = numbers_of(
        db, "query, max(rate)", f"{drawn} AND rounds = {size} GROUP BY who, engine, rank, workers, query {ORDER}"
    )
    return Section(
        "engines", "Engines side by side",
        f"For batches of {counted(size, 'round')}, the rate is {side_by_side(found, rate)}, {over(found)}.",
        "Tuples per second by rounds per batch: the geometric mean over the queries that an engine answered. Lines "
        "with dashes are of batches that share one logical time (P = 1). The tables of engines are below.",
        [beside(chart(rows, replace(_rates(rows), area=WIDE)), legend(replace(row, kind="solid") for row in rows))],
    )  # fmt: skip


def _mean_tooltip(who: str, size: int, rates: Sequence[float]) -> Tooltip:
    text = f"{rate(geomean(rates)).text}, the geometric mean of {len(rates)} queries"
    return Tooltip(f"{who}, batches of {size:,} rounds", (text,), "make tables TABLE=engines")


MEANINGS = {FINE: " (an answer in every round)", COARSE: " (one answer for the whole batch)"}

BATCHINGS = f"""(
    SELECT c.*, who, list_position({[list(each) for each in PRODUCT]}, [c.L, c.P]) - 1 AS color,
        c.L || ' x ' || c.P AS batching, c.rate / max(c.rate) OVER same AS share,
        arg_max(c.L || ' x ' || c.P, (c.rate, -c.L)) OVER same AS best_batching
    FROM single c JOIN looks USING (id)
    WHERE c.has_numbers AND c.output = 'stream' AND (c.L, c.P) IN {sql_list(PRODUCT)}
    WINDOW same AS (PARTITION BY c.engine, c.query) QUALIFY count(*) OVER same > 1)"""
"""The cells of queries with several batchings of 100,000 rounds, each with its rate relative to the best one."""


def batching(db: Relations) -> Section | None:
    """Draw a strip for each query with several batchings of 100,000 rounds, and a list of strips for each engine."""
    axes = Axes(Axis("rate relative to the query's best batching", Linear(0, 0.25, 4), lambda value: f"{value:g}x"))
    runners = db.rows(f"SELECT DISTINCT who, engine, rank FROM {BATCHINGS} ORDER BY rank")
    if not runners:
        return None
    by_who = {
        who: chart_rows(
            db, f"FROM {BATCHINGS} WHERE engine = {literal(engine)} ORDER BY query, color", value="share",
            series="batching", outline=f"color % {LOOKS}", number="best_batching", order="[color]",
        )
        for who, engine, _ in runners
    }  # fmt: skip
    parts, queries = [], ""
    for logical, size in _ends(db):
        here = f"FROM {BATCHINGS} WHERE (L, P) = {(logical, size)} ORDER BY rank"
        found = numbers_of(db, "query, share", here)
        meaning = MEANINGS.get((logical, size), "")
        parts.append(f"{side_by_side(found, ratio)} for {logical} x {size}{meaning}")
        queries = queries or over(found)
    return Section(
        "batching", "Logical against physical batches",
        f"Relative to the best batching, the rate is {', and '.join(parts)}, {queries}.",
        "A batch of 100,000 rounds, cut as L x P: the more rounds share a logical time (L), the fewer answers are due. "
        "Rates are relative to the best batching of a query, whose name ends its line.",
        [
            legend(row for rows in by_who.values() for row in rows),
            lists(tag("div", tag("h3", who), chart(rows, axes)) for who, rows in by_who.items()),
        ],
    )  # fmt: skip


def _ends(db: Relations) -> list[Batching]:
    """Return the batchings with the most and with the fewest answers."""
    measured = db.rows(f"SELECT DISTINCT L, P FROM {BATCHINGS} ORDER BY L")
    return [measured[0], measured[-1]]


PAIRS = f"""(
    SELECT c.*, 1 / c.batches AS share, r.batch_seconds AS again, r.batch_seconds / c.batch_seconds AS gain
    FROM charted c JOIN recomputed r ON r.query = c.query AND r.rounds = c.rounds AND r.has_numbers
    WHERE plain(c.workload) AND NOT c.recomputes AND c.fully_timed
        AND (c.logical, c.physical) IN {sql_list(CROSSOVER)})"""
"""The records of engines that maintain, each with DuckDB's time of recomputing after batches of the same size."""


def break_even(db: Relations) -> Section | None:
    """Draw a panel for each query, with a line for each engine that maintains answers."""
    rows = chart_rows(
        db, f"FROM {PAIRS} ORDER BY query, rounds, cell", value="gain", x="share",
        more="[share, batch_seconds, again, gain]",
        tip=_pair_tooltip,
    )  # fmt: skip
    if not rows:
        return None
    axes = Axes(
        Axis(
            "time of recomputing / time of maintaining",
            Log.over([*(row.value for row in rows), 1.0]),
            lambda v: f"{short(v)}x",
        ),
        Axis(
            "size of a batch relative to the stream", Log.over(row.x for row in rows), lambda share: f"{100 * share:g}%"
        ),
    )
    return Section(
        "break-even", "When maintaining pays", _break_even_finding(db),
        "The time of DuckDB for running the query again after a batch, relative to the time of maintaining its answer, "
        "with P = 1. Above 1x, maintaining is faster.",
        [legend(rows), panels(chart(rows, axes))],
    )  # fmt: skip


def _pair_tooltip(record: Record, figures: Sequence[float]) -> Tooltip:
    usual, (share, maintained, again, gain) = tooltip(record), figures
    text = (
        f"a batch of {share:.2g} of the stream: maintained in {brief(maintained).text}, "
        f"recomputed by DuckDB in {brief(again).text}, {ratio(gain).text} as long"
    )
    return replace(usual, lines=(text, *usual.lines))


def _break_even_finding(db: Relations) -> str:
    """State the mean gain of the first engine at its smallest and at its largest batch, and the queries that lose."""
    ((engine, workers, who),) = db.rows(f"SELECT engine, workers, who FROM {PAIRS} {ORDER} LIMIT 1")
    sizes = db.rows(f"""
        SELECT rounds, list(gain), list(DISTINCT query ORDER BY query) FILTER (gain < 1) FROM {PAIRS}
        WHERE (engine, workers) = {literal((engine, workers))} GROUP BY rounds ORDER BY rounds""")
    ends = sizes if len(sizes) == 1 else [sizes[0], sizes[-1]]
    means = [f"{ratio(geomean(gains)).text} for batches of {counted(size, 'round')}" for size, gains, _ in ends]
    slower = sizes[-1][2]
    lost = f"recomputing is faster for {listed(slower)}" if slower else "maintaining is faster for every query"
    return (
        f"The time of recomputing relative to maintaining with {engine_name(who)} is {listed(means)} in the "
        f"geometric mean; {'at the larger size ' * (len(sizes) > 1)}{lost}."
    )


SIZES = (1, 1000, 100_000, 1_000_000)


def latency(db: Relations) -> Section | None:
    sized = f"FROM charted WHERE plain(workload) AND 1 IN (logical, physical) AND rounds IN {sql_list(SIZES)}"
    preferred = f"""{sized}
        QUALIFY row_number() OVER (PARTITION BY rounds, query, engine, workers ORDER BY logical, cell DESC) = 1"""
    rows = chart_rows(
        db, f"FROM (SELECT * {preferred}) ORDER BY rounds, query, rank, workers", value="p99", x="rounds",
        interval='[p50, "max"]', number="first_value(p99) OVER (PARTITION BY rounds, query ORDER BY rank, workers)",
        show=lambda value: brief(value).text,
        order="[rank, workers]",
    )  # fmt: skip
    if not rows:
        return None
    # the axis also has the records that another one of the same size stands for
    spread = db.rows(f'SELECT unnest([p50, p99, "max"]) {sized}')
    axes = Axes(Axis("seconds per batch: p50, p99 and the slowest", Log.over(value for (value,) in spread), tick))
    charts = [
        tag(
            "div",
            tag("h3", "Batches of one round" if size == 1 else f"Batches of {size:,} rounds"),
            chart(of_size, axes),
        )
        for size in SIZES
        if (of_size := [row for row in rows if row.x == size])
    ]
    most = f"SELECT rounds FROM (SELECT DISTINCT rounds, engine, workers {sized}) GROUP BY rounds"
    ((size,),) = db.rows(f"{most} ORDER BY count(*) DESC, rounds LIMIT 1")
    found = numbers_of(db, "query, p99", f"FROM (SELECT * {preferred}) WHERE rounds = {size} {ORDER}")
    return Section(
        "latency", "Latency of a batch",
        f"The 99th percentile of a batch of {counted(size, 'round')} is {side_by_side(found, brief)}, {over(found)}.",
        "From the median to the slowest batch of the fastest run; the mark and the number are the 99th percentile. One "
        "list for each batch size in rounds, over the same axis.",
        [legend(rows), lists(charts)],
    )  # fmt: skip


PREFERRED_ROUNDS = 100_000
"""The batch size to show if several were measured: it hardly changes the state at the end of a stream."""


def state(db: Relations) -> Section | None:
    shown = f"""(SELECT * FROM charted WHERE state_bytes > 0 QUALIFY row_number() OVER (
        PARTITION BY query, engine, workers, workload
        ORDER BY rounds = {PREFERRED_ROUNDS} DESC, physical DESC, cell) = 1)"""
    order = "rank, workers, NOT plain(workload), workload"
    rows = chart_rows(
        db, f"FROM {shown} ORDER BY query, {order}", value="state_bytes / 1e6",
        kind="CASE WHEN plain(workload) THEN 'solid' ELSE 'hollow' END",
        series="who || CASE WHEN plain(workload) THEN '' ELSE ': ' || workload END",
        number=f"first_value(state_bytes) OVER (PARTITION BY query ORDER BY {order})",
        show=lambda size: _megabytes(size).text,
        order="[(NOT plain(workload))::INT, rank, workers]",
    )  # fmt: skip
    if not rows:
        return None
    ((plain,),) = db.rows(f"SELECT bool_or(plain(workload)) FROM {shown}")
    where = "plain(workload)" if plain else "true"
    found = numbers_of(db, "query, state_bytes", f"FROM {shown} WHERE {where} ORDER BY {order}")
    axis = Axis("memory of the state", Log.over(row.value for row in rows), lambda value: f"{value:g} MB")
    return Section(
        "state", "State at the end of the stream", f"A run adds {side_by_side(found, _megabytes)}, {over(found)}.",
        "Memory of the state at the end, in megabytes; the number is that of the first engine without retractions.",
        [legend(rows), lists(chart(rows, Axes(axis)))],
    )  # fmt: skip


def _megabytes(size: float) -> TableEntry:
    entry = megabytes(size)
    return replace(entry, text=f"{entry.text} MB")


GAINS = """(
    SELECT r.*, r.rate / one.rate AS speed, r.query || ' ' || r.logical || ' x ' || r.physical
            || CASE WHEN plain(r.workload) THEN '' ELSE ', ' || r.workload END AS work_name,
        min(r.rank) OVER (PARTITION BY work_name) AS first_rank
    FROM looks r JOIN cells one ON one.dataflow = '' AND one.workers = 1 AND one.has_numbers
        AND (one.query, one.engine, one.workload, one.L, one.P) = (r.query, r.engine, r.workload, r.logical, r.physical)
    WHERE r.has_numbers AND r.is_default AND r.workers > 1)"""
"""The cells with several workers, each with its speed relative to one worker."""


def workers(db: Relations) -> Section | None:
    rows = chart_rows(
        db, f"FROM {GAINS} ORDER BY query, workload, logical, physical, rank, workers", frame="work_name",
        value="speed",
        outline=f"(own_outline + dense_rank() OVER (ORDER BY workers) - 1) % {LOOKS}", order="[rank, workers]",
        number="max(speed) FILTER (rank = first_rank) OVER (PARTITION BY work_name)",
        show=lambda best: ratio(best).text,
    )  # fmt: skip
    if not rows:
        return None
    ((most,),) = db.rows(f"SELECT max(workers) FROM {GAINS}")
    highest = max(most, ceil(max(row.value for row in rows)))
    scale = Linear(0, 0.5, 2 * highest) if highest <= 4 else Linear(0, ceil(highest / 8), 8)
    axes = Axes(Axis("speed relative to one worker", scale, lambda value: f"{value:g}x"))
    found = numbers_of(db, "work_name, speed", f"FROM {GAINS} {ORDER}, cell")
    return Section(
        "workers", "Speed-up by workers",
        f"Relative to one worker, the speed is {side_by_side(found, ratio)}, {over(found, 'cells')}.",
        "The speed of the same cell relative to one worker; below 1x it is slower. The number is the best speed of the "
        "first engine.",
        [legend(rows), lists(chart(rows, axes))],
    )  # fmt: skip
