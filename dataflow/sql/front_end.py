"""DuckDB as the front end of SQL: a database without rows, in which texts are parsed, bound and planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "python_enable_replacements": False,
    "enable_external_access": False,
}
"""Only the relations are tables: no files, and no variables of Python."""


def connect() -> duckdb.DuckDBPyConnection:
    """Open an empty database."""
    import duckdb  # noqa: PLC0415 (it takes a while to load)

    return duckdb.connect(config=CONFIG)
