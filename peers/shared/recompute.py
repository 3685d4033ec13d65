"""Engines that run the query again after each batch, over Arrow tables or over tables of their own."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from serve import Message, RefusedError, one_line, read, write

Columns = list[tuple[str, str]]
"""The names and the types of columns."""

ARRIVAL = ("arrival", "int64")

TYPES = {"int64": pa.int64(), "decimal(2)": pa.decimal128(15, 2), "date32": pa.date32(), "string": pa.string()}


class RecomputingEngine(ABC):
    """Runs the query again after each batch. Derived classes keep the rows, and run the SQL."""

    name: str

    def hello(self, _: Message) -> Message:
        return {"protocol": 1, "name": self.name, "output": "answers", "maintains": False}

    def open(self, request: Message) -> Message:
        self.directory, self.workers = Path(request["directory"]), request["workers"]
        self.columns = [name for name, _ in request["answer"]]
        self.rows = 0
        try:
            self.begin()
            for name, each in request["relations"].items():
                self.create(name, each["columns"])
            self.prepare(request["sql"])
            self.result = self.run()
        except Exception as error:  # whatever it is, this query cannot be run
            raise RefusedError(one_line(error)) from error
        return {}

    def feed(self, request: Message) -> Message:
        self.batch = {}
        for name, file in request["relations"].items():
            changes = read(self.directory, file)
            self.rows += pc.sum(changes["diff"]).as_py() or 0
            self.batch[name] = self.converted(name, *_split(changes))
        return {}

    def apply(self, _: Message) -> Message:
        started = time.perf_counter()
        for name, (arriving, leaving) in self.batch.items():
            self.change(name, arriving, leaving)
        self.result = self.run()
        return {"changes": self.result.num_rows, "seconds": time.perf_counter() - started}

    def answer(self, _: Message) -> Message:
        return write(self.directory, "answer.arrow", self.result.rename_columns(self.columns))

    def state(self, _: Message) -> Message:
        return {"rows": self.rows}

    def end(self, _: Message) -> Message:
        return {}

    def begin(self) -> None:  # noqa: B027 (most engines have nothing to do)
        """Begin a query for which `self.workers` cores may be used."""

    def converted(self, name: str, arriving: pa.Table, leaving: pa.Table) -> tuple[Any, Any]:
        """Convert the rows of a batch to the input of `change`, before the clock starts."""
        del name
        return arriving, leaving

    @abstractmethod
    def create(self, name: str, columns: Columns) -> None:
        """Create a relation without rows."""

    @abstractmethod
    def prepare(self, sql: str) -> None:
        """Remember the query, or raise an error if the engine cannot run it."""

    @abstractmethod
    def change(self, name: str, arriving: Any, leaving: Any) -> None:
        """Change the rows of a relation."""

    @abstractmethod
    def run(self) -> pa.Table:
        """Run the query over the relations; return the answer with all its rows."""


class ArrowEngine(RecomputingEngine):
    """Keeps relations as Arrow tables."""

    def __init__(self) -> None:
        self.relations: dict[str, pa.Table] = {}

    def create(self, name: str, columns: Columns) -> None:
        self.relations[name] = pa.schema([(column, TYPES[type_]) for column, type_ in columns]).empty_table()

    def change(self, name: str, arriving: pa.Table, leaving: pa.Table) -> None:
        self.relations[name] = without(pa.concat_tables([self.relations[name], arriving]), leaving)

    def end(self, _: Message) -> Message:
        self.relations = {}
        return {}


class TableEngine(RecomputingEngine):
    """Keeps relations in tables of the engine, which have the number of each row's arrival as another column."""

    types: Mapping[str, str]
    """The types of columns in the SQL of the engine."""

    def __init__(self) -> None:
        self.tables: dict[str, Columns] = {}
        self.arrived = self.files = 0

    @abstractmethod
    def execute(self, sql: str) -> None: ...

    @abstractmethod
    def rows_of(self, file: Path, columns: str) -> str:
        """Return the SQL that stands for the rows of an Arrow file. columns: as CREATE TABLE declares them."""

    def create(self, name: str, columns: Columns) -> None:
        self.tables[name] = columns
        self.execute(f"CREATE TABLE {name} ({self.declared([*columns, ARRIVAL])})")

    def declared(self, columns: Columns) -> str:
        return ", ".join(f"{column} {self.types[type_]}" for column, type_ in columns)

    def converted(self, name: str, arriving: pa.Table, leaving: pa.Table) -> tuple[str, str]:
        numbers = pa.array(range(self.arrived, self.arrived + arriving.num_rows), pa.int64())
        self.arrived += arriving.num_rows
        columns = self.tables[name]
        return (
            self._written(arriving.append_column("arrival", numbers), [*columns, ARRIVAL]),
            self._written(leaving, columns),
        )

    def _written(self, rows: pa.Table, columns: Columns) -> str:
        """Write rows to a file; return the SQL that stands for them, which is empty if there are none."""
        if not rows.num_rows:
            return ""
        self.files += 1
        write(self.directory, f"rows-{self.files}.arrow", rows)
        return self.rows_of(self.directory / f"rows-{self.files}.arrow", self.declared(columns))

    def change(self, name: str, arriving: str, leaving: str) -> None:
        if arriving:
            self.execute(f"INSERT INTO {name} SELECT * FROM {arriving}")
        if leaving:
            # the oldest copies of equal rows leave
            columns = ", ".join(column for column, _ in self.tables[name])
            numbered = f"""
                SELECT arrival, copies, row_number() OVER (PARTITION BY {columns} ORDER BY arrival) AS copy
                FROM {name} JOIN (SELECT {columns}, count(*) AS copies FROM {leaving} GROUP BY {columns}) AS gone
                USING ({columns})"""
            self.delete(name, f"SELECT arrival FROM ({numbered}) AS numbered WHERE copy <= copies")

    def delete(self, name: str, arrivals: str) -> None:
        """Delete rows by the numbers of their arrival. arrivals: the query of these numbers."""
        self.execute(f"DELETE FROM {name} WHERE arrival IN ({arrivals})")

    def apply(self, request: Message) -> Message:
        reply = super().apply(request)
        for file in self.directory.glob("rows-*.arrow"):
            file.unlink()
        return reply

    def end(self, _: Message) -> Message:
        for name in self.tables:
            self.execute(f"DROP TABLE {name}")
        self.tables = {}
        return {}


def _split(changes: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the rows that arrive, and those that leave."""
    arrives = pc.greater(changes["diff"], 0)
    rows = changes.drop_columns(["time", "diff"])
    return rows.filter(arrives), rows.filter(pc.invert(arrives))


def without(rows: pa.Table, leaving: pa.Table) -> pa.Table:
    """Remove rows by value. Those that leave are mostly the oldest, and so the first ones."""
    count = leaving.num_rows
    if not count:
        return rows
    if rows.slice(0, count).equals(leaving):
        return rows.slice(count)
    left = Counter(zip(*(column.to_pylist() for column in leaving.columns), strict=True))
    kept = []
    for row in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        kept.append(not left[row])
        left[row] -= not kept[-1]
    return rows.filter(pa.array(kept, pa.bool_()))
