"""DuckDB's front end in one database for all texts of a process: a new one takes 15 ms, and a text 2."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest.mock import patch

from deltamark.dataflow.sql import front_end

if TYPE_CHECKING:
    import duckdb


class SharedDatabase:
    """A database that is lent to one text after another, each of which finds it empty."""

    def __init__(self) -> None:
        self._database: duckdb.DuckDBPyConnection | None = None

    @contextmanager
    def connect(self) -> Iterator[duckdb.DuckDBPyConnection]:
        import duckdb  # noqa: PLC0415 (if it is loaded before all tests, it prints what is left of it at the end)

        if self._database is None:
            self._database = duckdb.connect(config=front_end.CONFIG | front_end.without_threads())
        with self._database.cursor() as connection:
            connection.begin()
            try:
                yield connection
            finally:
                try:
                    connection.rollback()
                    connection.execute("SELECT 1")
                except duckdb.Error:  # an internal error ends the use of a database
                    self._database = None


@contextmanager
def shared_front_end() -> Iterator[None]:
    with patch.object(front_end, "connect", SharedDatabase().connect):
        yield
