"""Maintain the answer of a query of SQL while the rows of Parquet files come and go, and compare it with DuckDB's.

    python examples/parquet_stream.py QUERY.sql sales=sales.parquet shops=shops.parquet --batch 1000

Each batch has the next rows of every table, in the order of the files, and is one logical time. A file of changes has a
column of weights: 1 inserts a row, -1 retracts an equal one. `--weight sales.diff` names it. At the end, DuckDB answers
the query over the rows that are live then; the exit code is 1 if the answers differ.
"""

import argparse
import sys
import time
from contextlib import closing
from itertools import chain, zip_longest
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
from tabulate import tabulate

from deltamark import TEXT, Dataflow, DeltamarkError, Schema, arrow_batch, parquet_table, sql
from deltamark.dataflow.language.collection import declared
from deltamark.dataflow.sql.arrow_tables import footer
from deltamark.dataflow.sql.planner import quoted
from deltamark.dataflow.types import Field
from deltamark.errors import naming, unknown
from deltamark.harness.check.answers import dated, unordered_difference
from deltamark.harness.engines.base import TOLERANCE

SHOWN_ROWS = 40
MOST_ROWS = 10**9
"""The most live rows of a file of changes, since DuckDB gets each of them."""


class Table:
    """Parquet files with the rows of a table, or with its changes if one of their columns has weights."""

    def __init__(self, name, files, weight):
        self.name, self.files, self.weight = name, files, weight
        columns = footer(files[0]).schema.to_arrow_schema().names
        if weight and weight not in columns:
            raise unknown(f"column of {name}", weight, columns)
        rows = parquet_table(name, files, columns=[]).schema.rows
        self.problems, fields = {}, []
        for column in columns:
            try:
                fields += parquet_table(name, files, columns=[column]).schema.fields
            except DeltamarkError as problem:  # it matters only if the query reads the column
                self.problems[column] = problem
                fields.append(Field(column, TEXT.or_null()))
        kept = [field for field in fields if field.name != weight]
        self.collection = declared(name, kept, self._most_live() if weight else rows)

    def _most_live(self):
        weights = (pq.read_table(file, columns=[self.weight]) for file in self.files)
        diffs = (arrow_batch(each, Schema((), 0), 0, self.weight).diff for each in weights)
        most = sum(each.clip(0).sum(dtype=object) for each in diffs)
        if most > MOST_ROWS:
            raise DeltamarkError(
                "too many live rows", f"{self.name}: {most:,}", f"give weights up to {MOST_ROWS:,} in sum"
            )
        return most

    def batches(self, columns, rows):
        """Yield the rows of the files in batches of Arrow, with some of the columns."""
        for column in columns:
            if column in self.problems:
                raise self.problems[column]
        names = [*columns, self.weight] if self.weight else list(columns)
        return chain.from_iterable(pq.ParquetFile(file).iter_batches(rows, columns=names) for file in self.files)

    def show(self, connection):
        """Create the view of the rows that are live at the end."""
        files = ", ".join("'" + str(file).replace("'", "''") + "'" for file in self.files)
        live = f"FROM read_parquet([{files}], hive_partitioning = false)"
        if self.weight:
            weight = quoted(self.weight)
            net = f"SELECT * EXCLUDE ({weight}), sum({weight}) AS {weight} {live} GROUP BY ALL"
            least = connection.execute(f"SELECT least(min({weight}), 0) FROM ({net})").fetchone()[0]
            if least < 0:
                actual = f"{self.name}: the weights of a row sum to {least}"
                raise DeltamarkError("a row is retracted more often than it is inserted", actual, "correct the changes")
            copies = f"unnest(range(net.{weight}::BIGINT))"
            live = f"SELECT net.* EXCLUDE ({weight}) FROM ({net}) AS net, LATERAL (SELECT {copies})"
        connection.execute(f"CREATE VIEW {quoted(self.name)} AS {live}")


def refusal(text, relations):
    """Return the cause of the error for a query, and the actual value; nothing if the query has a plan."""
    try:
        sql(text, relations)
    except DeltamarkError as error:
        return error.cause, error.actual
    return None


def plan_of(text, tables):
    """Plan a query. If the query is refused, a column whose absence changes the error is the problem."""
    relations = {name: table.collection for name, table in tables.items()}
    if refused := refusal(text, relations):
        for name, table in tables.items():
            for column, problem in table.problems.items():
                others = table.collection.select(*(each for each in table.collection.schema.names if each != column))
                if refusal(text, {**relations, name: others}) != refused:
                    raise problem
    return sql(text, relations)


def maintain(plan, tables, rows):
    """Feed all batches; return the answer at the end, as a table of Arrow."""
    seconds, tuples = [], 0
    with Dataflow(plan) as dataflow:
        read = [tables[name] for name in dataflow.inputs]
        dataflow.keep()
        dataflow.push({})  # the answer over empty tables, at time 0
        streams = [table.batches(dataflow.inputs[table.name], rows) for table in read]
        for at, parts in enumerate(zip_longest(*streams), 1):
            fed = {
                table.name: arrow_batch(part, table.collection.schema, at, table.weight or 1)
                for table, part in zip(read, parts)
                if part is not None
            }
            started = time.perf_counter()
            dataflow.push(fed)
            seconds.append(time.perf_counter() - started)
            tuples += sum(len(each.time) for each in fed.values())
        answer = dataflow.answer()
    if seconds:
        rate = f"{tuples / sum(seconds):,.0f} rows/s, the slowest batch {max(seconds) * 1000:.1f} ms"
        print(f"{tuples:,} rows in {len(seconds):,} batch{'es' if len(seconds) > 1 else ''}: {rate}")
    return answer


def recompute(text, tables):
    """Return DuckDB's answer over the rows that are live at the end."""
    with closing(duckdb.connect()) as connection:
        try:
            for table in tables.values():
                table.show(connection)
            return [tuple(map(dated, row)) for row in connection.execute(text).fetchall()]
        except duckdb.Error as error:
            raise DeltamarkError(
                "DuckDB cannot answer the query", str(error).partition("\n")[0], "correct it"
            ) from None


def in_order_of(theirs, mine):
    """Return equal rows in the order of others, which the query may state."""

    def key(row):
        return tuple(f"{value:.12g}" if isinstance(value, float) else dated(value) for value in row)

    places = {key(row): place for place, row in enumerate(theirs)}
    return sorted(mine, key=lambda row: places[key(row)])


def by_table(pairs):
    """Return a dictionary of pairs; refuse a table that is given twice."""
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise DeltamarkError("a table is given twice", name, "write it once, as TABLE=FILE,FILE, with one --weight")
    return dict(pairs)


def tables_of(words, weights):
    files = by_table([word.partition("=")[::2] for word in words])
    weight_of = by_table([word.rpartition(".")[::2] for word in weights])
    for name, value in files.items():
        if not (name and value):
            raise DeltamarkError("not a table", name or value, "write TABLE=FILE, or TABLE=FILE,FILE")
    for name in weight_of:
        if name not in files:
            raise unknown("table of --weight", name or "no name", files)
    return {
        name: Table(name, [Path(each) for each in value.split(",")], weight_of.get(name))
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
    tables = tables_of(args.tables, args.weight)
    plan = plan_of(text, tables)
    theirs, answer = recompute(text, tables), maintain(plan, tables, args.batch)
    mine = list(zip(*(column.to_pylist() for column in answer.columns)))
    if wrong := unordered_difference(mine, theirs, TOLERANCE):
        print(f"WRONG: the answer differs from DuckDB's\n{wrong}")
        return 1
    print(tabulate(in_order_of(theirs, mine)[:SHOWN_ROWS], answer.column_names, disable_numparse=True))
    more = f", of which {SHOWN_ROWS} are shown" if len(mine) > SHOWN_ROWS else ""
    print(f"{len(mine):,} rows{more}; DuckDB has the same answer")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(run(sys.argv[1:]))
    except DeltamarkError as error:
        sys.exit(f"error: {error}")
