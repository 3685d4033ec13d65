"""Maintain the answer of a query of SQL while the rows of Parquet files come and go, and compare it with DuckDB's.

    python examples/parquet_stream.py QUERY.sql sales=sales.parquet shops=shops.parquet --batch 1000

Each batch has the next rows of every table, in the order of the files, and is one logical time. A file of changes has a
column of weights: 1 inserts a row, -1 retracts an equal one. `--weight sales.diff` names it. At the end, DuckDB answers
the query over the rows that are live then; the exit code is 1 if the answers differ.
"""

import argparse
import re
import sys
import time
from contextlib import closing
from datetime import datetime
from itertools import chain, zip_longest
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
from tabulate import tabulate

from deltamark import Dataflow, DeltamarkError, Schema, arrow_batch, parquet_table, sql
from deltamark.dataflow.sql.arrow_tables import footer
from deltamark.errors import naming, unknown
from deltamark.harness.check.decode import answer_columns
from deltamark.harness.check.difference import unordered_difference
from deltamark.harness.check.snapshot import Snapshot
from deltamark.harness.engines.base import TOLERANCE

SHOWN_ROWS = 40


class Table:
    """Parquet files with the rows of a table, or with its changes if one of their columns has weights."""

    def __init__(self, name, files, weight, text):
        self.name, self.files, self.weight = name, files, weight
        columns = footer(files[0]).schema.to_arrow_schema().names
        if weight and weight not in columns:
            raise unknown(f"column of {name}", weight, columns)
        selects_all = re.search(r"(\bselect|\bdistinct|[,.])\s*\*", text, re.IGNORECASE)
        columns = [each for each in columns if each != weight]
        read = [each for each in columns if selects_all or each.lower() in text.lower()]
        self.collection = parquet_table(name, files, rows=self._most_live(), columns=read or columns)

    def _most_live(self):
        if not self.weight:
            return None
        weights = (pq.read_table(file, columns=[self.weight]) for file in self.files)
        return int(sum(arrow_batch(each, Schema((), 0), 0, self.weight).diff.clip(0).sum() for each in weights))

    def batches(self, columns, rows):
        """Yield the rows of the files in batches of Arrow, with some of the columns."""
        names = [*columns, self.weight] if self.weight else list(columns)
        return chain.from_iterable(pq.ParquetFile(file).iter_batches(rows, columns=names) for file in self.files)

    @property
    def live_rows(self):
        """The SQL of the rows that are live at the end."""
        rows = f"read_parquet({[str(file) for file in self.files]})"
        if not self.weight:
            return f"FROM {rows}"
        weight = f'"{self.weight}"'
        net = f"SELECT * EXCLUDE ({weight}), sum({weight})::BIGINT AS {weight} FROM {rows} GROUP BY ALL"
        return f"SELECT * EXCLUDE ({weight}, copy) FROM ({net}), LATERAL (SELECT unnest(range({weight})) AS copy)"


def maintain(plan, tables, rows):
    """Feed all batches; return the answer at the end."""
    answer, seconds, tuples = Snapshot(plan.schema), [], 0
    with Dataflow(plan) as dataflow:
        read = [tables[name] for name in dataflow.inputs]
        streams = [table.batches(dataflow.inputs[table.name], rows) for table in read]
        for at, parts in enumerate(zip_longest(*streams)):
            fed = {
                table.name: arrow_batch(part, table.collection.schema, at, table.weight or 1)
                for table, part in zip(read, parts)
                if part is not None
            }
            started = time.perf_counter()
            answer.add(dataflow.feed(fed))
            seconds.append(time.perf_counter() - started)
            tuples += sum(len(each.time) for each in fed.values())
    if seconds:
        rate = f"{tuples / sum(seconds):,.0f} rows/s, the slowest batch {max(seconds) * 1000:.1f} ms"
        print(f"{tuples:,} rows in {len(seconds):,} batches: {rate}")
    return answer.answer(())


def recompute(text, tables):
    """Return DuckDB's answer over the rows that are live at the end; what DuckDB rounds to a midnight is a date."""
    with closing(duckdb.connect()) as connection:
        for table in tables.values():
            connection.execute(f'CREATE VIEW "{table.name}" AS {table.live_rows}')
        rows = connection.execute(text).fetchall()
    return [tuple(each.date() if isinstance(each, datetime) else each for each in row) for row in rows]


def in_order_of(theirs, mine):
    """Return equal rows in the order of others, which the query may state."""

    def key(row):
        return tuple(f"{value:.12g}" if isinstance(value, float) else value for value in row)

    places = {key(row): place for place, row in enumerate(theirs)}
    return sorted(mine, key=lambda row: places[key(row)])


def tables_of(words, weights, text):
    files = dict(word.partition("=")[::2] for word in words)
    weight_of = dict(word.rpartition(".")[::2] for word in weights)
    for name, value in files.items():
        if not (name and value):
            raise DeltamarkError("not a table", name or value, "write TABLE=FILE, or TABLE=FILE,FILE")
    for name in weight_of:
        if name not in files:
            raise unknown("table of --weight", name or "no name", files)
    return {
        name: Table(name, [Path(each) for each in value.split(",")], weight_of.get(name), text)
        for name, value in files.items()
    }


def run(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("query", type=Path, metavar="QUERY.sql", help="a file with one SELECT statement")
    parser.add_argument("tables", nargs="+", metavar="TABLE=FILE,FILE", help="Parquet files with the rows of a table")
    parser.add_argument(
        "--batch", type=int, default=10_000, metavar="ROWS", help="rows of a table per batch (default: 10000)"
    )
    parser.add_argument(
        "--weight", action="append", default=[], metavar="TABLE.COLUMN", help="the column with the weights of changes"
    )
    args = parser.parse_args(words)
    if args.batch < 1:
        raise DeltamarkError("not a number of rows per batch", args.batch, "give at least 1")
    with naming(args.query):
        text = args.query.read_text(encoding="utf-8")
    tables = tables_of(args.tables, args.weight, text)
    plan = sql(text, {name: table.collection for name, table in tables.items()})
    mine, theirs = maintain(plan, tables, args.batch), recompute(text, tables)
    if wrong := unordered_difference(mine, theirs, TOLERANCE):
        print(f"WRONG: the answer differs from DuckDB's\n{wrong}")
        return 1
    headers = [column.name for column in answer_columns(plan.schema)]
    print(tabulate(in_order_of(theirs, mine)[:SHOWN_ROWS], headers, disable_numparse=True))
    more = f", of which {SHOWN_ROWS} are shown" if len(mine) > SHOWN_ROWS else ""
    print(f"{len(mine):,} rows{more}; DuckDB has the same answer")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(run(sys.argv[1:]))
    except DeltamarkError as error:
        sys.exit(f"error: {error}")
