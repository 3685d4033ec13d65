"""The answers of DuckDB, which runs a query again over the rows that are live at a time."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from threading import Event, Thread, get_ident
from typing import Any

import duckdb
import pyarrow as pa

from fuzz.queries.doubles import add_functions
from fuzz.queries.tables import Table

Answer = Counter[tuple[object, ...]]
NAMES = ("t", "u", "v")

MOST_ROWS = 50_000
"""The most rows of an intermediate result. An example of several cross joins with more takes minutes, or more memory
than checked kernels reserve.
"""

LONG_SECONDS, POLL_SECONDS = 2.0, 0.1
"""The seconds of CPU time after which DuckDB's joins count as large, and those between two looks at this time. Other
processes do not take it, so that examples are as large on a busy machine.
"""


MOST_MEMORY = "1GB"
"""The memory of DuckDB. Joins that need more count as large, too."""


class UnfitError(Exception):
    """A query that is no example: DuckDB raises an error for some rows, or gives several answers; or joins are huge."""


def general(text: str) -> str:
    """Return the text of an error without a place, names and numbers."""
    return re.sub(r" +", " ", re.sub(r'"[^"]*"|[(]line .*|[0-9]+', "", text))[:70].strip()


@cache
def database(*, optimized: bool) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1, "memory_limit": MOST_MEMORY})
    add_functions(connection)
    connection.execute("SET TimeZone = 'UTC'")
    if not optimized:
        connection.execute("PRAGMA disable_optimizer")
        connection.execute("PRAGMA enable_profiling = 'no_output'")
    return connection


def rows_at(tables: Sequence[Table], time: int, *, optimized: bool = True) -> duckdb.DuckDBPyConnection:
    """Return a database with the rows that are live at a time."""
    return database_of({each.name: each.at(time) for each in tables}, optimized=optimized)


def database_of(tables: Mapping[str, pa.Table], *, optimized: bool) -> duckdb.DuckDBPyConnection:
    """Return a database with some rows of each table."""
    connection = database(optimized=optimized)
    for name in NAMES:
        connection.unregister(name)
    for name, rows in tables.items():
        connection.register(name, rows)
    return connection


def answer_of(text: str, tables: Sequence[Table], time: int, *, optimized: bool = True) -> Answer:
    """Return DuckDB's answer over the rows that are live at a time. (A relation would be planned twice.)"""
    try:
        found = rows_at(tables, time, optimized=optimized).execute(text).fetchall()
    except duckdb.Error as error:
        database.cache_clear()  # an internal error closes it
        raise UnfitError(f"DuckDB's {type(error).__name__}") from error
    return Counter(found)


def refuse_large(text: str, changed: Mapping[str, pa.Table]) -> None:
    """Refuse a query of which DuckDB makes many rows of the rows of all changes, with joins as the text has them."""
    connection = database_of(changed, optimized=False)
    try:
        with _interrupted(connection):
            connection.sql(text).limit(MOST_ROWS + 1).fetchall()
    except (duckdb.InterruptException, duckdb.OutOfMemoryException):
        raise UnfitError("many rows in a join") from None
    except duckdb.Error:  # as for a subquery with several rows
        database.cache_clear()
        return
    profile = json.loads(connection.get_profiling_information(format="json"))
    if max(map(_most_rows, profile.get("operator", [])), default=0) > MOST_ROWS:
        raise UnfitError("many rows in a join")


@contextmanager
def _interrupted(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Interrupt a database after some CPU time of this thread, in which its queries run."""
    clock, done = time.pthread_getcpuclockid(get_ident()), Event()
    end = time.clock_gettime(clock) + LONG_SECONDS

    def watch() -> None:
        while not done.wait(POLL_SECONDS):
            if time.clock_gettime(clock) > end:
                connection.interrupt()

    thread = Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _most_rows(operator: dict[str, Any]) -> int:
    return max([operator["intermediate_rows"], *map(_most_rows, operator.get("children", []))])
