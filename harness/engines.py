"""Engines: what maintains a query's answer, opened by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from dataflow.collection import Collection, source
from dataflow.types import Schema
from dataflow.worker import Batch, Worker
from datagen.dataset import Dataset
from datagen.schema import relation
from datagen.workload import Workload
from deltamark import DeltamarkError, unknown
from harness.cell import Cell
from harness.sources import relation_source
from queries.catalogue import query

ENGINES = ("embedded",)


class Engine(Protocol):
    """Feed it whole logical times, get the changes of the answer."""

    schema: Schema
    """Of the rows of the answer."""

    @property
    def inputs(self) -> dict[str, tuple[str, ...]]:
        """The relations, and the columns that are read from them."""
        ...

    def feed(self, batches: Mapping[str, Batch]) -> Batch:
        """Apply changes; return those of the answer, one a row and time, in order of time."""
        ...

    def push(self, batches: Mapping[str, Batch]) -> int:
        """Do as `feed` does, but only count the changes of the answer."""
        ...

    def state_rows(self) -> int: ...

    def explain(self) -> str:
        """Describe the plan as it runs."""
        ...

    def close(self) -> None: ...


def collection(cell: Cell, dataset: Dataset, work: Workload) -> Collection:
    """Build the plan of a cell's query."""
    asked = query(cell.query)
    tables = {name: relation_source(dataset, relation(name).name, work) for name in asked.relations}
    return asked.plan(cell.variant or asked.default, tables, cell.parameters)


def open_engine(cell: Cell, dataset: Dataset, work: Workload) -> Engine:
    if cell.engine not in ENGINES:
        raise unknown("engine", cell.engine, ENGINES)
    if cell.workers != 1:
        raise DeltamarkError("the embedded engine has one worker", cell.workers, "leave --workers at 1")
    return Worker(collection(cell, dataset, work))


def open_answer(cell: Cell, dataset: Dataset, work: Workload) -> Engine:
    """Open an engine whose rows are those of the answer, whatever the variant hands out."""
    engine = open_engine(cell, dataset, work)
    sums = query(cell.query).accumulated.get(cell.variant)
    return engine if sums is None else Accumulated(engine, sums)


class Accumulated:
    """An engine that sums what another one hands out."""

    def __init__(self, engine: Engine, sums: Callable[[Collection], Collection]) -> None:
        self._engine = engine
        columns = {field.name: field.type for field in engine.schema.fields}
        self._sums = Worker(sums(source("diffs", columns, engine.schema.rows)))
        self.schema = self._sums.schema

    @property
    def inputs(self) -> dict[str, tuple[str, ...]]:
        return self._engine.inputs

    def feed(self, batches: Mapping[str, Batch]) -> Batch:
        return self._sums.feed({"diffs": self._engine.feed(batches)})

    def push(self, batches: Mapping[str, Batch]) -> int:
        return self._sums.push({"diffs": self._engine.feed(batches)})

    def state_rows(self) -> int:
        return self._engine.state_rows() + self._sums.state_rows()

    def explain(self) -> str:
        return f"{self._engine.explain()}\n\nits changes are summed by\n\n{self._sums.explain()}"

    def close(self) -> None:
        self._engine.close()
        self._sums.close()
