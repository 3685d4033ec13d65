"""ClickHouse in a Python process, without incremental maintenance: the query runs again after each batch."""

from __future__ import annotations

from pathlib import Path

import chdb
import pyarrow as pa
from chdb.session import Session
from recompute import FileEngine
from serve import serve

SETTINGS = {
    "join_use_nulls": 1,
    "aggregate_functions_null_for_empty": 1,
    "mutations_sync": 1,
    "allow_nondeterministic_mutations": 1,
}
"""NULL where SQL has NULL, and deletions that are complete when they return."""


class ClickHouse(FileEngine):
    name = f"chdb {chdb.__version__} (ClickHouse {chdb.engine_version})"
    types = {"int64": "Int64", "decimal": "Decimal(15, {})", "date32": "Date32", "string": "String"}
    nullable_type = "Nullable({})"

    def __init__(self) -> None:
        super().__init__()
        self.session = Session()

    def execute(self, sql: str) -> None:
        if sql.startswith("CREATE TABLE"):
            sql += " ENGINE = Memory"
        self.session.query(sql)

    def count(self, sql: str) -> int:
        return int(str(self.session.query(sql, "CSV")))

    def delete(self, name: str, condition: str) -> None:
        self.execute(f"ALTER TABLE {name} DELETE WHERE {condition}")

    def rows_of(self, file: Path, columns: str) -> str:
        return f"file('{file}', 'Arrow', '{columns}')"

    def prepare(self, sql: str) -> None:
        self.sql = sql

    def begin(self) -> None:
        for name, value in {**SETTINGS, "max_threads": self.workers}.items():
            self.execute(f"SET {name} = {value}")

    def run(self) -> pa.Table:
        return self.session.query(self.sql, "ArrowTable")


if __name__ == "__main__":
    serve(ClickHouse())
