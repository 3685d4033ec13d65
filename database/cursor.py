"""Cursors of PEP 249: the result of the last statement that each has run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Self

from deltamark.database.result import Description, Result, Row, nothing
from deltamark.database.statements import Parameters
from deltamark.errors import ProgrammingError

if TYPE_CHECKING:
    from deltamark.database.connection import Connection


class Cursor:
    """A cursor, for tools that read by the database interface of Python. `Connection.execute` needs none.

    >>> with con.cursor() as cursor:
    ...     cursor.execute("SELECT max(shop) < ? AS small FROM sales", [99]).fetchall()
    [(True,)]
    """

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection | None = connection
        self._result = nothing()
        self.arraysize = 1
        """The rows that `fetchmany` returns by default."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def connection(self) -> Connection:
        """The connection that runs its statements."""
        if self._connection is None:
            raise ProgrammingError("the cursor is closed", "close() was called", "make another one")
        return self._connection

    @property
    def description(self) -> Description | None:
        """The names and types of the columns; None if the last statement has returned no rows."""
        return self._result.description if self._result.has_rows else None

    @property
    def rowcount(self) -> int:
        """The rows that the last statement has changed or returned; -1 if it does neither."""
        return self._result.rowcount

    def execute(self, operation: str, parameters: Parameters = None) -> Self:
        """Run the statements of a text: see `Connection.execute`."""
        self._result = nothing()
        self._result = self.connection.execute(operation, parameters)
        return self

    def executemany(self, operation: str, rows: Iterable[Parameters]) -> Self:
        """Run a statement once for each of several rows of parameters, in one transaction."""
        self._result = nothing()
        self._result = self.connection.executemany(operation, rows)
        return self

    def fetchone(self) -> Row | None:
        """Return the next row; None if all were fetched."""
        return self._rows().fetchone()

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """Return at most `size` of the rows that were not fetched before, by default `arraysize`."""
        return self._rows().fetchmany(self.arraysize if size is None else size)

    def fetchall(self) -> list[Row]:
        """Return the rows that were not fetched before."""
        return self._rows().fetchall()

    def __iter__(self) -> Iterator[Row]:
        while (row := self.fetchone()) is not None:
            yield row

    def _rows(self) -> Result:
        if self.connection and not self._result.has_rows:
            raise ProgrammingError("no rows to fetch", "the last statement returned none", "run a SELECT first")
        return self._result

    def setinputsizes(self, sizes: object) -> None:
        """Do nothing: memory needs no hints."""

    def setoutputsize(self, size: object, column: object = None) -> None:
        """Do nothing: memory needs no hints."""

    def close(self) -> None:
        """Forget the rows. A closed cursor runs no statement."""
        self._connection, self._result = None, nothing()
