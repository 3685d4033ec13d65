"""ClickHouse in a Python process, with its materialized views, which see insertions and no deletions."""

from __future__ import annotations

import pyarrow as pa
from clickhouse import ClickHouse
from recompute import Query
from serve import Message, RefusedError, serve
from views import UnsupportedError, views_of

NULL_OF_STATES = "SET aggregate_functions_null_for_empty = 0"
"""The states of aggregates have no such form; their arguments may have NULL, which leads to the same answer."""


class Views(ClickHouse):
    """The engine: `run` reads the rows of the views."""

    name = f"{ClickHouse.name}, views"
    attaches = False

    def hello(self, request: Message) -> Message:
        return {**super().hello(request), "maintains": True}

    def begin(self) -> None:
        super().begin()
        self.execute(NULL_OF_STATES)
        self.made: list[str] = []

    def prepare(self, sql: str) -> str:
        columns = {name: [column for column, _ in table.columns] for name, table in self.tables.items()}
        try:
            views = views_of(sql, columns)
        except UnsupportedError as error:
            raise RefusedError(error) from error
        self.session.query(
            f"CREATE TABLE answer ENGINE = {views.storage} EMPTY AS {next(iter(views.inserts.values()))}"
        )
        for name, insert in views.inserts.items():
            self.execute(f"CREATE MATERIALIZED VIEW by_{name} TO answer AS {insert}")
            self.made.append(f"by_{name}")
        return views.reading

    def run(self, query: Query) -> pa.Table:
        return self.fetched(query.reading)

    def end(self, request: Message) -> Message:
        for view in self.made:
            self.execute(f"DROP VIEW {view}")
        self.execute("DROP TABLE IF EXISTS answer")
        return super().end(request)


if __name__ == "__main__":
    serve(Views())
