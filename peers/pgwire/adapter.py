"""A server that speaks the protocol of PostgreSQL: COPY brings each batch, and then a view of the query is read.

By default a private PostgreSQL is started, whose materialized view is refreshed after each batch: the query runs again.
Options name another server, and the statements that create, refresh and read its view.
"""

from __future__ import annotations

import argparse
import io
import re
import tomllib
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import psycopg
import pyarrow as pa
import pyarrow.csv
from ends import parts_of
from recompute import ARRIVAL, Columns, Rows, TableEngine
from serve import Message, serve
from server import Server

MANIFEST = tomllib.loads((Path(__file__).parent / "peer.toml").read_text(encoding="utf-8"))

SCHEMA = "deltamark"
"""The schema of all tables, which is made anew for each query and dropped after it."""

ANALYZE_SHARE, ANALYZE_ROWS = 0.1, 50
"""A table is analyzed when more of its rows have changed: the defaults of autovacuum."""


class Text(NamedTuple):
    """Rows as the text that COPY takes, and the table that they are copied to."""

    rows: Rows
    content: memoryview


class Pgwire(TableEngine):
    """The engine. A query has a connection of its own. A private server runs from the first query to `close`."""

    types = {"int64": "BIGINT", "decimal": "NUMERIC(15, {})", "date32": "DATE", "string": "TEXT"}

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        self.options, self.name = options, options.name
        self.server: Server | None = None

    def hello(self, request: Message) -> Message:
        return {**super().hello(request), "maintains": self.options.maintains}

    def begin(self) -> None:
        if not (self.options.dsn or self.server):
            self.server = Server(self.directory)
        self.connection = self.server.connect() if self.server else psycopg.connect(self.options.dsn)
        self.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
        self.execute(f"CREATE SCHEMA {SCHEMA}")
        self.execute(f"SET search_path = {SCHEMA}, public")
        self.execute(f"SET max_parallel_workers_per_gather = {self.workers - 1}")
        self.changed: dict[str, int] = {}
        """The rows of each table that have changed since it was analyzed."""

    def execute(self, sql: str) -> None:
        self.connection.execute(sql)

    def count(self, sql: str) -> int:
        return self.connection.execute(sql).fetchone()[0]

    def create(self, name: str, columns: Columns, nullable: frozenset[str]) -> None:
        """Create a table, an index on each key, and a table for the rows that leave."""
        super().create(name, columns, nullable)
        self.changed[name] = 0
        names = [column for column, _ in columns]
        self.execute(f"CREATE TEMP TABLE {_leaving(name)} AS SELECT {', '.join(names)} FROM {name} LIMIT 0")
        for column in (ARRIVAL[0], *(each for each in names if each.endswith("key"))):
            self.execute(f"CREATE INDEX ON {name} ({column})")

    def prepare(self, sql: str) -> None:
        if self.options.dsn:  # a program that is no peer gets the text of DuckDB
            for pattern, replacement in MANIFEST["dialect"]:
                sql = re.sub(pattern, replacement, sql)
        body, end = parts_of(sql)
        self.read = self.options.read.format(end=end)
        self.execute(self.options.create.format(query=sql, body=body))
        self.connection.commit()

    def converted(self, name: str, arriving: pa.Table, leaving: pa.Table) -> tuple[Text, Text]:
        return _text(name, self.numbered(name, arriving)), _text(_leaving(name), leaving)

    def change(self, name: str, arriving: Text, leaving: Text) -> None:
        self.copy(arriving)
        if leaving.rows.count:
            self.execute(f"TRUNCATE {leaving.rows.sql}")
            self.copy(leaving)
            self.remove(name, leaving.rows)
        self.changed[name] += arriving.rows.count + leaving.rows.count
        if self.changed[name] > ANALYZE_ROWS + ANALYZE_SHARE * self.tables[name].arrived:
            self.execute(f"ANALYZE {name}")
            self.changed[name] = 0

    def copy(self, text: Text) -> None:
        if text.rows.count:
            with self.connection.cursor().copy(f"COPY {text.rows.sql} FROM STDIN (FORMAT csv)") as copy:
                copy.write(text.content)

    def run(self) -> pa.Table:
        """Refresh the view, which ends the transaction of the batch, and read it."""
        if self.options.refresh:
            self.execute(self.options.refresh)
        self.connection.commit()
        rows = self.connection.execute(self.read).fetchall()
        self.connection.commit()
        return pa.table([pa.array([row[at] for row in rows]) for at in range(len(self.columns))], self.columns)

    def end(self, _: Message) -> Message:
        self.tables = {}
        self.connection.rollback()
        self.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
        self.connection.commit()
        self.connection.close()
        return {}

    def close(self) -> None:
        """End the private server. If the adapter is killed, whoever kills it ends its processes, too."""
        if self.server:
            self.server.close()


def _leaving(name: str) -> str:
    return f"leaving_{name}"


def _text(table: str, rows: pa.Table) -> Text:
    """Convert rows to CSV, in which NULL is empty and an empty string has quotation marks."""
    file = io.BytesIO()
    pyarrow.csv.write_csv(rows, file, pyarrow.csv.WriteOptions(include_header=False))
    return Text(Rows(rows.num_rows, table), file.getbuffer())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dsn", default="", help="of a server, in place of a private one")
    parser.add_argument("--name", default=MANIFEST["name"], help="of the engine and its version, for records")
    parser.add_argument(
        "--create", default="CREATE MATERIALIZED VIEW answer AS {query}", help="{body}: without the order and the limit"
    )
    parser.add_argument("--refresh", default="REFRESH MATERIALIZED VIEW answer")
    parser.add_argument("--read", default="SELECT * FROM answer", help="{end}: the order and the limit")
    parser.add_argument("--maintains", action="store_true", help="the server does not run the query again")
    return parser.parse_args()


if __name__ == "__main__":
    with closing(Pgwire(_options())) as pgwire:
        serve(pgwire)
