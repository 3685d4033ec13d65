"""ClickHouse in a Python process, which inserts rows from Arrow files into tables in memory."""

from __future__ import annotations

from pathlib import Path

import chdb
import pyarrow as pa
from chdb.session import Session
from recompute import FileEngine

SETTINGS = {
    "join_use_nulls": 1,
    "aggregate_functions_null_for_empty": 1,
    "mutations_sync": 1,
    "allow_nondeterministic_mutations": 1,
    "session_timezone": "'UTC'",
    "cast_keep_nullable": 1,
    "group_by_use_nulls": 1,
    "prefer_column_name_to_alias": 1,
    **{f"{operation}_default_mode": "'DISTINCT'" for operation in ("union", "intersect", "except")},
}
"""NULL where SQL has NULL, no local times, names and set operations of SQL, and deletions that are complete when they
return."""


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

    def begin(self) -> None:
        for name, value in {**SETTINGS, "max_threads": self.workers}.items():
            self.execute(f"SET {name} = {value}")

    def fetched(self, sql: str) -> pa.Table:
        """Return the answer to a query. A timestamp has a time zone in ClickHouse, and none in the texts."""
        table = self.session.query(sql, "ArrowTable")
        for at, field in enumerate(table.schema):
            if pa.types.is_timestamp(field.type):
                table = table.set_column(at, field.name, table.column(at).cast(pa.timestamp("us")))
            elif pa.types.is_union(field.type):
                table = table.set_column(at, field.name, of_one_type(table.column(at)))
        return table


def of_one_type(column: pa.ChunkedArray) -> pa.Array:
    """Return a column with values of several types as one of numbers: ClickHouse has no type for both Int64 and UInt64,
    as in `coalesce(a, count(*))`, nor for both decimals and doubles, as in `CASE WHEN a > 0 THEN p ELSE 0.5 END`.
    """
    values = column.to_pylist()
    if any(isinstance(each, float) for each in values):
        values = [None if each is None else float(each) for each in values]
    return pa.array(values)
