"""The measured shapes are right: their answers equal DuckDB's over exactly the rows that are live, at random rounds."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing

import pyarrow as pa
import pytest

from dataflow.worker import Worker
from datagen.feed import Feed
from datagen.workload import workload
from harness import duck
from harness.shapes import SHAPES
from harness.sources import batches, relation_source


class Live:
    """A view of data that has only the rows which are live."""

    def __init__(self, dataset):
        self._dataset = dataset
        self.rows = Counter()

    def add(self, deltas):
        for delta in deltas:
            for row, diff in zip(delta.rows, delta.diff.tolist(), strict=True):
                self.rows[delta.relation, row] += diff

    def table(self, name):
        rows = sorted(row for (relation, row), weight in self.rows.items() if relation == name and weight)
        return self._dataset.table(name).take(pa.array(rows, pa.int64()))


@pytest.mark.parametrize("shape", SHAPES, ids=[shape.name for shape in SHAPES])
@pytest.mark.parametrize(("name", "logical"), [("insert", 1), ("window:100", 7), ("window:300", 100), ("refresh:5", 1)])
def test_a_shape_equals_its_sql_at_any_time(chunked, shape, name, logical):
    work, chance = workload(chunked, name), random.Random(f"{shape.name} {name}")
    plan = shape.plan({each: relation_source(chunked, each, work) for each in shape.relations})
    live, answer = Live(chunked), Counter()
    with closing(Worker(plan)) as worker:
        feed = Feed(chunked, work, worker.inputs, logical=logical)
        while not feed.done:
            deltas = feed.take(chance.randint(1, work.rounds // logical // 2 + 1))
            out = worker.feed(batches(deltas))
            live.add(deltas)
            for diff, *row in zip(out.diff.tolist(), *(each.tolist() for each in out.columns.values()), strict=True):
                answer[tuple(row)] += diff
            with duck.load(live, shape.relations) as connection:
                assert {row: n for row, n in answer.items() if n} == duck.answer(connection, shape.sql, worker.schema)
