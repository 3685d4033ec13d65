"""A server of PostgreSQL whose tables are changed by COPY and by DELETE, for engines that differ in their views."""

from __future__ import annotations

import io
from typing import NamedTuple

import psycopg
import pyarrow as pa
import pyarrow.csv
from recompute import ARRIVAL, Columns, Query, Rows, TableEngine
from serve import Message, RefusedError
from server import Server

SCHEMA = "deltamark"
"""The schema of all tables, which is made anew for each query and dropped after it."""

ANALYZE_SHARE, ANALYZE_ROWS = 0.1, 50
"""A table is analyzed when more of its rows have changed: the defaults of autovacuum."""


class Text(NamedTuple):
    """Rows as the text that COPY takes, and the table that they are copied to."""

    rows: Rows
    content: memoryview


class Postgres(TableEngine):
    """The engine. A query has a connection of its own. A private server runs from the first query to `close`.

    dsn: of a server in its place.
    """

    dsn = ""

    types = {"int64": "BIGINT", "decimal": "NUMERIC(15, {})", "date32": "DATE", "string": "TEXT"}

    def __init__(self) -> None:
        super().__init__()
        self.server: Server | None = None

    def begin(self) -> None:
        if not (self.dsn or self.server):
            self.server = Server(self.directory)
        self.connection = self.server.connect() if self.server else psycopg.connect(self.dsn)
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

    def attach(self, request: Message) -> Message:
        try:
            return super().attach(request)
        except RefusedError:
            self.connection.rollback()
            raise

    def run(self, query: Query) -> pa.Table:
        """Commit the transaction of the batch, and read the answer."""
        self.connection.commit()
        rows = self.connection.execute(query.reading).fetchall()
        self.connection.commit()
        return pa.table([pa.array([row[at] for row in rows]) for at in range(len(query.columns))], query.columns)

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
