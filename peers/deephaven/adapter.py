"""Deephaven maintains queries that are written in its table operations: see queries/."""

from __future__ import annotations

import datetime as dt
import os
import sys
import time
from contextlib import ExitStack
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from serve import Message, RefusedError, read, serve, write

Row = tuple[object, ...]

EPOCH = dt.date(1970, 1, 1)
HUNDRED = pa.scalar(Decimal(100), pa.decimal128(3, 0))
ARRIVAL = "arrival"
"""The key of all tables: the number of a row's arrival. Equal rows differ in it."""

ANONYMOUS = "-DAuthHandlers=io.deephaven.auth.AnonymousAuthenticationHandler"
"""The server listens on this machine, but this process alone uses it."""


class Relation:
    """A relation of the query: an input table, and the numbers of the rows that it has."""

    def __init__(self, columns: list[tuple[str, str]]) -> None:
        from deephaven import dtypes, input_table  # noqa: PLC0415

        self.names = [name for name, _ in columns]
        types = {name: dtypes.string if type_ == "string" else dtypes.int64 for name, type_ in columns}
        self.table = input_table(col_defs={ARRIVAL: dtypes.int64, **types}, key_cols=ARRIVAL)
        self.live: dict[Row, list[int]] = {}
        self.arrived = 0

    def converted(self, changes: pa.Table) -> tuple[Any, Any]:
        """Return the rows that leave and those that arrive, as tables of Deephaven; None if there are none.

        A row that comes and goes within a batch is in neither.
        """
        columns = [_integers(changes[name]) for name in self.names]
        arriving: dict[int, Row] = {}
        leaving: list[int] = []
        for diff, *row in zip(changes["diff"].to_pylist(), *columns, strict=True):
            same = self.live.setdefault(tuple(row), [])
            if diff > 0:
                self.arrived += 1
                same.append(self.arrived)
                arriving[self.arrived] = tuple(row)
                continue
            number = same.pop(0)
            if not same:
                del self.live[tuple(row)]
            if not arriving.pop(number, None):
                leaving.append(number)
        values = {name: [row[at] for row in arriving.values()] for at, name in enumerate(self.names)}
        return _frame({ARRIVAL: leaving}), _frame({ARRIVAL: list(arriving), **values})


class Deephaven:
    """The engine. Its server runs in this process, from the first query on."""

    def __init__(self) -> None:
        self.scope = ExitStack()

    def hello(self, _: Message) -> Message:
        return {"protocol": 1, "name": f"Deephaven {version('deephaven-server')}", "output": "answers", "session": True}

    def open(self, request: Message) -> Message:
        _start(request["workers"])
        from deephaven.liveness_scope import LivenessScope  # noqa: PLC0415
        from parts import Tables  # noqa: PLC0415

        from queries import QUERIES  # noqa: PLC0415 (the package of Deephaven needs a running server)

        if request["query"] not in QUERIES:
            raise RefusedError("not written for Deephaven")
        self.directory, self.columns = Path(request["directory"]), request["answer"]
        self.query = QUERIES[request["query"]]
        scope = LivenessScope()
        self.scope.callback(scope.release)
        with scope.open():
            self.relations = {name: Relation(each["columns"]) for name, each in request["relations"].items()}
            keyed = {name for name, each in request["relations"].items() if each.get("keys")}
            tables = Tables({name: each.table for name, each in self.relations.items()}, keyed)
            self.result = self.query.dataflow(tables, request["parameters"])
        self.rows = self.read()
        return {}

    def feed(self, request: Message) -> Message:
        self.batch = []
        for name, file in request["relations"].items():
            relation = self.relations[name]
            self.batch.append((relation, *relation.converted(read(self.directory, file))))
        return {}

    def apply(self, _: Message) -> Message:
        """Remove and add rows: each call returns when its rows are in the table. Then the answer is read."""
        started = time.perf_counter()
        for relation, leaving, _arriving in self.batch:
            if leaving:
                relation.table.delete(leaving)
        for relation, _leaving, arriving in self.batch:
            if arriving:
                relation.table.add(arriving)
        self.rows = self.read()
        return {"changes": self.rows.num_rows, "seconds": time.perf_counter() - started}

    def read(self) -> pa.Table:
        """Return the answer, which a cycle of updates does not change meanwhile."""
        from deephaven.arrow import to_arrow  # noqa: PLC0415
        from deephaven.update_graph import exclusive_lock  # noqa: PLC0415

        with exclusive_lock(self.result):
            rows = to_arrow(self.result)
        if hasattr(self.query, "IS_SCALAR") and not rows.num_rows:
            return pa.table({name: pa.nulls(1) for name in rows.column_names})
        return rows

    def answer(self, _: Message) -> Message:
        columns = [_typed(self.rows.column(at), type_) for at, (_, type_) in enumerate(self.columns)]
        return write(self.directory, "answer.arrow", pa.table(columns, [name for name, _ in self.columns]))

    def state(self, _: Message) -> Message:
        return {}

    def end(self, _: Message) -> Message:
        self.scope.close()
        self.relations, self.result = {}, None
        return {}


def _start(workers: int) -> None:
    """Start the server, unless it runs. It uses as many threads for updates as there are workers."""
    from deephaven_server import Server  # noqa: PLC0415

    if Server.instance is None:
        threads = [f"-D{name}={workers}" for name in (
            "PeriodicUpdateGraph.updateThreads", "OperationInitializationThreadPool.threads",
        )]  # fmt: skip
        Server(port=0, jvm_args=["-XX:MaxRAMPercentage=50", ANONYMOUS, *threads]).start()


def _frame(columns: dict[str, list[Any]]) -> Any:
    """Return a table of Deephaven; None without rows."""
    from deephaven.arrow import to_table  # noqa: PLC0415

    return to_table(pa.table(columns)) if columns[ARRIVAL] else None


def _integers(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column: decimals as their digits without the point, and dates as days since 1970."""
    if pa.types.is_decimal(column.type):
        return pc.multiply(column, HUNDRED).cast(pa.int64()).to_pylist()
    if pa.types.is_date(column.type):
        return column.cast(pa.int32()).to_pylist()
    return column.to_pylist()


def _typed(column: pa.ChunkedArray, type_: str) -> pa.Array:
    values = column.to_pylist()
    if type_.startswith("decimal"):
        scale = int(type_.removeprefix("decimal(").removesuffix(")"))
        exact = [None if value is None else Decimal(value).scaleb(-scale) for value in values]
        return pa.array(exact, pa.decimal128(38, scale))
    if type_ == "date32":
        return pa.array([EPOCH + dt.timedelta(value) for value in values], pa.date32())
    return pa.array(values, {"int64": pa.int64(), "double": pa.float64(), "string": pa.string()}[type_])


def _keep_replies_apart() -> None:
    """Send to the standard error what Java writes to the standard output: it must not be taken for a reply."""
    sys.stdout = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)


if __name__ == "__main__":
    _keep_replies_apart()
    serve(Deephaven())
    os._exit(0)  # Python would flush the streams that the server has put in the place of its own, and fail
