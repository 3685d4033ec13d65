"""Turso's incrementally maintained view of a query: a transaction for each batch, after which the view is read."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import turso
from ends import parts_of
from serve import Message, RefusedError, one_line, read, serve, write

TYPES = {"int64": "BIGINT", "date32": "TEXT", "string": "TEXT"}
"""The types of columns, as SQLite has them: it has no decimals, which are REAL."""

CONSTANT = re.compile(r"\b(?:date|round)\(['\d][^()]*\)")
"""A call that the dialect has made of a constant of the benchmark."""

Row = tuple[Any, ...]


class Table:
    """The rows of a table by their values, each with the numbers of its copies in the table."""

    def __init__(self, name: str, columns: list[tuple[str, str]]) -> None:
        self.columns = columns
        self.insertion = f"INSERT INTO {name} VALUES ({', '.join('?' * (len(columns) + 1))})"
        self.deletion = f"DELETE FROM {name} WHERE arrival = ?"
        self.arrived, self.live = 0, 0
        self.numbers: dict[Row, deque[int]] = {}

    def rows_of(self, changes: pa.Table) -> list[tuple[int, Row]]:
        """Return the weights and the rows of a file, in the types of SQLite."""
        columns = [_sqlite(changes[name].to_pylist(), type_) for name, type_ in self.columns]
        rows = zip(*columns, strict=True) if columns else iter([()] * changes.num_rows)
        return list(zip(changes["diff"].to_pylist(), rows, strict=True))

    def statement(self, diff: int, row: Row) -> tuple[str, Row]:
        """Return the statement of a change, and its values. The oldest of equal rows leaves first."""
        copies = self.numbers.setdefault(row, deque())
        self.live += diff
        if diff > 0:
            self.arrived += 1
            copies.append(self.arrived)
            return self.insertion, (self.arrived, *row)
        number = copies.popleft()
        if not copies:
            del self.numbers[row]
        return self.deletion, (number,)


class View:
    """The maintained view of a query, and its rows after the last batch."""

    def __init__(self, database: turso.Connection, request: Message, name: str) -> None:
        body, end = parts_of(CONSTANT.sub(lambda call: computed(database, call), request["sql"]))
        self.database, self.columns, self.reading = database, request["answer"], f"SELECT * FROM {name} {end}"
        database.execute(f"CREATE MATERIALIZED VIEW {name} AS {body}")
        self.read()

    def read(self) -> None:
        self.rows = self.database.execute(self.reading).fetchall()


def computed(database: turso.Connection, call: re.Match[str]) -> str:
    """Return the value of a call with constants: with many of them, a view has no rows."""
    return database.execute(f"SELECT quote({call[0]})").fetchone()[0]


class Turso:
    """The engine. A refused view leaves a table behind, so the first query has a new database, in memory."""

    def hello(self, _: Message) -> Message:
        return {
            "protocol": 2, "name": f"Turso {version('pyturso')}", "output": "answers", "max_workers": 1, "nulls": True,
            "attaches": True,
        }  # fmt: skip

    def open(self, request: Message) -> Message:
        self.directory = Path(request["directory"])
        self.database = turso.connect(":memory:", experimental_features="views", isolation_level=None)
        self.tables = {}
        for name, each in request["relations"].items():
            columns, nullable = each["columns"], each.get("nullable", ())
            self.database.execute(f"CREATE TABLE {name} ({', '.join(declared(columns, nullable))})")
            self.tables[name] = Table(name, columns)
        self.views: dict[str, View] = {}
        self.made = 0
        try:
            self.attach(request)
        except RefusedError:
            self.end({})
            raise
        return {}

    def attach(self, request: Message) -> Message:
        """Create the view of one more query, and read its answer."""
        self.made += 1
        try:
            view = View(self.database, request, f"answer_{self.made}")
        except Exception as error:  # whatever it is, this query cannot be maintained
            raise RefusedError(one_line(error)) from error
        self.views[request["query"]] = view
        return {"changes": len(view.rows)}

    def feed(self, request: Message) -> Message:
        self.batch = [
            (self.tables[name], self.tables[name].rows_of(read(self.directory, file)))
            for name, file in request["relations"].items()
        ]
        return {}

    def apply(self, _: Message) -> Message:
        started = time.perf_counter()
        self.database.execute("BEGIN")
        for table, changes in self.batch:
            for diff, row in changes:
                self.database.execute(*table.statement(diff, row))
        self.database.execute("COMMIT")
        for view in self.views.values():
            view.read()
        changes = sum(len(view.rows) for view in self.views.values())
        return {"changes": changes, "seconds": time.perf_counter() - started}

    def answer(self, request: Message) -> Message:
        view = self.views[request.get("query") or next(iter(self.views))]
        columns = [_arrow([row[at] for row in view.rows], type_) for at, (_, type_) in enumerate(view.columns)]
        return write(self.directory, "answer.arrow", pa.table(columns, [name for name, _ in view.columns]))

    def state(self, _: Message) -> Message:
        return {"rows": sum(table.live for table in self.tables.values())}

    def end(self, _: Message) -> Message:
        self.database.close()
        return {}


def declared(columns: list[tuple[str, str]], nullable: list[str]) -> list[str]:
    """Return the columns of CREATE TABLE: the number of a row's arrival, and those of the relation."""
    own = (f"{name} {TYPES.get(type_, 'REAL')}{'' if name in nullable else ' NOT NULL'}" for name, type_ in columns)
    return ["arrival INTEGER PRIMARY KEY", *own]


def _sqlite(values: list[Any], type_: str) -> list[Any]:
    """Convert the values of a column to those of SQLite."""
    convert: Callable[[Any], Any]
    if type_ == "date32":
        convert = date.isoformat
    elif type_.startswith("decimal"):
        convert = float
    else:
        return values
    return [None if value is None else convert(value) for value in values]


def _arrow(values: list[Any], type_: str) -> pa.Array:
    """Convert the values of a column of the answer; a REAL is rounded to the digits of a decimal."""
    convert: Callable[[Any], Any]
    if type_ == "date32":
        convert = date.fromisoformat
    elif type_.startswith("decimal"):
        scale = Decimal(1).scaleb(-int(type_[len("decimal(") : -1]))
        convert = lambda value: Decimal(value).quantize(scale)  # noqa: E731
    else:
        return pa.array(values)
    return pa.array([None if value is None else convert(value) for value in values])


if __name__ == "__main__":
    serve(Turso())
