"""Hyper without incremental maintenance: the query runs again after each batch."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import tableauhyperapi
from recompute import FileEngine, Query
from serve import Message, serve
from tableauhyperapi import Connection, HyperProcess, Telemetry


class Hyper(FileEngine):
    name = f"Hyper {tableauhyperapi.__version__}"
    types = {"int64": "BIGINT", "decimal": "NUMERIC(15, {})", "date32": "DATE", "string": "TEXT"}

    def begin(self) -> None:
        parameters = {"log_config": "", "hard_concurrent_query_thread_limit": str(self.workers)}
        self.process = HyperProcess(Telemetry.DO_NOT_SEND_USAGE_DATA_TO_TABLEAU, parameters=parameters)
        self.connection = Connection(self.process.endpoint)

    def execute(self, sql: str) -> None:
        self.connection.execute_command(sql.replace("CREATE TABLE", "CREATE TEMP TABLE"))

    def count(self, sql: str) -> int:
        return self.connection.execute_scalar_query(sql)

    def rows_of(self, file: Path, columns: str) -> str:
        return f"external('{file}', COLUMNS => DESCRIPTOR({columns}), FORMAT => 'arrowfile')"

    def run(self, query: Query) -> pa.Table:
        rows = [[_plain(value) for value in row] for row in self.connection.execute_list_query(query.reading)]
        return pa.table([pa.array([row[at] for row in rows]) for at in range(len(query.columns))], query.columns)

    def end(self, _: Message) -> Message:
        self.tables = {}
        self.connection.close()
        self.process.close()
        return {}


def _plain(value: object) -> object:
    """Convert a date or a timestamp of Hyper to one of Python."""
    if isinstance(value, tableauhyperapi.Timestamp):
        return value.to_datetime()
    return value.to_date() if isinstance(value, tableauhyperapi.Date) else value


if __name__ == "__main__":
    serve(Hyper())
