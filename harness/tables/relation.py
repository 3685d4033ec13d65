"""Records as one relation, and tables as SQL over it: a query, a format for each column, and notes.

The relations, for SQL:

- `given`: all records of all suites, with their fields, their parameters and all `figures` by name (a list has an entry
  per timed run), and `why` they have no numbers. `part` numbers the sets of records that were given together.

Of the records of queries, if they were measured as today:

- `records`: these records with the counts and seconds of their fastest runs; `whole` is the time of the whole stream,
  and `cell` the position of the record's cell among all cells of its part.
- `latest`: the last records.
- `cells`: for each batching L x P that a table may ask for, the record that answers it: that of the cell, or of one
  whose only batch has the same rows. A dataflow is a variant, or empty for the query's default one.
- `single`: the cells of default dataflows with one worker and the workload `insert`.
- `recomputed`: those of DuckDB, by rounds of a batch.
- `by_commit`: the last record of each cell at each commit.
- `hot_dogs`: the published rates of the queries of TPC-H.

A value of a table is a number that the column's format writes, a text, or NULL, which is shown as `-`. The macro
`shown` makes a value of a number of a record `r`, with a mark if its time is not plausible, or of the reason why the
record has no number. A column for each batching or engine is an aggregate with a FILTER: see `at`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import duckdb
import pyarrow as pa

from deltamark.dataflow.sql.front_end import without_threads
from deltamark.datagen.workloads.registry import PLAIN
from deltamark.harness.benchmarks.benchmark import DEFAULT as BENCHMARK
from deltamark.harness.benchmarks.cell import CROSSOVER, ON_SPARK, PHYSICAL, PRODUCT, SMALL
from deltamark.harness.console.table import (
    MARK,
    NOTHING,
    Entries,
    Table,
    TableEntry,
    brief,
    megabytes,
    rate,
    ratio,
    words,
)
from deltamark.harness.engines.base import Capabilities, short_name
from deltamark.harness.engines.duckdb import DuckDBEngine
from deltamark.harness.engines.registry import BUILT_IN, DEFAULT
from deltamark.harness.measure.stats import geomean
from deltamark.harness.results import published
from deltamark.harness.results.plausibility import doubt_of
from deltamark.harness.results.record import MEASURING, SPREAD, Record

Certified = Mapping[tuple[str, str, str], str]
"""The grades that the suite of growth has measured, by benchmark, query and short name of the engine."""

Format = Callable[[Any], TableEntry]
Column = tuple[str, str, Format]
"""The header of a column, its SQL, and the format of its values."""

WITH_MEAN: tuple[Format, ...] = (brief, rate, ratio, megabytes)
"""The formats of the columns that have a geometric mean in the foot of a table."""

MIN_STATE_ROWS = 1000
"""The fewest rows of state for which bytes per row are shown; not measured."""

TEXTS = (
    "suite", "status", "problem", "verified", "digest", "data", "code", "versions", "commit", "repository", "session",
    "finished_at", "key", "note", "query", "sf", "variant", "workload", "engine", "benchmark", "dataset", "row",
)  # fmt: skip
COUNTS = ("measuring", "requested_runs", "logical", "physical", "workers", "sample")
AMOUNTS = ("control", "elapsed", "finished_s")
"""The attributes of records that are columns of `given`, by type."""

SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in TEXTS),
        *((name, pa.string()) for name in ("cell_name", "table_name", "why", "doubt", "short", "output")),
        *((name, pa.string()) for name in ("engine_version", "engine_digest", "engine_output")),
        *((name, pa.int64()) for name in ("id", "part", *COUNTS)),
        *((name, pa.float64()) for name in ("time_limit", *AMOUNTS)),
        *((name, pa.bool_()) for name in ("is_default", "ours", "is_external", "recomputes", "has_master")),
        ("figures", pa.map_(pa.string(), pa.list_(pa.float64()))),
    ]
)


def columns(record: Record, grades: Certified) -> dict[str, object]:
    """Return the values of a record in the relation `given`."""
    able = recorded_capabilities(record)
    grade = grades.get((record.benchmark, record.query, short_name(record.engine)), "undecided")
    recomputes = able.recomputes if grade == "undecided" else grade == "recomputed"
    return {
        **{name: getattr(record, name) for name in (*TEXTS, *COUNTS, *AMOUNTS)},
        "cell_name": record.cell, "table_name": record.table, "why": why(record), "doubt": doubt_of(record),
        "short": short_name(record.engine), "output": able.output, "time_limit": record.limit,
        "engine_version": record.params.get("engine_name"), "engine_digest": record.params.get("engine_digest"),
        "engine_output": record.params.get("engine_output"), "is_default": record.is_default,
        "ours": record.engine == DEFAULT, "is_external": record.external is not None, "recomputes": recomputes,
        "has_master": able.has_master,
        "figures": [(name, [*map(float, values)]) for name, values in record.figures.items()],
    }  # fmt: skip


def why(record: Record) -> str | None:
    """Return the reason why a record has no number; None if it is right."""
    texts = {"ok": None, "wrong": "WRONG", "timeout": f">{record.limit:g}s", "refused": "refused"}
    return texts.get(record.status, "failed")


def recorded_capabilities(record: Record) -> Capabilities:
    """Return the capabilities of the engine of a record, which may not be on this machine."""
    if record.engine in BUILT_IN:
        return BUILT_IN[record.engine].capabilities
    said = record.external
    if said is None:
        return Capabilities(output="batches")
    return Capabilities(
        output=said.output, recomputes=not said.maintains or bool(record.recomputed), has_session=said.session
    )


def listed(values: Iterable[object]) -> str:
    """Return the right side of IN: a list of numbers, texts or tuples, which may be empty."""
    return f"({', '.join(map(literal, values)) or 'NULL'})"


def literal(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))})"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def _columns(sql: str, names: Iterable[str]) -> str:
    """Return columns with names, whose SQL has the name in place of `{}`. They are NULL without numbers."""
    return ", ".join(f'CASE WHEN has_numbers THEN {sql.format(name)} END AS "{name}"' for name in names)


MACROS = f"""
CREATE MACRO shown(r, x) AS {{'value': x, 'text': r.why, 'mark': r.doubt <> ''}};
CREATE MACRO row_bytes(size, number) AS CASE WHEN number >= {MIN_STATE_ROWS} THEN size / number END;
CREATE MACRO plain(name) AS name IN {listed(PLAIN)};
CREATE MACRO first_line(words) AS split_part(words, chr(10), 1);
CREATE MACRO figure_of(figures, name) AS coalesce(figures[name][1], 0);
CREATE MACRO of_fastest(figures, name) AS CASE WHEN len(figures[name]) = len(figures['seconds'])
    THEN figures[name][list_position(figures['seconds'], list_min(figures['seconds']))] END;
"""

ASKED = {*PHYSICAL, *PRODUCT, *SMALL, *CROSSOVER, *ON_SPARK, *(figure.ours for figure in published.figures())}
"""The batchings that tables ask for, besides those of the records."""

CELL = "part, query, logical, physical, workers, engine, workload, variant"

QUERIES = f"""
CREATE VIEW figured AS SELECT *, status = 'ok' AND coalesce(len(figures['seconds']) > 0, false) AS has_numbers,
    figure_of(figures, 'sampled') = 0 AS fully_timed, min(id) OVER same AS cell, id = max(id) OVER same AS is_last
    FROM given WHERE measuring = {MEASURING} WINDOW same AS (PARTITION BY {CELL});
CREATE VIEW described AS SELECT *, doubt <> '' AS is_doubtful,
        dense_rank() OVER (PARTITION BY part ORDER BY NOT ours, engine) - 1 AS rank,
        bool_and(recomputes) FILTER (is_last) OVER (PARTITION BY part, engine) AS only_recomputes,
        arg_max(variant, cell) FILTER (is_last AND is_default) OVER (PARTITION BY part, query) AS default_variant,
        logical * physical AS rounds, figure_of(figures, 'oracle_seconds') AS oracle_seconds,
        coalesce(len(figures['seconds']), 0) AS runs, list_min(figures['cut']) AS cut,
        {_columns("list_min(figures['{}'])", SPREAD)},
        {_columns("figure_of(figures, '{}')::BIGINT", ("tuples", "batches", "changes"))},
        {_columns("figure_of(figures, '{}')::BIGINT", ("state_rows", "state_bytes", "peak_bytes"))},
        CASE WHEN has_numbers THEN list_min(figures['seconds']) END AS best,
        CASE WHEN has_numbers THEN list_max(figures['seconds']) END AS slowest
    FROM figured;
CREATE TABLE records AS SELECT *, tuples / best AS rate, best / batches AS batch_seconds,
        short || CASE WHEN only_recomputes THEN ', recomputing' ELSE '' END AS runner,
        CASE WHEN ours THEN '' ELSE ' ' || short END AS suffix, query || suffix AS name,
        query || CASE WHEN variant IN ('', default_variant) THEN '' ELSE ' ' || variant END || suffix AS dataflow_name,
        shown(r, CASE WHEN fully_timed THEN {{'number': best, 'is_time': true}}
            ELSE {{'number': rate, 'is_time': false}} END) AS whole
    FROM described r;
CREATE TABLE latest AS FROM records WHERE is_last;
CREATE VIEW batchings AS
    SELECT DISTINCT part, batching.L, batching.P FROM (
        SELECT part, unnest([{{'L': logical, 'P': physical}}, {{'L': logical * physical, 'P': 1}},
            {{'L': 1, 'P': logical * physical}}]) AS batching
        FROM (SELECT part, logical, physical FROM latest UNION SELECT part, asked.*
            FROM (SELECT DISTINCT part FROM latest),
                (VALUES {", ".join(map(literal, ASKED))}) asked (logical, physical)));
CREATE VIEW dataflows AS SELECT *, variant AS dataflow FROM latest
    UNION ALL SELECT *, '' FROM latest WHERE is_default AND variant <> '';
CREATE TABLE cells AS SELECT * EXCLUDE (is_exact) FROM (
        SELECT logical AS L, physical AS P, *, true AS is_exact FROM dataflows
        UNION ALL SELECT b.L, b.P, d.*, false FROM dataflows d JOIN batchings b USING (part)
        WHERE figure_of(figures, 'batches') = 1 AND fully_timed
            AND CASE WHEN physical = 1 THEN b.L >= logical ELSE b.L = logical AND b.P >= physical END
    ) QUALIFY row_number() OVER (PARTITION BY part, query, workers, engine, workload, dataflow, L, P
        ORDER BY is_exact DESC, CASE WHEN is_exact THEN -cell ELSE cell END) = 1;
CREATE TABLE single AS FROM cells WHERE dataflow = '' AND plain(workload) AND workers = 1;
CREATE TABLE recomputed AS SELECT DISTINCT ON (query, rounds) L * P AS rounds, * EXCLUDE (rounds) FROM single
    WHERE engine = '{DuckDBEngine.name}' AND 1 IN (L, P) ORDER BY query, rounds, L DESC;
CREATE TABLE hot_dogs AS SELECT query, hot_dog::DOUBLE AS hot_dog
    FROM (VALUES {", ".join(map(literal, published.hot_dog().items()))}) published (query, hot_dog)
    WHERE (SELECT bool_and(benchmark = '{BENCHMARK}') FROM latest);
CREATE VIEW by_commit AS SELECT cell, commit, arg_max(r, id) AS record FROM records r GROUP BY cell, commit;
"""


class Relations:
    """A database of records, in which tables are made. parts: sets of records. views: the SQL of more relations.

    grades: take the place of what engines declare.
    """

    def __init__(self, parts: Iterable[Iterable[Record]], views: str = "", grades: Certified | None = None) -> None:
        self.grades = grades or {}
        numbered = [(part, record) for part, records in enumerate(parts) for record in records]
        self.records = [record for _, record in numbered]
        """The records by their ids."""
        rows = [{"id": at, "part": part, **columns(record, self.grades)} for at, (part, record) in enumerate(numbered)]
        self._database = duckdb.connect(config=without_threads())
        self._database.execute(MACROS)
        self.add("given", pa.Table.from_pylist(rows, SCHEMA))
        self._database.execute(views)

    @classmethod
    def of_queries(cls, *parts: Iterable[Record], grades: Certified | None = None) -> Relations:
        return cls(parts, QUERIES, grades)

    def add(self, name: str, rows: pa.Table) -> None:
        """Add or replace a relation."""
        self._database.register("added", rows)
        self._database.execute(f"CREATE OR REPLACE TABLE {name} AS FROM added")

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self._database.execute(sql).fetchall()

    def arrow(self, sql: str) -> pa.Table:
        return self._database.sql(sql).to_arrow_table()

    def of(self, sql: str) -> list[Record]:
        """Return the records whose ids a query selects."""
        return [self.records[at] for (at,) in self.rows(sql)]

    @property
    def commits(self) -> list[str]:
        """The names of the commits of all records."""
        return [name for (name,) in self.rows("SELECT DISTINCT commit FROM given ORDER BY commit")]

    @cached_property
    def latest(self) -> list[Record]:
        """The last record of each cell of a query."""
        return self.of("SELECT id FROM latest ORDER BY cell")

    @property
    def is_published(self) -> bool:
        """Whether others have published numbers of the benchmark."""
        return all(record.benchmark == BENCHMARK for record in self.latest)

    def table(  # noqa: PLR0913 (the parts of a table)
        self,
        name: str,
        title: str,
        columns: Iterable[Column],
        source: str,
        notes: Sequence[str] = (),
        *,
        has_foot: bool = False,
    ) -> Table:
        """Make a table.

        source: the SQL after the columns. has_foot: whether the last row has the means of our engine's rows.
        """
        headers, selected, formats = zip(*columns, strict=True)
        rows = [
            [entry(value, form) for value, form in zip(row, formats, strict=True)]
            for row in self.rows(f"SELECT {', '.join(selected)} {source}")
        ]
        return Table(name, title, list(headers), rows, list(notes), mean_foot(rows, formats) if has_foot else None)


def entry(value: Any, form: Format) -> TableEntry:
    """Format a value of DuckDB."""
    if value is None:
        return NOTHING
    if isinstance(value, str):
        return words(value)
    if isinstance(value, dict) and "mark" in value:
        made = words(value["text"]) if value["text"] else entry(value["value"], form)
        return marked(made) if value["mark"] else made
    if isinstance(value, float) and not math.isfinite(value):
        raise ZeroDivisionError("a figure is divided by zero")
    return form(value)


def marked(of: TableEntry) -> TableEntry:
    return replace(of, text=of.text + MARK)


def mean_foot(rows: Sequence[Entries], formats: Sequence[Format]) -> Entries | None:
    """Return a row of geometric means over our engine's rows, or None for fewer than two of them.

    A column has a mean if its format has, and every row has a positive number in it.
    """
    ours = [row for row in rows if " " not in row[0].text]
    if len(ours) < 2:
        return None
    foot = [words("geomean")]
    for column, form in enumerate(formats[1:], 1):
        values = [row[column].value for row in ours]
        has_mean = form in WITH_MEAN and all(value > 0 for value in values)
        foot.append(form(geomean(values)) if has_mean else words(""))
    return foot


def at(condition: str, value: str) -> str:
    """Return the SQL of a value of the record of a group for which a condition holds."""
    return f"any_value({value}) FILTER ({condition})"


def without_mean(show: Format) -> Format:
    """Return a format whose columns have no mean in the foot."""
    return partial(show)
