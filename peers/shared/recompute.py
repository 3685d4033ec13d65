"""Engines that run the query again after each batch, over Arrow tables or over tables of their own."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.acero  # `Table.join` would load it while the clock runs
import pyarrow.compute as pc
from serve import Message, RefusedError, one_line, read, write

Columns = list[tuple[str, str]]
"""The names and the types of columns."""

ARRIVAL = ("arrival", "int64")

MAX_CHUNKS = 64
"""A query over thousands of small chunks takes several times as long as over a large one."""

TYPES = {"int64": pa.int64(), "date32": pa.date32(), "string": pa.string()}
DIGITS = 15
"""The digits of the decimals of relations."""


def scale_of(type_: str) -> int | None:
    """Return the digits behind the point of a decimal; None for another type."""
    return int(type_[len("decimal(") : -1]) if type_.startswith("decimal(") else None


class Query(NamedTuple):
    """An open query: the SQL that reads its answer, and the names of its columns."""

    reading: str
    columns: list[str]


class RecomputingEngine(ABC):
    """Runs the queries again after each batch. Derived classes keep the rows, and run the SQL."""

    name: str
    attaches = True
    """Whether several queries may be open."""

    def hello(self, _: Message) -> Message:
        return {
            "protocol": 2, "name": self.name, "output": "answers", "maintains": False, "nulls": True,
            "attaches": self.attaches,
        }  # fmt: skip

    def open(self, request: Message) -> Message:
        self.directory, self.workers = Path(request["directory"]), request["workers"]
        self.rows = 0
        self.queries: dict[str, Query] = {}
        self.results: dict[str, pa.Table] = {}
        pa.set_cpu_count(self.workers)
        self.begin()
        try:
            for name, each in request["relations"].items():
                self.create(name, each["columns"], frozenset(each.get("nullable", ())))
            self.add(request)
        except Exception as error:  # whatever it is, this query cannot be run
            self.end({})
            raise RefusedError(one_line(error)) from error
        return {}

    def attach(self, request: Message) -> Message:
        try:
            self.add(request)
        except Exception as error:
            raise RefusedError(one_line(error)) from error
        return {"changes": self.results[request["query"]].num_rows}

    def add(self, request: Message) -> None:
        """Open a query, and run it."""
        query = Query(self.prepare(request["sql"]), [name for name, _ in request["answer"]])
        self.results[request["query"]] = self.run(query)
        self.queries[request["query"]] = query

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
        self.results = {name: self.run(query) for name, query in self.queries.items()}
        changes = sum(result.num_rows for result in self.results.values())
        return {"changes": changes, "seconds": time.perf_counter() - started}

    def answer(self, request: Message) -> Message:
        name = request.get("query") or next(iter(self.queries))
        return write(self.directory, "answer.arrow", self.results[name].rename_columns(self.queries[name].columns))

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
    def create(self, name: str, columns: Columns, nullable: frozenset[str]) -> None:
        """Create a relation without rows. nullable: the columns that may have NULL."""

    def prepare(self, sql: str) -> str:
        """Make ready for a query; return the SQL that reads its answer. Raise an error if the engine cannot run it."""
        return sql

    @abstractmethod
    def change(self, name: str, arriving: Any, leaving: Any) -> None:
        """Change the rows of a relation."""

    @abstractmethod
    def run(self, query: Query) -> pa.Table:
        """Run a query over the relations; return the answer with all its rows."""


class ArrowEngine(RecomputingEngine):
    """Keeps relations as Arrow tables."""

    def __init__(self) -> None:
        self.relations: dict[str, pa.Table] = {}

    def create(self, name: str, columns: Columns, nullable: frozenset[str]) -> None:
        del nullable  # any column of Arrow may have NULL
        self.relations[name] = schema(columns).empty_table()

    def change(self, name: str, arriving: pa.Table, leaving: pa.Table) -> None:
        rows = without(pa.concat_tables([self.relations[name], arriving]), leaving)
        self.relations[name] = rows.combine_chunks() if rows.column(0).num_chunks > MAX_CHUNKS else rows

    def end(self, _: Message) -> Message:
        self.relations = {}
        return {}


@dataclass
class Table:
    """A table of the engine. arrived: the number of rows so far; oldest: no row in the table has a smaller number."""

    columns: Columns
    nullable: frozenset[str]
    arrived: int = 0
    oldest: int = 0


class Rows(NamedTuple):
    """Rows of a batch. sql: what stands for them in SQL."""

    count: int
    sql: str


class TableEngine(RecomputingEngine):
    """Keeps relations in tables of the engine, which have the number of each row's arrival as another column."""

    types: Mapping[str, str]
    """The types of columns in the SQL of the engine; {} in that of `decimal` stands for its scale."""
    nullable_type = "{}"
    """The type of columns that may have NULL, of which {} is the type of others."""

    def __init__(self) -> None:
        self.tables: dict[str, Table] = {}

    def typed(self, type_: str) -> str:
        """Return the type of the engine's SQL for a type of the protocol."""
        scale = scale_of(type_)
        return self.types[type_] if scale is None else self.types["decimal"].format(scale)

    @abstractmethod
    def execute(self, sql: str) -> None: ...

    @abstractmethod
    def count(self, sql: str) -> int:
        """Return the result of a query with one number."""

    def create(self, name: str, columns: Columns, nullable: frozenset[str]) -> None:
        self.tables[name] = Table(columns, nullable)
        self.execute(f"CREATE TABLE {name} ({self.declared([*columns, ARRIVAL], nullable)})")

    def declared(self, columns: Columns, nullable: frozenset[str]) -> str:
        return ", ".join(
            f"{column} {self.nullable_type.format(self.typed(type_)) if column in nullable else self.typed(type_)}"
            for column, type_ in columns
        )

    def numbered(self, name: str, arriving: pa.Table) -> pa.Table:
        """Append the numbers of rows that arrive."""
        table = self.tables[name]
        first, table.arrived = table.arrived, table.arrived + arriving.num_rows
        return arriving.append_column(ARRIVAL[0], pa.arange(first, table.arrived, 1))

    def remove(self, name: str, leaving: Rows) -> None:
        """Remove rows by value: the oldest copies of each. Mostly the oldest rows of all leave: this is tried first."""
        table = self.tables[name]
        end = table.oldest + leaving.count
        among_oldest = self._found(name, leaving, f"WHERE arrival < {end}")
        if self.count(f"SELECT count(*) FROM ({among_oldest}) AS found") == leaving.count:
            self.delete(name, f"arrival < {end}")
            table.oldest = end
        else:
            self.delete(name, f"arrival IN ({self._found(name, leaving)})")

    def _found(self, name: str, leaving: Rows, where: str = "") -> str:
        """Return the query of the numbers of rows that leave, among those that a condition selects."""
        names, nullable = [column for column, _ in self.tables[name].columns], self.tables[name].nullable
        columns, kept = ", ".join(names), ", ".join(f"present.{each} AS {each}" for each in names)
        same = " AND ".join(
            f"present.{each} {'IS NOT DISTINCT FROM' if each in nullable else '='} gone.{each}" for each in names
        )
        return f"""
            SELECT arrival FROM (
                SELECT arrival, copies, row_number() OVER (PARTITION BY {columns} ORDER BY arrival) AS copy
                FROM (
                    SELECT {kept}, arrival, copies
                    FROM (SELECT * FROM {name} {where}) AS present
                    JOIN (SELECT {columns}, count(*) AS copies FROM {leaving.sql} GROUP BY {columns}) AS gone
                    ON {same}) AS found) AS numbered
            WHERE copy <= copies"""

    def delete(self, name: str, condition: str) -> None:
        self.execute(f"DELETE FROM {name} WHERE {condition}")

    def end(self, _: Message) -> Message:
        for name in self.tables:
            self.execute(f"DROP TABLE IF EXISTS {name}")
        self.tables = {}
        return {}


class FileEngine(TableEngine):
    """Inserts rows from Arrow files."""

    files = 0

    @abstractmethod
    def rows_of(self, file: Path, columns: str) -> str:
        """Return the SQL that stands for the rows of an Arrow file. columns: as CREATE TABLE declares them."""

    def converted(self, name: str, arriving: pa.Table, leaving: pa.Table) -> tuple[Rows, Rows]:
        columns = self.tables[name].columns
        arrives = self._written(name, self.numbered(name, arriving), [*columns, ARRIVAL])
        return arrives, self._written(name, leaving, columns)

    def _written(self, name: str, rows: pa.Table, columns: Columns) -> Rows:
        self.files += 1
        file = self.directory / f"rows-{self.files}.arrow"
        write(self.directory, file.name, rows)
        return Rows(rows.num_rows, self.rows_of(file, self.declared(columns, self.tables[name].nullable)))

    def change(self, name: str, arriving: Rows, leaving: Rows) -> None:
        if arriving.count:
            self.execute(f"INSERT INTO {name} SELECT * FROM {arriving.sql}")
        if leaving.count:
            self.remove(name, leaving)

    def apply(self, request: Message) -> Message:
        reply = super().apply(request)
        for file in self.directory.glob("rows-*.arrow"):
            file.unlink()
        return reply


def schema(columns: Columns) -> pa.Schema:
    scales = {type_: scale_of(type_) for _, type_ in columns}
    decimals = {type_: pa.decimal128(DIGITS, scale) for type_, scale in scales.items() if scale is not None}
    return pa.schema([(column, decimals.get(type_) or TYPES[type_]) for column, type_ in columns])


def _split(changes: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the rows that arrive, and those that leave."""
    arrives = pc.greater(changes["diff"], 0)
    rows = changes.drop_columns(["time", "diff"])
    return rows.filter(arrives), rows.filter(pc.invert(arrives))


def without(rows: pa.Table, leaving: pa.Table) -> pa.Table:
    """Remove rows by value: the oldest copies of each. Mostly the oldest rows of all leave: this is compared first."""
    count = leaving.num_rows
    if rows.slice(0, count).equals(leaving):
        return rows.slice(count)
    nullable, name = [each for each in rows.column_names if leaving[each].null_count], ARRIVAL[0]
    keys = _comparable(leaving, nullable)
    numbered = _comparable(rows, nullable).append_column(name, pa.arange(0, rows.num_rows, 1))
    copies = keys.group_by(keys.column_names).aggregate([([], "count_all")])
    found = numbered.join(copies, keys.column_names, join_type="inner").sort_by(name)
    if found.num_rows > count:
        found = found.filter(_among_the_oldest(found.select(keys.column_names), found["count_all"].to_pylist()))
    return rows.filter(pc.invert(pc.is_in(numbered[name], found[name].combine_chunks())))


def _comparable(rows: pa.Table, nullable: list[str]) -> pa.Table:
    """Replace NULL, which a join does not compare, by a value and a column that tells the two apart."""
    for name in nullable:
        column = rows[name]
        known = pc.fill_null(column, pa.scalar("" if pa.types.is_string(column.type) else 0, column.type))
        at = rows.column_names.index(name)
        rows = rows.set_column(at, name, known).append_column(f"{name} is NULL", pc.is_null(column))
    return rows


def _among_the_oldest(rows: pa.Table, copies: list[int]) -> pa.Array:
    """Return whether a row is one of the first `copies` equal rows."""
    seen: Counter[tuple[object, ...]] = Counter()
    chosen = []
    for row, limit in zip(zip(*(column.to_pylist() for column in rows.columns), strict=True), copies, strict=True):
        seen[row] += 1
        chosen.append(seen[row] <= limit)
    return pa.array(chosen, pa.bool_())
