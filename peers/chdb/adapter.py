"""ClickHouse in a Python process, without incremental maintenance: the query runs again after each batch."""

from __future__ import annotations

import pyarrow as pa
from clickhouse import ClickHouse
from serve import serve


class Recomputing(ClickHouse):
    def prepare(self, sql: str) -> None:
        self.sql = sql

    def run(self) -> pa.Table:
        return self.fetched(self.sql)


if __name__ == "__main__":
    serve(Recomputing())
