"""Measurements of several queries over the stream of one scale factor.

Loads: the first 1, 2, 4, ... and all queries in one engine, beside the same queries alone. Of our engine also the
shared arrangements, and attachments: a query that attaches to a dataflow of others, all at once or incrementally.
Answers are compared with DuckDB's.

Batches are cut untimed in advance. A timed load of our engine takes its memory from the pool of the process, to which
an untimed one of the same queries has returned it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.runtime.live_plans import History
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Feed, last_time
from deltamark.datagen.schema import TIMES_PER_ROUND
from deltamark.datagen.workloads.registry import workload
from deltamark.datagen.workloads.workload import Workload
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.answers import Snapshot, Summed, WrongAnswerError, difference, unordered_difference
from deltamark.harness.check.oracle import Oracle
from deltamark.harness.engines.base import short_name
from deltamark.harness.engines.inputs import batches, relation_source
from deltamark.harness.engines.plans import plan_of, sql_inputs
from deltamark.harness.engines.registry import attaching, capabilities
from deltamark.harness.measure.client import CellReply
from deltamark.harness.measure.stats import percentile
from deltamark.harness.results.record import Figures
from deltamark.harness.system import resources
from deltamark.harness.system.clock import Stopwatch, timed
from deltamark.harness.system.resources import MemoryUse
from deltamark.harness.tables.suites import SMALL_BATCH_ROUNDS

ORACLE = "oracle"

WAITING_CHANGES = 1 << 15
"""The number of changes at which a checked load hands them over, since the engine keeps them until then. Not tuned."""

REMEDY = "python -m harness verify tells whether the query is right alone"


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
            raise WrongAnswerError("a wrong answer", f"{name}, {where}\n{wrong}", REMEDY)


@dataclass(frozen=True)
class Loaded:
    """A whole stream, loaded: seconds, tuples fed, the state at its end, and the peak memory of the process."""

    seconds: float
    tuples: int
    state_rows: int
    state_bytes: int
    peak_bytes: int


def loads(cells: Sequence[Cell], data: Path, runs: int) -> Iterator[CellReply]:
    """Load the first 1, 2, 4, ... and all of some queries together, and each alone; yield a row for each number.

    They are loaded once to measure their memory, and then timed, alternately.
    """
    dataset = Dataset.open(data)
    first, work = cells[0], workload(dataset, cells[0].workload)
    drawn = Random(first.logical * first.physical).randrange(1, work.rounds) // first.logical * first.logical  # noqa: S311
    check(cells, dataset, sorted({max(drawn, first.logical), work.rounds}))

    def run(load: Callable[[Sequence[Cell]], Loaded]) -> list[tuple[Loaded, list[Loaded]]]:
        """Load by each number of queries: these together, and each of them alone."""
        alone = [load([cell]) for cell in cells]
        return [(load(cells[:number]) if number > 1 else alone[0], alone[:number]) for number in numbers_of(len(cells))]

    def measured(some: Sequence[Cell]) -> Loaded:
        resources.empty_pool()  # a peak includes it
        return _load(some, dataset, work)

    sizes = run(measured)
    timed_runs = [run(lambda some: _load(some, dataset, work)) for _ in range(runs)]
    for at, number in enumerate(numbers_of(len(cells))):
        together, alone = sizes[at]
        timed_together, timed_alone = [[each[at][0]] for each in timed_runs], [each[at][1] for each in timed_runs]
        figures: Figures = {"queries": [number], "tuples": [together.tuples]}
        figures |= _figures("together", timed_together, [together]) | _figures("alone", timed_alone, alone)
        row = f"{first.logical} x {first.physical} {short_name(first.engine)} {number}"
        yield CellReply(row=row, figures=figures, verified=ORACLE)


def numbers_of(queries: int) -> list[int]:
    """Return the numbers of queries that are loaded together: the powers of two, and all."""
    return [*(2**power for power in range(queries.bit_length()) if 2**power < queries), queries]


def _load(cells: Sequence[Cell], dataset: Dataset, work: Workload) -> Loaded:
    """Load the stream into an engine of some queries."""
    resources.reset_peak()
    own = MemoryUse()
    with closing(attaching(cells[0].engine).together(cells, dataset, work, {})) as engine:
        memory, seconds, tuples = engine.memory or own, 0.0, 0
        while not engine.feed.done:
            if taken := engine.take(cells[0].physical):
                passed, _ = timed(engine.apply)
                seconds += passed if engine.own_seconds is None else engine.own_seconds
                tuples += taken
        stored = engine.stored_bytes()
        return Loaded(seconds, tuples, engine.state_rows(), memory.growth if stored is None else stored, memory.peak)


def _figures(name: str, timed: Sequence[Sequence[Loaded]], sizes: Sequence[Loaded]) -> Figures:
    """Sum the seconds of loads, run by run, and their state; the peak is that of the largest."""
    return {
        f"{name}_seconds": [sum(each.seconds for each in run) for run in timed],
        f"{name}_rows": [sum(each.state_rows for each in sizes)],
        f"{name}_bytes": [sum(each.state_bytes for each in sizes)],
        f"{name}_peak": [max(each.peak_bytes for each in sizes)],
    }


def check(cells: Sequence[Cell], dataset: Dataset, rounds: Sequence[int]) -> None:
    """Compare all answers with DuckDB's after some numbers of rounds; raise an error at the first difference."""
    first, work = cells[0], workload(dataset, cells[0].workload)
    found = {cell.query: Summed() for cell in cells}
    sinks = {name: each.add for name, each in found.items()}
    with (
        closing(attaching(first.engine).together(cells, dataset, work, sinks)) as engine,
        closing(Oracle(work, sql_inputs(*cells), first.logical)) as oracle,
    ):
        for name, each in found.items():
            each.schema = engine.schemas.get(name)
        for stop in rounds:
            waiting = 0
            while not engine.feed.done and engine.feed.round < stop:
                if engine.take(min(first.physical, -(-(stop - engine.feed.round) // first.logical))):
                    waiting += engine.apply()
                if waiting >= WAITING_CHANGES:
                    engine.finish()
                    waiting = 0
            engine.finish()
            oracle.at(last_time(engine.feed.round, first.logical))
            for cell in cells:
                wrong = unordered_difference(
                    found[cell.query].rows(), oracle.answer(cell.sql), capabilities(cell.engine).tolerance
                )
                if wrong:
                    where = f"together with others, after {engine.feed.round} rounds"
                    raise WrongAnswerError("a wrong answer", f"{cell}, {where}\n{wrong}", REMEDY)


def arrangements(shared: SharedQueries) -> Iterator[CellReply]:
    """List the arrangements that several queries read after all rows were loaded, the largest first."""
    with closing(shared.loaded()) as engine:
        several = [each for each in engine.sharing() if len(each[1]) > 1]
    for name, queries, rows, size in sorted(several, key=lambda each: -each[-1]) or [("none", [], 0, 0)]:
        yield CellReply(row=name, figures={"rows": [rows], "bytes": [size]}, note=" ".join(queries))


def filters(shared: SharedQueries) -> Iterator[CellReply]:
    """List the planner's decisions about arrangements that differ in their filters."""
    names = "apart", "left", "bytes_apart", "bytes_as_one", "in_vain"
    with closing(Dataflow(shared.plans)) as engine:
        decisions = [
            (name, (each.apart, len(each.filters), each.bytes_apart, each.bytes_as_one, each.wasted_probes))
            for name, each in engine.choices()
        ]
    for name, values in decisions or [("none", (0, 0, 0, 0, 0))]:
        yield CellReply(row=name, figures={figure: [value] for figure, value in zip(names, values, strict=True)})


MIN_REPEAT_S, MAX_REPEATS = 0.2, 5
"""An attachment is repeated for this time in all, but at most this often. Not tuned."""

FORWARD_ROUNDS, SMALL_BATCHES = 100_000, 500
"""Rounds in an untimed batch, and the number of timed batches before an incremental attachment."""

JOINS = {
    "lines and their orders": ("lineitem", "orders", "orderkey"),
    "customers and suppliers of a nation": ("customer", "supplier", "nationkey"),
}
"""The joins that attach incrementally, by name: two relations and their key."""


def attachments(shared: SharedQueries) -> Iterator[CellReply]:
    """Attach each query to all others: a second time, and after it was retired; compare its answers with DuckDB's."""
    with closing(shared.loaded()) as engine, closing(shared.oracle()) as oracle:
        oracle.at(TIMES_PER_ROUND * shared.work.rounds - 1)
        for name, plan in shared.plans.items():
            second = f"{name} again"
            history = _history(shared, plan)
            with_arrangements = _fastest(engine, second, plan, history)
            engine.retire(name)
            without = _fastest(engine, name, plan, history)
            first, memory = _attached(engine, name, plan, history)
            for answer in (first, engine.attach(second, plan, history=history)):
                snapshot = Snapshot(plan.schema)
                snapshot.add(answer)
                shared.compare(name, snapshot, oracle, "attached while others run, after all rows")
            engine.retire(second)
            alone = _from_scratch(shared, plan)
            figures: Figures = {"there": [with_arrangements], "others": [without], "alone": [alone]}
            yield CellReply(row=name, figures=figures | memory, verified=ORACLE)


def _attached(
    engine: Dataflow[dict[str, Batch]], name: str, plan: Collection, history: History
) -> tuple[Batch, Figures]:
    """Attach a query once more, so that the pages of its rows in files are mapped already.

    Return its answer, the state that it has added, and the growth of the process at its peak.
    """
    state = engine.state_bytes()
    resources.empty_pool()
    resources.reset_peak()
    before = resources.peak()
    answer = engine.attach(name, plan, history=history)
    kept, most = max(engine.state_bytes() - state, 0), max(resources.peak() - before, 0)
    return answer, {"kept_bytes": [kept], "peak_bytes": [most]}


def _fastest(engine: Dataflow[dict[str, Batch]], name: str, plan: Collection, history: History) -> float:
    watch = Stopwatch()
    for _ in watch.repeats(MAX_REPEATS, MIN_REPEAT_S):
        with watch:
            engine.attach(name, plan, history=history)
        engine.retire(name)
    return min(watch.laps)


def _from_scratch(shared: SharedQueries, plan: Collection) -> float:
    """Return the seconds of creating a dataflow and of loading all rows into it at once."""
    with (watch := Stopwatch()):
        alone = Dataflow({"alone": plan})
    with closing(alone) as engine:
        for batch in shared.all_rows(engine):
            with watch:
                engine.push(batch)
    return watch.seconds


def _history(shared: SharedQueries, plan: Collection) -> History:
    """Return all rows of the stream that a plan reads."""
    with closing(Dataflow({"alone": plan})) as engine:
        rows = next(shared.all_rows(engine))
    return {name: [batch] for name, batch in rows.items()}


def incremental_attachments(shared: SharedQueries, fuel: int) -> Iterator[CellReply]:
    """Load half of the stream, then continue in small batches while large joins attach incrementally."""
    with closing(Dataflow(shared.plans)) as engine:
        feed = shared.feed(engine, 1)
        while feed.round < shared.work.rounds // 2:
            engine.push(batches(feed.take(FORWARD_ROUNDS)))
        small = _SmallBatches(engine, feed)
        for name, (*sides, key) in JOINS.items():
            left, right = (relation_source(side, shared.work) for side in sides)
            plan = left.select(key).join(right.select(key), on=key).count()
            columns = dict.fromkeys(sides, (key,))
            history = batches(Feed(shared.work, columns, logical=feed.round).take(1))
            figures = _attach_beside(small, name, plan, {side: [batch] for side, batch in history.items()}, fuel)
            yield CellReply(row=name, figures={"fuel": [fuel], **figures})


@dataclass(frozen=True)
class _SmallBatches:
    """The stream from now on, in small batches."""

    engine: Dataflow[dict[str, Batch]]
    feed: Feed

    def push(self) -> float:
        """Push a small batch; return its seconds."""
        batch = batches(self.feed.take(SMALL_BATCH_ROUNDS))
        return timed(lambda: self.engine.push(batch))[0]


def _attach_beside(small: _SmallBatches, name: str, plan: Collection, history: History, fuel: int) -> Figures:
    """Return the batch latencies of the running queries alone, and while another one attaches."""
    engine = small.engine
    alone = sorted(small.push() for _ in range(SMALL_BATCHES))
    begin, _ = timed(lambda: engine.attach(name, plan, history=history, fuel=fuel))
    beside = [begin + small.push()]
    while engine.pending and not small.feed.done:
        beside.append(small.push())
    completed = engine.pending is None
    engine.retire(name)
    figures: Figures = {"there": [int(completed)], "batches": [len(beside)]}
    for side, latencies in (("alone", alone), ("beside", sorted(beside))):
        figures |= {f"{side}_p{percent}": [percentile(latencies, percent)] for percent in (50, 99)}
        figures |= {f"{side}_max": [latencies[-1]]}
    return figures
