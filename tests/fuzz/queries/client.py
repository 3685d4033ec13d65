"""An engine of others that runs a query of an example: requests of the protocol, and its answers as rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from functools import cache

import pyarrow as pa

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.types import Field, Schema
from deltamark.errors import DeltamarkError
from deltamark.harness.engines.external import messages, named
from deltamark.harness.engines.external.columns import DIFF, TIME, answer_in, changes_in, stored_columns, stored_in
from deltamark.harness.engines.external.messages import Columns, RelationColumns
from deltamark.harness.engines.external.program import Program
from fuzz.queries.answers import RELATIVE, rows_of
from fuzz.queries.tables import ROWS, Row, Table

Answer = Counter[tuple[object, ...]]

REQUEST_TIMEOUT_S = 30.0
"""The time after which an engine hangs, unless TIMEOUT says another. Not measured: its batches have a few rows."""

ARROW_TYPES = {"int64": pa.int64(), "date32": pa.date32(), "string": pa.string()}
DIGITS = 15
"""The digits of decimals, which the protocol prescribes."""
NEARLY = 1e-9
"""The largest distance of a double from the decimal that it stands for. Decimals have fewer digits behind the point."""


class Client:
    """A program of an engine, which stays open for many queries, and is started again after a failure."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._program: Program | None = None
        self._is_open = False

    def open(self, text: str, tables: Sequence[Table], columns: Columns, schema: Schema | None) -> Query:
        """Open a query, or raise a RefusedError. schema: that of the exact changes, if the engine has a stream."""
        if self._program is None:
            each = named.resolved(self._engine)
            self._program = Program(each.short, list(each.command), REQUEST_TIMEOUT_S)
        found = Query(self._program, named.translated(self._engine, text), tables, columns, schema)
        self._is_open = True
        return found

    def end(self) -> None:
        """End the query, if one is open."""
        if self._program is not None and self._is_open:
            self._is_open = False
            try:
                self._program.request(messages.End(), messages.Reply)
            except DeltamarkError:
                self.discard()
                raise

    def discard(self) -> None:
        """End the program after a failure."""
        program, self._program, self._is_open = self._program, None, False
        if program is not None:
            with suppress(DeltamarkError):
                program.close()


@cache
def client(engine: str) -> Client:
    """Return the client of this process."""
    return Client(engine)


class Query:
    """A query that is open in a program."""

    def __init__(
        self, program: Program, text: str, tables: Sequence[Table], columns: Columns, schema: Schema | None
    ) -> None:
        self._program, self._tables, self._schema = program, tables, schema
        self._columns = columns if schema is None else stored_columns(schema)
        self._fed, self._until, self._rows = 0, -1, Counter[tuple[object, ...]]()
        self._batches: list[Batch] = []
        deletions = any(diff < 0 for each in tables for _, _, diff in each.stream)
        program.open(messages.Open(
            query="random", sql=text, parameters={}, workload="random", deletions=deletions, logical=1, workers=1,
            collect=True, directory=str(program.files.path), relations={each.name: relation(each) for each in tables},
            answer=self._columns,
        ))  # fmt: skip

    def feed(self, times: Sequence[int], types: Sequence[str]) -> Answer:
        """Feed the changes of some times; return the answer after them. types: DuckDB's types of its columns."""
        self._fed, before, self._until = self._fed + 1, self._until, times[-1]
        files = {}
        for each in self._tables:
            batch = changes(each, times)
            if batch.num_rows:
                files[each.name] = f"{self._fed}-{each.name}.arrow"
                self._program.files.write(files[each.name], batch)
        self._program.request(messages.Feed(self._fed, self._until, files), messages.Reply)
        counted = self._program.request(messages.Apply(), messages.ApplyReply).changes
        for file in files.values():
            self._program.files.remove(file)
        request = messages.Answer() if self._program.greeting.output == "answers" else messages.Changes()
        table = self._program.file(request)
        if counted != table.num_rows:
            raise self._program.failed(request, f"{table.num_rows} rows in the file, and another number counted")
        with self._program.failures(request):
            return typed(self._answer(table, before, types), types)

    def _answer(self, table: pa.Table, before: int, types: Sequence[str]) -> Answer:
        """Return the answer after a file of the engine."""
        if self._program.greeting.output == "answers":
            return Counter(_rows(answer_in(table, self._columns)))
        found = changes_in(table, self._columns, before, self._until)
        if self._schema is not None:
            self._batches.append(stored_in(found, self._schema))
            return rows_of(self._schema, self._batches, self._until, types)
        for _, diff, *row in _rows(found):
            assert isinstance(diff, int)
            self._rows[tuple(row)] += diff
        return Counter({row: count for row, count in self._rows.items() if count})


def typed(answer: Answer, types: Sequence[str]) -> Answer:
    """Return an answer with numbers of DuckDB's types: a number of an engine may have any numeric type. A double with
    more digits than a decimal has stays a double.
    """
    found: Answer = Counter()
    for row, count in answer.items():
        found[tuple(_number(value, type_) for value, type_ in zip(row, types, strict=True))] += count
    return found


def _number(value: object, type_: str) -> object:
    if type_ in ("DOUBLE", "FLOAT") and isinstance(value, int | Decimal):
        return float(value)
    if type_.startswith("DECIMAL") and isinstance(value, float) and math.isfinite(value):
        scale = int(type_.rstrip(")").partition(",")[2])
        found = Decimal(value).quantize(Decimal(1).scaleb(-scale))
        return found if math.isclose(found, value, rel_tol=RELATIVE, abs_tol=NEARLY) else value
    return value


def _rows(table: pa.Table) -> list[tuple[object, ...]]:
    if not table.num_columns:
        return [()] * table.num_rows
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def type_name(field: Field) -> str:
    """Return the type of the protocol for a column."""
    if field.type.kind == "int":
        return f"decimal({field.type.scale})" if field.type.scale else "int64"
    return "date32" if field.type.kind == "date" else "string"


def relation(table: Table) -> RelationColumns:
    fields = table.schema.fields
    nullable = [each.name for each in fields if each.type.nullable]
    keys = [list(table.key)] if table.key and keeps_key(table) else []
    return RelationColumns([(each.name, type_name(each)) for each in fields], ROWS, nullable, keys)


def keeps_key(table: Table) -> bool:
    """Return whether the law of keys holds after each change, as the protocol wants it."""
    places = [table.schema.names.index(name) for name in table.key]
    if any(table.schema.fields[place].type.nullable for place in places):
        return False
    live: Counter[tuple[object, ...]] = Counter()
    for row, _, diff in single(table):
        key = tuple(row[place] for place in places)
        live[key] += diff
        if live[key] > 1:
            return False
    return True


def single(table: Table) -> list[tuple[Row, int, int]]:
    """Return the changes of a table as those of single rows, none of which leaves before it has arrived."""
    found = [
        (row, time, 1 if diff > 0 else -1)
        for row, time, diff in sorted(table.stream, key=lambda change: change[1])
        for _ in range(abs(diff))
    ]
    live: Counter[Row] = Counter()
    for row, _, diff in found:
        live[row] += diff
        if live[row] < 0:
            return sorted(found, key=lambda change: (change[1], -change[2]))
    return found


def changes(table: Table, times: Sequence[int]) -> pa.RecordBatch:
    """Return the changes at some times as the content of a file of the protocol, each of one row."""
    wanted = set(times)
    found = [each for each in single(table) if each[1] in wanted]
    arrays = {TIME: pa.array([time for _, time, _ in found], pa.int64()),
              DIFF: pa.array([diff for _, _, diff in found], pa.int64())}  # fmt: skip
    for at, field in enumerate(table.schema.fields):
        name, scale = type_name(field), field.type.scale
        type_ = ARROW_TYPES.get(name) or pa.decimal128(DIGITS, scale)
        arrays[field.name] = pa.array([row[at] for row, _, _ in found], type_)
    return pa.RecordBatch.from_pydict(arrays)
