"""Engines that run the query again after each batch. The rows of a relation are kept in the order of their arrival."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from serve import Message, RefusedError, one_line, read, write

TYPES = {"int64": pa.int64(), "decimal(2)": pa.decimal128(15, 2), "date32": pa.date32(), "string": pa.string()}


class RecomputingEngine(ABC):
    """Keeps relations as Arrow tables. Derived classes run SQL over them."""

    name: str

    def hello(self, _: Message) -> Message:
        return {"protocol": 1, "name": self.name, "output": "answers", "maintains": False}

    def open(self, request: Message) -> Message:
        self.directory, self.workers = Path(request["directory"]), request["workers"]
        self.columns = [name for name, _ in request["answer"]]
        self.relations = {
            name: pa.schema([(column, TYPES[type_]) for column, type_ in each["columns"]]).empty_table()
            for name, each in request["relations"].items()
        }
        try:
            self.prepare(request["query"], request["sql"])
            self.result = self.run()
        except Exception as error:  # whatever it is, this query cannot be run
            raise RefusedError(one_line(error)) from error
        return {}

    def feed(self, request: Message) -> Message:
        self.batch = {name: _split(read(self.directory, file)) for name, file in request["relations"].items()}
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
        return {"rows": sum(table.num_rows for table in self.relations.values())}

    def end(self, _: Message) -> Message:
        self.relations = {}
        return {}

    def change(self, name: str, arriving: pa.Table, leaving: pa.Table) -> None:
        """Change the rows of a relation."""
        self.relations[name] = without(pa.concat_tables([self.relations[name], arriving]), leaving)

    @abstractmethod
    def prepare(self, query: str, sql: str) -> None:
        """Remember the query, or raise an error if the engine cannot run it."""

    @abstractmethod
    def run(self) -> pa.Table:
        """Run the query over the relations; return the answer with all its rows."""


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
