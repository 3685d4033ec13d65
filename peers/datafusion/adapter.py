"""DataFusion without incremental maintenance: the query runs again after each batch, over Arrow tables in memory."""

from __future__ import annotations

import datafusion
import pyarrow as pa
from recompute import ArrowEngine, Columns, Query
from serve import serve

SETTINGS = {"datafusion.sql_parser.parse_float_as_decimal": "true"}
"""A number with a point is exact, as in SQL."""


class DataFusion(ArrowEngine):
    name = f"DataFusion {datafusion.__version__}"

    def begin(self) -> None:
        self.context = datafusion.SessionContext(
            datafusion.SessionConfig(SETTINGS).with_target_partitions(self.workers)
        )

    def create(self, name: str, columns: Columns, nullable: frozenset[str]) -> None:
        super().create(name, columns, nullable)
        self.register(name)

    def change(self, name: str, arriving: pa.Table, leaving: pa.Table) -> None:
        super().change(name, arriving, leaving)
        self.register(name)

    def register(self, name: str) -> None:
        """Let queries read the present rows of a relation."""
        table = self.relations[name]
        self.context.deregister_table(name)
        self.context.register_record_batches(name, [table.to_batches() or empty(table)])

    def run(self, query: Query) -> pa.Table:
        return self.context.sql(query.reading).to_arrow_table()


def empty(table: pa.Table) -> list[pa.RecordBatch]:
    """Return one batch without rows, which has the schema of the table."""
    return [pa.RecordBatch.from_pylist([], table.schema)]


if __name__ == "__main__":
    serve(DataFusion())
