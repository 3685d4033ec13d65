"""The embedded engine as an external program with a stream: `stream_program.py SF`."""

from __future__ import annotations

import json
import sys
import time
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import TextIO

import msgspec
import numpy as np
import pyarrow as pa

from deltamark.dataflow.arrow_values import arrow_array, numbers
from deltamark.dataflow.batch import Batch
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.sql.query import sql
from deltamark.dataflow.sql.tables import sql_tables
from deltamark.dataflow.types import Type
from deltamark.datagen.tpch import RELATIONS, TPCH
from deltamark.harness.benchmarks.benchmark import benchmark
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.conformance.cases import declared
from deltamark.harness.engines.external.messages import RelationColumns
from deltamark.harness.engines.inputs import specified_source
from deltamark.harness.engines.plans import specified_plan

TEXT_KINDS = ("short", "text")


class Engine:
    """Serves requests. workers are ignored: the engine always has one."""

    def __init__(self, sf: str) -> None:
        self._sf = sf

    def hello(self, _):
        return {"protocol": 1, "name": "embedded", "output": "stream", "several": True, "nulls": True}

    def open(self, request):
        try:
            plan = self.plan(request)
        except Exception as error:  # noqa: BLE001 (whatever it is, the query is refused)
            return {"refused": str(error)}
        self.directory, self.dataflow, self.schema = Path(request["directory"]), Dataflow(plan), plan.schema
        self.made = []
        return {}

    def plan(self, request):
        """Return the plan of a query of TPC-H, whose columns have no prefixes, or of SQL over other tables."""
        relations = request["relations"]
        self.prefixes = {name: RELATIONS[name].prefix if name in RELATIONS else "" for name in relations}
        if request["query"] in benchmark().queries:
            of = TPCH.specification(Decimal(self._sf), "insert")
            self.types = {name: specified_source(RELATIONS[name], of).schema for name in relations}
            return specified_plan(Cell(request["query"], self._sf))
        tables = sql_tables(
            "; ".join(declared(name, msgspec.convert(each, RelationColumns)) for name, each in relations.items())
        )
        self.types = {name: table.schema for name, table in tables.items()}
        return sql(request["sql"], tables)

    def feed(self, request):
        batch = {}
        for name, file in request["relations"].items():
            table = pa.ipc.open_file((self.directory / file).read_bytes()).read_all()
            columns = {
                field: column_of(table[self.prefixes[name] + field], self.types[name][field])
                for field in self.dataflow.inputs[name]
            }
            batch[name] = Batch(table["time"].to_numpy(), table["diff"].to_numpy(), columns)
        self.several = "ends" in request
        self.batches = [
            cut(batch, first, end) for first, end in pairwise([-1, *request.get("ends", [request["time"]])])
        ]
        return {}

    def apply(self, _):
        applied = [self.apply_one(batch) for batch in self.batches]
        changes, seconds = ([each[at] for each in applied] for at in range(2))
        return (
            {"changes": changes, "seconds": seconds} if self.several else {"changes": changes[0], "seconds": seconds[0]}
        )

    def apply_one(self, batch):
        started = time.perf_counter()
        changes = self.dataflow.feed(batch)
        self.made.append(changes)
        return len(changes.time), time.perf_counter() - started

    def changes(self, _):
        table = pa.concat_tables([self.table(changes) for changes in self.made])
        with pa.ipc.new_file(str(self.directory / "changes.arrow"), table.schema) as file:
            file.write_table(table)
        self.made = []
        return {"file": "changes.arrow"}

    def table(self, changes):
        columns = {field.name: arrow_array(changes.columns[field.name], field.type) for field in self.schema.fields}
        return pa.table({"time": changes.time, "diff": changes.diff, **columns})

    def state(self, _):
        return {"rows": self.dataflow.state_rows()}

    def end(self, _):
        self.dataflow.close()
        return {}


def cut(batch: dict[str, Batch], after: int, end: int) -> dict[str, Batch]:
    """Return the part of a batch with times up to an end."""
    parts = {}
    for name, each in batch.items():
        start, stop = np.searchsorted(each.time, (after, end), side="right")
        columns = {column: values[start:stop] for column, values in each.columns.items()}
        parts[name] = Batch(each.time[start:stop], each.diff[start:stop], columns)
    return parts


def column_of(column: pa.ChunkedArray, type_: Type) -> np.ndarray:
    """Return the values of an input column as the embedded engine reads them."""
    array = column.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    values = numbers(array, type_)
    return values if type_.kind in TEXT_KINDS else values.astype(np.int32 if type_.width == 4 else np.int64)


def serve(engine: Engine, requests: TextIO, replies: TextIO) -> None:
    for line in requests:
        request = json.loads(line)
        if request["do"] == "close":
            break
        print(json.dumps(getattr(engine, request["do"])(request)), file=replies, flush=True)


if __name__ == "__main__":
    serve(Engine(sys.argv[1]), sys.stdin, sys.stdout)
