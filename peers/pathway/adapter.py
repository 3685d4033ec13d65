"""Pathway maintains queries that are written in its table language: see queries.py."""

from __future__ import annotations

import datetime as dt
import logging
import os
import time
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from serve import Message, RefusedError, read, serve, write

Row = tuple[object, ...]

EPOCH = dt.date(1970, 1, 1)
HUNDRED = pa.scalar(Decimal(100), pa.decimal128(3, 0))
END_OF_BATCH = -1
"""The relation of the row that ends a batch, and whose time is that of the batch."""


class PathwayEngine:
    def hello(self, _: Message) -> Message:
        from importlib.metadata import version  # noqa: PLC0415

        return {"protocol": 1, "name": f"Pathway {version('pathway')}", "output": "batches"}

    def open(self, request: Message) -> Message:
        os.environ["PATHWAY_THREADS"] = str(request["workers"])
        logging.disable(logging.WARNING)
        from running import Running  # noqa: PLC0415

        from queries import QUERIES  # noqa: PLC0415 (Pathway reads the number of threads when it is loaded)

        if request["query"] not in QUERIES:
            raise RefusedError("not written for Pathway")
        self.directory, self.answer = Path(request["directory"]), request["answer"]
        self.numbers = {name: number for number, name in enumerate(request["relations"])}
        self.columns = {name: each["columns"] for name, each in request["relations"].items()}
        self.live: dict[str, dict[Row, list[int]]] = {name: {} for name in self.columns}
        self.query = QUERIES[request["query"]]
        self.rows: Counter[Row] = Counter()
        self.is_null = False
        self.kept: list[tuple[int, Row, int]] = []
        self.arrived = 0
        self.running = Running(self.query, self.columns, request["parameters"])
        return {}

    def feed(self, request: Message) -> Message:
        self.time, self.batch = request["time"], []
        for name, file in request["relations"].items():
            self._read(name, read(self.directory, file))
        self.arrived += 1
        self.batch.append((1, {"row": self.arrived, "relation": END_OF_BATCH}))
        return {}

    def _read(self, name: str, changes: pa.Table) -> None:
        """Make rows of a file. Equal rows differ in the number of their arrival, which is their key."""
        names = [column for column, _ in self.columns[name]]
        columns = [_integers(changes[column]) for column in names]
        for diff, *row in zip(changes["diff"].to_pylist(), *columns, strict=True):
            same = self.live[name].setdefault(tuple(row), [])
            if diff > 0:
                self.arrived += 1
                same.append(self.arrived)
            number = same[-1] if diff > 0 else same.pop(0)
            if not same:
                del self.live[name][tuple(row)]
            values = {"row": number, "relation": self.numbers[name], **dict(zip(names, row, strict=True))}
            self.batch.append((diff, values))

    def apply(self, _: Message) -> Message:
        started = time.perf_counter()
        changes = self.running.apply(self.batch)
        if hasattr(self.query, "IS_SCALAR"):
            self._add_null(changes)
        made = [(self.time, row, diff) for row, diff in changes.items() if diff]
        seconds = time.perf_counter() - started
        self.kept += made
        return {"changes": len(made), "seconds": seconds}

    def _add_null(self, changes: Counter[Row]) -> None:
        """Let the answer be a row of NULL while there are no rows to be aggregated."""
        self.rows.update(changes)
        is_null = not any(self.rows.values())
        changes[(None,) * len(self.answer)] += is_null - self.is_null
        self.is_null = is_null

    def changes(self, _: Message) -> Message:
        times, rows, diffs = ([each[at] for each in self.kept] for at in range(3))
        columns = {"time": pa.array(times, pa.int64()), "diff": pa.array(diffs, pa.int64())}
        for at, (name, type_) in enumerate(self.answer):
            columns[name] = _typed([row[at] for row in rows], type_)
        self.kept = []
        return write(self.directory, "changes.arrow", pa.table(columns))

    def state(self, _: Message) -> Message:
        return {}

    def end(self, _: Message) -> Message:
        self.running.close()
        return {}


def _integers(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column: decimals as their digits without the point, and dates as days since 1970."""
    if pa.types.is_decimal(column.type):
        return pc.multiply(column, HUNDRED).cast(pa.int64()).to_pylist()
    if pa.types.is_date(column.type):
        return column.cast(pa.int32()).to_pylist()
    return column.to_pylist()


def _typed(values: list[Any], type_: str) -> pa.Array:
    if type_.startswith("decimal"):
        scale = int(type_.removeprefix("decimal(").removesuffix(")"))
        exact = [None if value is None else Decimal(value).scaleb(-scale) for value in values]
        return pa.array(exact, pa.decimal128(38, scale))
    if type_ == "date32":
        return pa.array([EPOCH + dt.timedelta(value) for value in values], pa.date32())
    return pa.array(values, {"int64": pa.int64(), "double": pa.float64(), "string": pa.string()}[type_])


if __name__ == "__main__":
    serve(PathwayEngine())
