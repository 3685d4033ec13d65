"""ClickHouse in a Python process, without incremental maintenance: the query runs again after each batch."""

from __future__ import annotations

import pyarrow as pa
from clickhouse import ClickHouse
from recompute import Query
from serve import serve


class Recomputing(ClickHouse):
    def run(self, query: Query) -> pa.Table:
        return self.fetched(query.reading)


if __name__ == "__main__":
    serve(Recomputing())
