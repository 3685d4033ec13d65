"""Examples of plans that can be written as SQL: their answers equal DuckDB's at several times."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from functools import cache

import duckdb
import pyarrow as pa
from support.engines.driving import added, between, feed
from support.random_plans.choices import Choices
from support.random_plans.growth import degree
from support.random_plans.streams import Streams, cut, inputs_of, streams_for, times_of
from support.reference.answers import answer
from support.reference.rows import Row, Rows, consolidated

from deltamark.dataflow.operators.linear import Concat
from deltamark.dataflow.operators.node import walk
from deltamark.dataflow.types import NULL, Schema
from deltamark.errors import DeltamarkError
from fuzz.engines import SLICE_ROWS, FedWorkers
from fuzz.example import compare, expected, have_null
from fuzz.plans import grown_with_queries
from fuzz.sql import NotInSqlError, sql_of

MOST_ANSWERS = 4


@dataclass
class AsSql(FedWorkers):
    sql: str

    def check(self) -> None:
        try:
            with closing(self.dataflow()) as engine:
                stream = added(feed(engine, self.collection, between(self.streams, set(times))) for times in self.feeds)
        except DeltamarkError as error:
            if not expected(self.collection, self.streams).allows(error, max(times_of(self.streams))):
                raise
            return
        inputs = [row for stream in self.streams.values() for row, _, _ in stream]
        self.has_null = have_null([*inputs, *(row for _, row in stream)])
        times = times_of(self.streams)
        for time in {*times[:: max(len(times) // MOST_ANSWERS, 1)], *times[-1:]}:
            if self.is_negative(time):
                continue
            live = consolidated((row, diff) for (at, row), diff in stream.items() if at <= time)
            wanted = answer_of(self.sql, inputs_of(self.collection), self.streams, time)
            compare({(time, row): diff for row, diff in live.items()}, {(time, row): n for row, n in wanted.items()})

    def is_negative(self, time: int) -> bool:
        """Return whether a collection has negative weights at a time, which a bag of SQL cannot have."""
        parts = [each for each in walk(self.collection.node) if isinstance(each, Concat)]
        return any(diff < 0 for part in parts for diff in answer(part, self.streams, time).values())


@cache
def database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def answer_of(sql: str, schemas: dict[str, Schema], streams: Streams, time: int) -> Rows:
    """Compute an answer over the rows that are live at a time."""
    for name, schema in schemas.items():
        live = consolidated((row, diff) for row, at, diff in streams[name] if at <= time)
        database().register(name, table([row for row, diff in live.items() for _ in range(diff)], schema))
    found = Counter(database().execute(sql).fetchall())
    return {tuple(NULL if value is None else value for value in row): number for row, number in found.items()}


def table(rows: list[Row], schema: Schema) -> pa.Table:
    columns = {}
    for place, field in enumerate(schema.fields):
        values = [None if row[place] == NULL else row[place] for row in rows]
        columns[field.name] = pa.array(values, pa.string() if field.type.kind == "text" else pa.int64())
    return pa.table(columns)


def as_sql(choices: Choices) -> AsSql:
    """Draw plans of fewer and fewer steps until one can be written as SQL."""
    sql, steps = "", 5
    while not sql:
        pool, texts = grown_with_queries(choices, wild=True, heavy=False, steps=steps)
        collection = pool[-1].rows
        try:
            sql = sql_of(collection.node)
        except NotInSqlError:
            steps -= 1
    streams = streams_for(choices, inputs_of(collection), degree(collection.node))
    feeds, slice_rows, workers = cut(choices, times_of(streams)), choices.pick(SLICE_ROWS), choices.pick((1, 2, 3))
    return AsSql(collection, texts.of(collection), streams, feeds, slice_rows, workers, sql)
