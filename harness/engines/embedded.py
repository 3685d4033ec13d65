"""Engines: what maintains a query's answer, opened by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, runtime_checkable

import numpy as np

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.runtime.dataflow import ANSWER, Dataflow
from deltamark.dataflow.runtime.worker_group import WorkerGroup
from deltamark.dataflow.types import Schema
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Feed
from deltamark.datagen.schema import relation
from deltamark.datagen.workload import Workload
from deltamark.errors import DeltamarkError, unknown
from deltamark.harness.engines.inputs import batches, relation_source
from deltamark.harness.engines.spark import SPARK, Distributed
from deltamark.harness.measure.cell import Cell
from deltamark.queries.catalogue import query

ENGINES = ("embedded", SPARK)
"""Those of ours: each has a change stream at exact times."""


class Engine(Protocol):
    """Feed it whole logical times, get the changes of the answer."""

    @property
    def schema(self) -> Schema:
        """The columns of the answer."""
        ...

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


@runtime_checkable
class Whole(Protocol):
    """An engine that reads its inputs by itself."""

    schema: Schema

    def changes(self, rounds: int) -> Iterator[Batch]:
        """Run to the end of so many rounds; yield all changes in whole times, in order of time."""
        ...

    def close(self) -> None: ...


def collection(cell: Cell, dataset: Dataset, work: Workload) -> Collection:
    """Build the plan of a cell's query."""
    asked = query(cell.query)
    tables = {name: relation_source(dataset, relation(name).name, work) for name in asked.relations}
    return asked.plan(cell.variant or asked.default, tables, cell.parameters)


def known(engine: str) -> str:
    """Return the name of an engine of ours, if it is one."""
    if engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)
    return engine


def open_stream(cell: Cell, dataset: Dataset, work: Workload) -> Engine | Whole:
    """Open any engine of ours."""
    if cell.engine == SPARK:
        return Distributed(cell, dataset, collection(cell, dataset, work))
    return open_engine(cell, dataset, work)


def open_engine(cell: Cell, dataset: Dataset, work: Workload) -> Engine:
    """Open an engine that is fed."""
    if known(cell.engine) == SPARK:
        raise DeltamarkError("an engine that feeds itself", cell.engine, "use embedded")
    plan = collection(cell, dataset, work)
    return Dataflow(plan, workers=cell.workers)


class Cut:
    """What the workers of an engine take from: each cuts the same batches of the mapped data, and maps their pages."""

    def __init__(self, cell: Cell, dataset: Dataset, work: Workload, inputs: Mapping[str, tuple[str, ...]]) -> None:
        wanted = {relation(name).name: columns for name, columns in inputs.items()}
        self.feed = Feed(dataset, work, wanted, logical=cell.logical)

    def take(self, physical: int) -> dict[str, Batch]:
        taken = batches(self.feed.take(physical))
        for batch in taken.values():
            for column in batch.columns.values():
                if isinstance(column, np.ndarray):
                    column[::PAGE].max()
        return taken


PAGE = 512
"""At least one of so many values lies in each page."""


def open_taking(cell: Cell, dataset: Dataset, work: Workload) -> tuple[WorkerGroup, Feed]:
    """Open an engine whose workers take batches by themselves; return it and the feed that the first takes from."""
    made: list[Cut] = []

    def cut(inputs: Mapping[str, tuple[str, ...]]) -> Cut:
        made.append(Cut(cell, dataset, work, inputs))
        return made[0]

    engine = WorkerGroup({ANSWER: collection(cell, dataset, work)}, cell.workers, cut)
    return engine, made[0].feed


def open_answer(cell: Cell, dataset: Dataset, work: Workload) -> Engine | Whole:
    """Open an engine whose rows are those of the answer, whatever the variant hands out."""
    engine = open_stream(cell, dataset, work)
    sums = open_sums(cell, engine.schema)
    if sums is None:
        return engine
    return AccumulatedWhole(engine, sums) if isinstance(engine, Whole) else Accumulated(engine, sums)


def open_sums(cell: Cell, schema: Schema) -> Dataflow[Batch] | None:
    """Open what adds up the changes that a variant hands out, its input `diffs`; None where those are the answer's."""
    sums = query(cell.query).accumulated.get(cell.variant)
    if sums is None:
        return None
    columns = {field.name: field.type for field in schema.fields}
    return Dataflow(sums(source("diffs", columns, schema.rows)))


class Accumulated:
    """An engine whose changes are added up."""

    def __init__(self, engine: Engine, sums: Dataflow[Batch]) -> None:
        self._engine, self._sums = engine, sums
        self.schema = sums.schema

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


class AccumulatedWhole:
    """The same for a stream that is computed as a whole."""

    def __init__(self, engine: Whole, sums: Dataflow[Batch]) -> None:
        self._engine, self._sums = engine, sums
        self.schema = sums.schema

    def changes(self, rounds: int) -> Iterator[Batch]:
        for each in self._engine.changes(rounds):
            yield self._sums.feed({"diffs": each})

    def close(self) -> None:
        self._engine.close()
        self._sums.close()
