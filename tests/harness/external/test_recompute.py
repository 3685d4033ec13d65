"""Engines that recompute remove the oldest copies of the rows that leave, and go on after a query that they refuse."""

from __future__ import annotations

import importlib
import random
import sys
from collections import Counter
from decimal import Decimal
from unittest.mock import Mock

import duckdb
import pyarrow as pa
import pytest

from deltamark.harness.engines.peers import SHARED

COLUMNS = [["a", "int64"], ["s", "string"]]
INTEGERS, TEXTS = (0, 1, None), ("", "x", None)


@pytest.fixture
def recompute(monkeypatch):
    monkeypatch.syspath_prepend(str(SHARED))
    threads = pa.cpu_count()
    yield importlib.import_module("recompute")
    pa.set_cpu_count(threads)


def arrow_engine(recompute):
    """Return an engine that keeps Arrow tables."""

    class Engine(recompute.ArrowEngine):
        def run(self, query):
            return duckdb.from_arrow(self.relations["t"]).query("t", query.reading).to_arrow_table()

    return Engine()


def table_engine(recompute):
    """Return an engine that keeps tables of DuckDB."""

    class Engine(recompute.FileEngine):
        types = {"int64": "BIGINT", "string": "VARCHAR"}  # noqa: RUF012

        def __init__(self):
            super().__init__()
            self.database = duckdb.connect()

        def execute(self, sql):
            self.database.execute(sql)

        def count(self, sql):
            return self.database.execute(sql).fetchone()[0]

        def rows_of(self, file, columns):
            del columns
            self.database.register(file.stem.replace("-", "_"), pa.ipc.open_file(file).read_all())
            return file.stem.replace("-", "_")

        def run(self, query):
            return self.database.sql(query.reading).to_arrow_table()

    return Engine()


ENGINES = pytest.mark.parametrize("make", [arrow_engine, table_engine])


def opened(engine, directory, sql="SELECT a, s FROM t"):
    relations = {"t": {"columns": COLUMNS, "rows": 100, "nullable": ["a", "s"]}}
    asked = {"query": "all", "sql": sql, "answer": COLUMNS}
    engine.open({"directory": directory, "workers": 1, "relations": relations, **asked})
    return engine


def answer(recompute, engine, directory, arriving, leaving):
    """Apply a batch; return the answer."""
    diffs = [1] * len(arriving) + [-1] * len(leaving)
    rows = [(0, diff, *row) for diff, row in zip(diffs, [*arriving, *leaving], strict=True)]
    types = {"time": pa.int64(), "diff": pa.int64(), "a": pa.int64(), "s": pa.string()}
    columns = [pa.array([row[at] for row in rows], type_) for at, type_ in enumerate(types.values())]
    file = recompute.write(directory, "t.arrow", pa.table(columns, [*types]))["file"]
    engine.feed({"relations": {"t": file}})
    engine.apply({})
    return [tuple(row.values()) for row in recompute.read(directory, engine.answer({})["file"]).to_pylist()]


@ENGINES
def test_retractions_remove_one_of_equal_rows(recompute, make, tmp_path):
    engine = opened(make(recompute), tmp_path)
    chance, live = random.Random(5), []
    for batch in range(30):
        live += (
            arriving := [(chance.choice(INTEGERS), chance.choice(TEXTS)) for _ in range(chance.choice([0, 1, 20]))]
        )
        count = chance.randrange(len(live) + 1)
        leaving = live[:count] if batch % 2 else chance.sample(live, count)
        for row in leaving:
            live.remove(row)
        assert Counter(answer(recompute, engine, tmp_path, arriving, leaving)) == Counter(live)
        assert engine.state({}) == {"rows": len(live)}


@ENGINES
def test_a_query_runs_after_a_refused_one_over_the_same_relation(recompute, make, tmp_path):
    engine = make(recompute)
    with pytest.raises(importlib.import_module("serve").RefusedError, match="missing"):
        opened(engine, tmp_path, "SELECT missing FROM t")
    opened(engine, tmp_path)
    assert answer(recompute, engine, tmp_path, [(1, "x")], []) == [(1, "x")]


def test_a_column_with_values_of_several_types_becomes_one_of_numbers(recompute, monkeypatch):
    """ClickHouse answers `CASE WHEN a > 0 THEN p ELSE 0.5 END` with such a column."""
    assert recompute
    absent = Mock(__version__="", engine_version="")
    monkeypatch.setitem(sys.modules, "chdb", absent)
    monkeypatch.setitem(sys.modules, "chdb.session", absent)
    clickhouse = importlib.import_module("clickhouse")
    places = pa.array([0, 1, 2], pa.int8())
    for values, expected in (([Decimal("0.25"), 0.5, None], [0.25, 0.5, None]), ([2, 2**40, None], [2, 2**40, None])):
        children = [pa.array([value], None if value is not None else pa.null()) for value in values]
        union = pa.UnionArray.from_dense(places, pa.array([0, 0, 0], pa.int32()), children)
        assert clickhouse.of_one_type(pa.chunked_array([union])).to_pylist() == expected
