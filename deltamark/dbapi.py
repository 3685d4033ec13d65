"""The database interface of Python, PEP 249: a connection of `connect`, its cursors, its errors, and its types.

A connection commits each statement by itself, unless `begin` has begun a transaction. Threads may share it.
"""

from __future__ import annotations

import datetime as dt
from time import localtime

from deltamark.database.connection import Connection, connect
from deltamark.database.cursor import Cursor
from deltamark.errors import (
    DatabaseError,
    DataError,
    DeltamarkError,
    IntegrityError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
)

apilevel = "2.0"
threadsafety = 2
paramstyle = "qmark"
"""Parameters are `?`. `$1` and `$name` are understood, too."""

Error = InterfaceError = DeltamarkError


class Warning(Exception):  # noqa: A001, N818 (its name in PEP 249)
    """A warning, which is never raised."""


class TypeObject:
    """A group of types of SQL. The type of a column in `Cursor.description` is equal to its group.

    >>> con = connect()
    >>> con.execute("SELECT 1.5 AS price").description[0][1] == NUMBER
    True
    """

    def __init__(self, *names: str) -> None:
        self.names = frozenset(names)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return other.partition("(")[0] in self.names
        return self is other

    def __hash__(self) -> int:
        return hash(self.names)


STRING = TypeObject("VARCHAR", "UUID", "JSON", "ENUM")
BINARY = TypeObject("BLOB", "BIT")
NUMBER = TypeObject(
    "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
    "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL",
)  # fmt: skip
DATETIME = TypeObject("DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIME WITH TIME ZONE", "INTERVAL")
ROWID = TypeObject()

Date, Time, Timestamp, Binary = dt.date, dt.time, dt.datetime, bytes


def DateFromTicks(ticks: float) -> dt.date:  # noqa: N802 (its name in PEP 249)
    """Return the local date of a time in seconds."""
    return Date(*localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> dt.time:  # noqa: N802 (its name in PEP 249)
    """Return the local time of day of a time in seconds."""
    return Time(*localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> dt.datetime:  # noqa: N802 (its name in PEP 249)
    """Return the local date and time of a time in seconds."""
    return Timestamp(*localtime(ticks)[:6])


__all__ = [
    "BINARY", "DATETIME", "NUMBER", "ROWID", "STRING", "Binary", "Connection", "Cursor", "DataError", "DatabaseError",
    "Date", "DateFromTicks", "Error", "IntegrityError", "InterfaceError", "InternalError", "NotSupportedError",
    "OperationalError", "ProgrammingError", "Time", "TimeFromTicks", "Timestamp", "TimestampFromTicks", "Warning",
    "apilevel", "connect", "paramstyle", "threadsafety",
]  # fmt: skip
