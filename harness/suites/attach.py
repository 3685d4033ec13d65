"""The suite of attachments: a second query is opened beside the first one, over rows that were fed before.

The base is loaded, and then single rows leave and come back (the workload `swap`), so the base keeps its size. Batches
of the first query are timed before the second one comes, and the same changes again afterwards, when a batch concerns
both. The second query alone is timed as well: two queries that share nothing take the sum.

The first query waits while the engine computes the first answer of the second one. DuckDB has the same answers when the
second query has come, and at the end; the changes in between are those of the same batches before, and of the second
query alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import last_time
from deltamark.datagen.schema import TIMES_PER_ROUND
from deltamark.datagen.workloads.registry import workload
from deltamark.datagen.workloads.swap import BLOCK, swapped
from deltamark.datagen.workloads.workload import Workload
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.answers import WrongAnswerError, unordered_difference
from deltamark.harness.check.oracle import Oracle
from deltamark.harness.engines.base import AttachingEngine, Engine
from deltamark.harness.engines.plans import sql_inputs
from deltamark.harness.engines.registry import attaching, capabilities
from deltamark.harness.measure.client import CellReply
from deltamark.harness.results.record import Figures
from deltamark.harness.suites.growth import load
from deltamark.harness.suites.recovery import Consumer, compared
from deltamark.harness.system import resources
from deltamark.harness.system.clock import timed, without_collections
from deltamark.harness.system.resources import MemoryUse

BATCHES = 20
"""The batches of a relation that are timed. Not tuned."""

CYCLES = 3
"""The cycles of the workload: one that is not timed, one before the second query comes, and one after."""


def measure(cell: Cell, coming: str, data: Path) -> Iterator[CellReply]:
    """Attach a query to that of a cell; yield a row. coming: the name of the query."""
    dataset = Dataset.open(data)
    cell = cell.but(workload=f"swap:{CYCLES * _rounds(dataset)}", physical=1)
    second, work = cell.but(query=coming), workload(dataset, cell.workload)
    with closing(Oracle(work, sql_inputs(cell, second), 1)) as oracle:
        pair = _Pair(cell, second, oracle)
        kind = attaching(cell.engine)
        with (
            closing(kind.beside(cell, [second], dataset, work, pair.first.add)) as engine,
            without_collections(),
        ):
            pair.first.schema = engine.schemas.get(cell.query)
            load(engine, work)
            engine.finish()
            _cycle(engine, cell, dataset)
            figures: Figures = {"before": _cycle(engine, cell, dataset)}
            since = last_time(engine.feed.round, 1)
            figures |= pair.attach(engine)
            pair.check(engine)
            figures["after"] = _cycle(engine, cell, dataset)
            pair.check(engine)
    figures["alone"], alone = _alone(cell, second, dataset, work)
    pair.check_changes(alone, since, TIMES_PER_ROUND * _rounds(dataset))
    yield CellReply(figures={name: values for name, values in figures.items() if values}, verified="oracle")


def _rounds(dataset: Dataset) -> int:
    """Return the rounds of a cycle."""
    return BLOCK * len(swapped(dataset.relations))


@dataclass
class _Pair:
    """Two queries, and the changes of both."""

    cell: Cell
    coming: Cell
    oracle: Oracle

    def __post_init__(self) -> None:
        self.first, self.second = Consumer(), Consumer()

    def attach(self, engine: AttachingEngine) -> Figures:
        """Attach the second query; return the time and the memory of it."""
        engine.expect(self.coming)
        resources.empty_pool()  # a peak includes it
        memory = engine.memory or MemoryUse()
        before = _kept(engine, memory)
        memory.reset_peak()
        most = memory.peak
        seconds = engine.attach(self.coming, self.second.add)
        peak, kept = memory.peak - most, _kept(engine, memory) - before
        self.second.schema = engine.schemas.get(self.coming.query)
        engine.finish()
        return {"seconds": [seconds], "peak_bytes": [max(peak, 0)], "kept_bytes": [max(kept, 0)]}

    def check(self, engine: Engine) -> None:
        """Compare the answers of both queries with DuckDB's; raise an error at the first difference."""
        self.oracle.at(last_time(engine.feed.round, 1))
        tolerance = capabilities(self.cell.engine).tolerance
        for cell, consumer in ((self.cell, self.first), (self.coming, self.second)):
            if wrong := unordered_difference(consumer.answer(), self.oracle.answer(cell.sql), tolerance):
                actual = f"{cell.query}, with {self.coming.query} beside {self.cell.query}\n{wrong}"
                raise WrongAnswerError("a wrong answer", actual, cell.command("verify"))

    def check_changes(self, alone: Consumer, since: int, cycle: int) -> None:
        """Compare the changes after a time: those of the first query with the same ones a cycle before, and those of
        the second query with its changes alone. Rows that have left are back at the end, so answers show less.
        """
        before = {time + cycle: rows for time, rows in self.first.changes.items() if since - cycle < time <= since}
        for cell, consumer, right in ((self.cell, self.first, before), (self.coming, self.second, alone.changes)):
            mine = consumer.changes
            outcome, problem = compared(
                *({time: each[time] for time in each if time > since} for each in (mine, right))
            )
            if outcome != "once":
                raise WrongAnswerError("wrong changes", f"{cell.query}, {problem}", cell.command("verify"))


def _kept(engine: Engine, memory: MemoryUse) -> int:
    """Return the bytes of the state, or those of the processes of an engine that does not count them."""
    stored = engine.stored_bytes()
    return memory.now if stored is None else stored


def _cycle(engine: Engine, cell: Cell, dataset: Dataset) -> list[float]:
    """Run a cycle of the workload; return the times of the first batches of each relation whose rows a query reads."""
    seconds: list[float] = []
    for name in swapped(dataset.relations):
        rest = BLOCK
        if _concerns(name, cell, dataset):
            rest -= BATCHES
            seconds += [_applied(engine) for _ in range(BATCHES) if engine.take(1)]
        if engine.take(rest):
            engine.load()
            engine.finish()
    return seconds


def _concerns(name: str, cell: Cell, dataset: Dataset) -> bool:
    """Return whether a query reads a relation, or rows that move with it."""
    return any(name in (each, dataset.relations.moving.get(each)) for each in cell.reads)


def _applied(engine: Engine) -> float:
    seconds, _ = timed(engine.apply)
    engine.finish()
    return seconds if engine.own_seconds is None else engine.own_seconds


def _alone(cell: Cell, second: Cell, dataset: Dataset, work: Workload) -> tuple[list[float], Consumer]:
    """Time the batches that concern the first query in the second one alone; return also its changes."""
    consumer = Consumer()
    kind = attaching(second.engine)
    with closing(kind.beside(second, [], dataset, work, consumer.add)) as engine, without_collections():
        consumer.schema = engine.schemas.get(second.query)
        load(engine, work)
        seconds = [_cycle(engine, cell, dataset) for _ in range(CYCLES)]
        return seconds[-1], consumer
