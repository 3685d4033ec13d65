"""The tables of the suites other than that of queries, made separately for each dataset.

The relation `measured` has the last rows of a dataset, each with its `name` and with the map `figure` of the least
value of each of its `figures`. A figure that a row of older code lacks is NULL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

import duckdb
import pyarrow as pa

from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import DEFAULT
from deltamark.harness.benchmarks.cell import DEFAULT_ENGINE
from deltamark.harness.console import table as formatting
from deltamark.harness.console.table import NOTHING, Table, TableEntry, brief, count, rate, ratio, short, words
from deltamark.harness.engines.peers import PEERS, peer
from deltamark.harness.measure.stats import median
from deltamark.harness.results.record import REFUSED, Record, latest
from deltamark.harness.tables.relation import Certified, Column, Format, Relations, literal

Grade = Literal["times", "batches", "end", "wrong"]

GRADES: tuple[Grade, ...] = ("wrong", "end", "batches", "times")
"""From the worst to the best."""

SMALL_BATCH_ROUNDS = 1000
"""Rounds in a batch beside an incremental attachment."""

VIEW = """
CREATE TABLE measured AS SELECT id, benchmark, dataset, table_name, row AS name, note, cell_name, why, doubt, figures,
    map_from_entries([
        {'key': entry.key, 'value': list_min(entry.value)} FOR entry IN map_entries(figures)]) AS figure FROM given;
"""

REASON = f"coalesce(why, CASE WHEN starts_with(note, '{REFUSED}') THEN 'refused' END)"
"""The reason why a row has no numbers."""

MakeTables = Callable[[Relations], Iterable[Table]]


def suite_tables(records: Iterable[Record], suite: str, make: MakeTables) -> list[Table]:
    """Make the non-empty tables of a suite, separately for each dataset."""
    last = latest(record for record in records if record.suite == suite)
    tables: list[Table] = []
    with consistent_figures(suite):
        for dataset in dict.fromkeys(record.dataset for record in last):
            db = relations([record for record in last if record.dataset == dataset])
            tables += [_named(table, dataset) for table in make(db) if table.rows]
    return tables


def relations(records: Iterable[Record]) -> Relations:
    """Return the relation of the rows of a dataset, sorted by the numbers in their names."""
    return Relations([sorted(records, key=lambda record: list(map(int, re.findall(r"\d+", record.row))))], VIEW)


@contextmanager
def consistent_figures(suite: str) -> Iterator[None]:
    """Turn an arithmetic or look-up error into one that names the suite: valid lines may contradict each other."""
    try:
        yield
    except (ArithmeticError, LookupError, ValueError, duckdb.Error) as error:
        remedy = "move the records away and measure again; --debug shows more"
        raise DeltamarkError(f"figures of the suite {suite} contradict each other", repr(error), remedy) from error


def _named(table: Table, dataset: str) -> Table:
    """Add the dataset to the name and title of a table."""
    slug = re.sub(r"\W+", "-", dataset).strip("-").lower()
    return replace(table, name=f"{table.name}-{slug}", title=f"{table.title} ({dataset})")


def shown(header: str, value: str, form: Format) -> Column:
    """Return the column of a value of a row, or of the reason why it has none."""
    return header, f"shown(r, {value})", form


def least(header: str, figure: str, form: Format = brief) -> Column:
    return shown(header, f"figure['{figure}']", form)


def share(header: str, numerator: str, denominator: str, form: Format) -> Column:
    return shown(header, f"figure['{numerator}'] / figure['{denominator}']", form)


def several(header: str, figures: Sequence[str], form: Callable[[list[float]], TableEntry]) -> Column:
    """Return the column of several figures. A row without one of them has no entry."""
    values = ", ".join(f"figure['{figure}']" for figure in figures)
    return shown(header, f"[{values}]", lambda found: NOTHING if None in found else form(found))


def of_table(name: str, order: str = "id") -> str:
    return f"FROM measured r WHERE table_name = {literal(name)} ORDER BY {order}"


def megabytes(value: float) -> TableEntry:
    return formatting.megabytes(int(value))


def whole_megabytes(value: float) -> TableEntry:
    return count(round(value / 1e6))


def tenths(value: float) -> TableEntry:
    return TableEntry(f"{value:.1f}", value)


def short_name(name: str) -> TableEntry:
    """Shorten the name of a row that is a batch size: 1000 is 1K."""
    return words(short(int(name)) if name.isdecimal() else name)


def named(header: str, texts: dict[str, str]) -> Column:
    """Return the column of names of rows of several tables. texts: by table, with the name for `{}`."""
    return header, "[table_name, name]", lambda name: words(texts[name[0]].format(short_name(name[1]).text))


# Coverage

GRADE_WORDS = {
    "times": "at every logical time", "batches": "at the end of every batch", "end": "only at the end of the stream",
    "wrong": "WRONG",
}  # fmt: skip
"""The moments at which the answers of an engine are right."""

ONLY_INSERTIONS = "insertions only: deletions are refused; after deletions: right while rows are only inserted"

GRADED = f"""(
    SELECT *, split_part(name, ' ', 1) AS query, substr(name, len(query) + 2) AS engine,
        cardinality(figure) > 0 AS answers,
        coalesce(figure['only_insertions'] > 0, false) AS only_insertions,
        CASE WHEN NOT answers THEN 'refused'
            WHEN figure['grade'] = {GRADES.index("wrong")}
            THEN 'WRONG' || CASE WHEN only_insertions THEN ' after deletions' ELSE '' END
            ELSE coalesce(certified, CASE WHEN figure['recomputed'] > 0 THEN 'recomputed' ELSE 'maintained' END
                || ', declared') || CASE WHEN only_insertions THEN ', insertions only' ELSE '' END END AS outcome
    FROM measured LEFT JOIN certificates ON benchmark = certified_benchmark
        AND name = concat_ws(' ', certified_query, certified_engine)
    WHERE table_name = 'coverage')"""


def coverage_tables(db: Relations, grades: Certified) -> Iterator[Table]:
    """Make the matrix of queries and engines, the grade of each engine, and the refusals."""
    names = ("certified_benchmark", "certified_query", "certified_engine", "certified")
    columns = zip(*((*key, grade) for key, grade in grades.items()), strict=True) if grades else [[]] * len(names)
    db.add("certificates", pa.table([pa.array(column, pa.string()) for column in columns], names))
    engines = [engine for (engine,) in db.rows(f"SELECT engine FROM {GRADED} GROUP BY engine ORDER BY min(id)")]
    yield db.table(
        "coverage", "Coverage: how each engine answers each query",
        [
            ("query", "query", words),
            *((each, f"arg_max(shown(r, outcome), id) FILTER (engine = {literal(each)})", words) for each in engines),
        ],
        f"FROM {GRADED} r GROUP BY query ORDER BY query",
        [
            "maintained: the answer is updated; recomputed: the query runs again after each batch; partly: between",
            "declared: as the engine says; the others are certificates of SUITE=growth, which may be undecided",
            "refused: the engine or its adapter does not support the query; WRONG: an answer differs from DuckDB's",
            *([ONLY_INSERTIONS] if db.rows(f"FROM {GRADED} WHERE only_insertions LIMIT 1") else []),
        ],
    )  # fmt: skip
    graded = "FILTER (why IS NULL AND answers)"
    yield db.table(
        "consistency", "Consistency: when the answers of an engine are right",
        [
            ("engine", "engine", words),
            ("right", f"min(figure['grade']) {graded}", lambda grade: words(GRADE_WORDS[GRADES[int(grade)]])),
            ("queries", f"count(*) {graded}", count),
            ("refused", "count(*) FILTER (why IS NULL AND NOT answers)", count),
            ("failed", "count(why)", count),
            ("compared answers", f"coalesce(sum(figure['compared']) {graded}, 0)", count),
        ],
        f"FROM {GRADED} GROUP BY engine ORDER BY min(id)",
        [
            "the grade of an engine is that of its worst query",
            "workloads: insert, refresh:5, and the window of the golden digests (of TPC-H window:500)",
        ],
    )  # fmt: skip
    ((of_tpch,),) = db.rows(f"SELECT bool_and(benchmark = '{DEFAULT}') FROM measured")  # manifests know no others
    refused = [
        {"engine": engine, "query": query, "expected": reason}
        for engine in engines if of_tpch and engine in PEERS for query, reason in peer(engine).manifest.refuses.items()
    ]  # fmt: skip
    db.add(
        "manifests",
        pa.Table.from_pylist(refused, pa.schema([(n, pa.string()) for n in ("engine", "query", "expected")])),
    )
    said = f"CASE WHEN starts_with(note, '{REFUSED}') THEN substr(note, {len(REFUSED) + 1}) ELSE note END"
    yield db.table(
        "refusals", "Refusals: queries that engines do not support",
        [
            ("engine", "engine", words), ("query", "query", words),
            ("reason", f"CASE WHEN why IS NULL AND NOT answers THEN {said} ELSE 'not refused' END", words),
            ("manifest", "nullif(expected, '')", words),
        ],
        f"""FROM {GRADED} LEFT JOIN manifests USING (engine, query)
            WHERE why IS NULL AND NOT answers OR expected <> '' ORDER BY id""",
        ["reason: what the engine said; manifest: what the manifest of the peer expects"],
    )  # fmt: skip


# Sharing

SIDES = (("together", "together"), ("alone, sum", "alone"))
"""The labels of both sides of a comparison, and the prefixes of their figures."""


def shared_tables(db: Relations) -> Iterator[Table]:
    # a row of older code, or without numbers, may have the name of its batching alone: all queries in our engine
    loads = rf"""(
        SELECT * REPLACE ({REASON} AS why), figure['queries'] AS queries,
            regexp_extract(name, '^\d+ x \d+') AS batching,
            substr(name, len(batching) + 2) AS place,
            CASE WHEN queries > 0 THEN regexp_replace(place, ' \d+$', '') ELSE place END AS rest,
            CASE rest WHEN '' THEN {literal(DEFAULT_ENGINE)} ELSE rest END AS engine,
            lag(figures) OVER (PARTITION BY cell_name ORDER BY queries) AS fewer
        FROM measured WHERE table_name = {literal("loads")})"""
    sides = "[{0}['together_seconds'], {0}['alone_seconds']]".format
    yield db.table(
        "loads", "Queries in one engine, and each alone",
        [
            ("engine", "engine", words), ("L x P", "batching", words), ("queries", "queries", count),
            least("together", "together_seconds"), share("whole input", "tuples", "together_seconds", rate),
            least("alone, sum", "alone_seconds"), shown("together / alone", sides("figures"), _paired),
            shown("one more", f"[{sides('figures')}, {sides('fewer')}]", _one_more),
            least("MB", "together_bytes", whole_megabytes), least("MB alone, sum", "alone_bytes", whole_megabytes),
        ],
        f"FROM {loads} r ORDER BY id",
        [
            "whole input: rate by the rows of the relations, each counted once however many queries read it",
            "the ratio is the median over pairs of consecutive runs; all answers were compared with DuckDB's",
            "one more: the time that the queries add to those of the row above, relative to the same ones alone",
        ],
    )  # fmt: skip
    of_side = "figure[side.prefix || '_{}']".format
    labels = ", ".join(map(literal, SIDES))
    yield db.table(
        "state", "State at the end",
        [
            ("engine", "engine", words), ("", "label", words), ("rows", of_side("rows"), count),
            ("MB", of_side("bytes"), whole_megabytes),
            ("bytes per row", f"row_bytes({of_side('bytes')}, {of_side('rows')})", count),
            ("peak MB", of_side("peak"), whole_megabytes),
        ],
        f"""FROM (
                FROM {loads} WHERE why IS NULL
                QUALIFY row_number() OVER (PARTITION BY engine ORDER BY queries DESC, id) = 1)
            CROSS JOIN (VALUES {labels}) side(label, prefix) ORDER BY id, label DESC""",
        ["the peak is that of the process, with batches and program; alone: that of the largest query"],
    )  # fmt: skip
    largest_first = "-coalesce(list_max(figures['{}']), 0), id".format
    yield db.table(
        "arrangements", "Arrangements that several queries read",
        [
            ("arrangement of", "name", words), ("read by", "note", words), least("rows", "rows", count),
            least("MB", "bytes", whole_megabytes),
            shown("bytes per row", "row_bytes(figure['bytes'], figure['rows'])", count),
        ],
        of_table("arrangements", largest_first("bytes")),
    )  # fmt: skip
    yield db.table(
        "filters", "Arrangements that differ in their filters",
        [
            ("arrangements of", "name", words), least("separate", "apart", count),
            least("MB separate", "bytes_apart", whole_megabytes), least("MB merged", "bytes_as_one", whole_megabytes),
            least("wasted probes", "in_vain", count), least("filters left to readers", "left", count),
        ],
        of_table("filters", largest_first("bytes_apart")),
        ["estimates of the planner, which merges arrangements if that saves 1 MB; a wasted probe counts 8 bytes"],
    )  # fmt: skip
    notes = ["time to the complete answer, with all rows loaded before; includes the compilation of the plan"]
    memory: list[Column] = []
    if db.rows("FROM measured WHERE table_name = 'coming' AND figure['peak_bytes'] IS NOT NULL"):  # older code lacks it
        memory = [least("MB kept", "kept_bytes", megabytes), least("MB at peak", "peak_bytes", megabytes)]
        notes.append("MB: the state that is added to the others' arrangements, and the growth of the process meanwhile")
    yield db.table(
        "attachment", "Time to attach a query while the others run",
        [
            ("query", "name", words), least("with its arrangements", "there"),
            least("with the others' arrangements", "others"), least("alone, all rows at once", "alone"), *memory,
        ],
        of_table("coming"), notes,
    )  # fmt: skip
    yield db.table(
        "interference", "Batch latencies of the others while a query attaches incrementally",
        [
            ("attached", "name", words), least("fuel", "fuel", count),
            several("batches", ["batches", "there"], _batches),
            least("p50 alone", "alone_p50"), least("p50 beside", "beside_p50"), least("p99 alone", "alone_p99"),
            least("p99 beside", "beside_p99"), share("p99 ratio", "beside_p99", "alone_p99", ratio),
            least("max beside", "beside_max"),
        ],
        of_table("crowding"),
        [
            (f"each batch of {SMALL_BATCH_ROUNDS} rounds first does `fuel` units of the attachment, each at most 4,096 "
            "rows")
        ],
    )  # fmt: skip


def paired(together: Sequence[float], alone: Sequence[float]) -> float:
    """Return the median over alternating runs of the time together relative to the sum of the times alone."""
    return median([one / other for one, other in zip(together, alone, strict=True)])


def _paired(seconds: list[list[float]]) -> TableEntry:
    return NOTHING if None in seconds else ratio(paired(*seconds))


def _one_more(seconds: list[list[list[float]]]) -> TableEntry:
    """Return the cost of queries that came to others: the paired ratio of what they add to both sides."""
    if any(None in sides for sides in seconds):
        return NOTHING
    now, before = seconds
    added = [[one - less for one, less in zip(*side, strict=True)] for side in zip(now, before, strict=True)]
    return ratio(paired(*added))


def _batches(figures: list[float]) -> TableEntry:
    batches, is_complete = count(figures[0]), figures[1]
    return batches if is_complete else TableEntry(f"more than {batches.text}", batches.value)


# Memory


def memory_tables(db: Relations) -> Iterator[Table]:
    yield db.table(
        "least", "Least memory in which a cell passes",
        [
            ("cell", "name", words),
            ("least MB", f"{{'value': figure['least_bytes'], 'text': {REASON}, 'mark': false}}", megabytes),
            least("start MB", "opened_bytes", megabytes), least("state MB", "state_bytes", megabytes),
            shown("bytes per row", "row_bytes(figure['state_bytes'], figure['state_rows'])", count),
            share("slowdown", "seconds", "free_seconds", ratio),
            shown("5% below", "coalesce(nullif(note, ''), '-')", words),
        ],
        of_table("least"),
        [
            "least MB: the least limit for all processes of the engine under which the run ends with right answers",
            "start MB: before the first batch; state MB, bytes per row: added by the run",
            "slowdown: the time under the least limit, relative to that without a limit",
        ],
    )  # fmt: skip


# Rates


def rate_tables(db: Relations) -> Iterator[Table]:
    yield from highest_rates(db)
    yield db.table(
        "trials", "Trials at fixed rates",
        [
            ("cell", "name", words), least("rounds", "rate", rate), least("p50", "p50"), least("p99", "p99"),
            least("max", "max"), least("recovery", "recovery"), least("batches", "batches", count),
            least("for", "seconds"), shown("outcome", "coalesce(nullif(note, ''), 'sustained')", words),
        ],
        "FROM measured r WHERE table_name = 'trials' AND cardinality(figure) > 0 ORDER BY id",
    )  # fmt: skip


def highest_rates(db: Relations) -> Iterator[Table]:
    """Make the table of cells: the trial with the highest sustained rate, and the reason why none above is."""
    refused = f"CASE WHEN starts_with(f.note, '{REFUSED}') THEN 'refused' ELSE 'none' END"
    absent = f"CASE WHEN best IS NULL THEN coalesce(f.why, {refused}) END"
    above = """CASE WHEN best IS NOT NULL THEN coalesce((
        SELECT arg_min(coalesce(nullif(a.note, ''), '-'), a.figure['rate']) FROM measured a
        WHERE a.table_name = 'trials' AND a.cell_name = f.cell_name
            AND a.figure['rate'] > best.figure['rate']), '-') END"""
    of_best = "best.figure['{}']".format
    yield db.table(
        "rate", "Highest sustained rate",
        [
            ("cell", "f.name", words),
            ("rounds", f"{{'value': {of_best('rate')}, 'text': {absent}, 'mark': false}}", rate),
            ("tuples", f"{of_best('rows')} / {of_best('seconds')}", rate), ("for", of_best("seconds"), brief),
            ("p50", of_best("p50"), brief), ("p99", of_best("p99"), brief), ("max", of_best("max"), brief),
            ("recovery", of_best("recovery"), brief),
            ("5% above", above, words),
            ("trials", "CASE WHEN best IS NOT NULL THEN number END", count),
        ],
        """FROM (
            SELECT arg_min(r, id) AS f, count(*) AS number,
                arg_max(r, figure['rate']) FILTER (figure['sustained'] > 0) AS best
            FROM measured r WHERE table_name = 'trials' GROUP BY cell_name) ORDER BY f.id""",
        [
            "rounds: the highest rate of rounds that the engine sustains; 5% above: the reason why it sustains no more",
            ("for: the duration of the trial, which ends with the stream; p50, p99, max: latencies from the due times "
            "on"),
            "recovery: the time from the largest burst until no round waits",
        ],
    )  # fmt: skip


# Windows


def window_tables(db: Relations) -> Iterator[Table]:
    """Make the table of window functions: the time of a change at each place, by the size of the partition."""
    named = """SELECT *, split_part(name, ' ', 1) AS function, split_part(name, ' ', 2) AS engine,
        split_part(name, ' ', 3)::BIGINT AS size FROM measured WHERE table_name = 'windows'"""
    sizes = [size for (size,) in db.rows(f"SELECT DISTINCT size FROM ({named}) ORDER BY size")]
    ends = [f"({end}(figure[place], size) / ln({end}(size, size)))" for end in ("arg_max", "arg_min")]
    yield db.table(
        "windows", "Window functions: time per change",
        [
            ("function", "function", words), ("rows change", "place", words), ("engine", "engine", words),
            *((short(size), f"any_value(shown(r, figure[place])) FILTER (size = {size})", brief) for size in sizes),
            ("growth", f"CASE WHEN count(why) = 0 AND min(size) > 1 THEN {' / '.join(ends)} END", ratio),
            ("changes", "arg_max(figure[place || '_changes'], size)", count),
        ],
        f"""FROM (FROM ({named}) CROSS JOIN (VALUES ('end'), ('middle')) places(place)) r
            GROUP BY function, place, engine ORDER BY min(id), place""",
        [
            "a column for each number of rows in the partition, in which one row is inserted or deleted",
            "growth: from the smallest partition to the largest, relative to that of the logarithm of the rows",
            "changes: retracted and inserted rows of the answer for a change of the largest partition",
        ],
    )  # fmt: skip
