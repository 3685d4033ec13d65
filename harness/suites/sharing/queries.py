"""Several queries over the stream of one scale factor: their dataflow, their rows, and DuckDB's answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Feed
from deltamark.datagen.workloads.registry import workload
from deltamark.datagen.workloads.workload import Workload
from deltamark.harness.check.difference import difference
from deltamark.harness.check.oracle import Oracle
from deltamark.harness.check.snapshot import Snapshot
from deltamark.harness.engines.inputs import batches
from deltamark.harness.engines.plans import plan_of, sql_inputs
from deltamark.harness.measure.cell import Cell
from deltamark.harness.suites.table_cell import WrongAnswerError


@dataclass(frozen=True)
class SharedQueries:
    directory: Path
    cells: Mapping[str, Cell]
    """By the names of the queries."""

    @cached_property
    def dataset(self) -> Dataset:
        return Dataset.open(self.directory)

    @cached_property
    def work(self) -> Workload:
        return workload(self.dataset, "insert")

    @cached_property
    def plans(self) -> Mapping[str, Collection]:
        return {name: plan_of(cell, self.work) for name, cell in self.cells.items()}

    def feed(self, engine: Dataflow[dict[str, Batch]], logical: int) -> Feed:
        """Return the stream of the columns that a dataflow reads."""
        return Feed(self.work, engine.inputs, logical=logical)

    def batches(self, engine: Dataflow[dict[str, Batch]], logical: int, physical: int) -> Iterator[dict[str, Batch]]:
        feed = self.feed(engine, logical)
        while not feed.done:
            yield batches(feed.take(physical))

    def all_rows(self, engine: Dataflow[dict[str, Batch]]) -> Iterator[dict[str, Batch]]:
        """Yield the stream as one logical batch."""
        return self.batches(engine, self.work.rounds, 1)

    def loaded(self) -> Dataflow[dict[str, Batch]]:
        """Return a dataflow of all queries with all rows loaded."""
        engine = Dataflow(self.plans)
        for batch in self.all_rows(engine):
            engine.push(batch)
        return engine

    def oracle(self) -> Oracle:
        return Oracle(self.work, sql_inputs(*self.cells.values()), 1)

    def compare(self, name: str, snapshot: Snapshot, oracle: Oracle, where: str) -> None:
        """Raise an error if the answer of a query differs from DuckDB's."""
        answer = snapshot.answer(self.cells[name].definition.order_by)
        if wrong := difference(answer, oracle.answer(self.cells[name].sql)):
            remedy = "python -m harness verify tells whether the query is right alone"
            raise WrongAnswerError("a wrong answer", f"{name}, {where}\n{wrong}", remedy)
