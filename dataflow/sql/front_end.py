"""DuckDB as the front end of SQL: a database without rows, in which texts are parsed, bound and planned."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import duckdb

Config: TypeAlias = dict[str, str | bool | int | float | list[str]]

CONFIG: Config = {"python_enable_replacements": False, "enable_external_access": False}
"""Only the relations are tables: no files, and no variables of Python."""


def without_threads() -> Config:
    """Return the settings with which a database starts no threads, so that the process may fork while it is open.

    A database waits for its threads when it is closed. In a forked process they do not exist, and closing it crashes or
    never ends. With `threads` alone, DuckDB 2 starts 8 threads for files.
    """
    import duckdb  # noqa: PLC0415 (it takes a while to load)

    version = int(duckdb.__version__.partition(".")[0])
    return {"threads": 1, "async_threads": 0} if version >= 2 else {"threads": 1}


def connect() -> duckdb.DuckDBPyConnection:
    """Open an empty database."""
    import duckdb  # noqa: PLC0415 (it takes a while to load)

    return duckdb.connect(config=CONFIG | without_threads())


@cache
def parser() -> duckdb.DuckDBPyConnection:
    """Return an empty database, the same in the whole process, that parses texts.

    That of DuckDB itself, which its functions such as `duckdb.sql` use, has threads.
    """
    import duckdb  # noqa: PLC0415 (it takes a while to load)

    return duckdb.connect(config=CONFIG | without_threads())
