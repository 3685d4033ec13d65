"""Measurements of a query over the events of Nexmark: runs that are checked, then timed ones, in this process.

A timed run must make as many changes as the checked run, whatever its batches and workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from random import Random
from time import perf_counter

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.harness.check.snapshot import Snapshot
from deltamark.harness.check.table_oracle import TableOracle
from deltamark.harness.engines.base import batches_at_a_time
from deltamark.harness.measure import resources
from deltamark.harness.measure.stats import percentile
from deltamark.harness.results.record import Figures, TableRow
from deltamark.harness.suites.nexmark.stream import EventQuery
from deltamark.harness.suites.table_cell import WrongAnswerError, refuse_difference

RANDOM_TIMES = 3
"""The logical times, beside the last one, at which an answer is compared with DuckDB's."""

MAX_COMPARED_EVENTS = 20_000
"""The rounds within which answers are compared if all events stay, because rows are compared in Python. Not tuned."""

CHECKED_ROUNDS = 10_000
"""The rounds of a batch of a checked run, at most. Not tuned."""

MAX_ROUNDS_OF_SEVERAL = 100
"""The rounds of batches of which several are fed in one call, at most. The call first checks all rows, and that time
counts for its first batch. For 92,000 bids with their texts it is 15 ms, which would be the 99th percentile of 100
batches of 1,000 rounds; such a batch alone takes 0.24 ms.
"""

TESTS = "tests/harness/suites/test_nexmark.py"


@dataclass(frozen=True)
class Checked:
    """A run whose answers were compared: the number of comparisons, the number of changes, and the state at the end."""

    compared: int
    changes: int
    state_bytes: int | None
    """None if there are several workers."""


@dataclass
class EventLoad:
    """A timed run: the seconds of each batch, and the numbers of rows and changes."""

    latencies: list[float] = field(default_factory=list)
    tuples: int = 0
    changes: int = 0

    @property
    def seconds(self) -> float:
        return sum(self.latencies)

    def percentile(self, percent: float) -> float:
        return percentile(sorted(self.latencies), percent)


def measure(query: EventQuery, *, physical: int, workers: int, runs: int) -> Iterator[TableRow]:
    """Compare answers with DuckDB's, then time the stream in batches of `physical` logical batches."""
    checked = check(query, workers)
    with TableOracle(query.text, query.tables) as oracle:
        once = oracle.seconds(query.live(query.rounds))
    loads = [load(query, physical, workers, checked.state_bytes or 0) for _ in range(runs)]
    _refuse_other_changes(query, checked.changes, loads)
    figures: Figures = {
        "seconds": [run.seconds for run in loads], "tuples": [loads[0].tuples],
        "p50": [run.percentile(50) for run in loads], "p99": [run.percentile(99) for run in loads],
        "oracle_seconds": [once], "compared": [checked.compared],
    }  # fmt: skip
    if checked.state_bytes is not None:
        figures["state_bytes"] = [checked.state_bytes]
    yield TableRow(f"{query.name} {physical} {workers}", figures)


def check(query: EventQuery, workers: int) -> Checked:
    """Compare answers at random times and at the last one; if all events stay, only early in the stream."""
    start, changes, stops = 0, 0, compared_rounds(query)
    step = max(CHECKED_ROUNDS // query.logical, 1) * query.logical
    with closing(Dataflow(query.plan, workers=workers)) as engine, TableOracle(query.text, query.tables) as oracle:
        snapshot = Snapshot(query.plan.schema)
        for stop in sorted({*stops, query.rounds}):
            for first in range(start, stop, step):
                made = engine.feed(query.batch(engine.inputs, first, min(first + step, stop)))
                changes += len(made.time)
                if stop <= max(stops):
                    snapshot.add(made)
            if stop in stops:
                where = f"{query.name}, {query.workload}, workers={workers}, after round {stop - 1}"
                refuse_difference(snapshot.rows(), oracle.answer(query.live(stop)), where, TESTS)
            start = stop
        return Checked(len(stops), changes, engine.state_bytes() if workers == 1 else None)


def compared_rounds(query: EventQuery) -> set[int]:
    """Draw the numbers of rounds after which answers are compared; they end with logical times."""
    all_stay = query.window == query.rounds
    last = min(query.rounds, MAX_COMPARED_EVENTS) if all_stay else query.rounds
    drawn = Random(f"{query.name} {query.workload}").choices(range(last), k=RANDOM_TIMES)  # noqa: S311 (no secret)
    ends = ((each // query.logical + 1) * query.logical for each in (*drawn, last - 1))
    return {min(each, query.rounds) for each in ends}


def load(query: EventQuery, physical: int, workers: int, touched_bytes: int) -> EventLoad:
    """Feed the whole stream; the conversion of its rows is not timed."""
    done, rounds = EventLoad(), physical * query.logical
    several = batches_at_a_time(rounds) if workers == 1 and rounds <= MAX_ROUNDS_OF_SEVERAL else 1
    with (
        closing(Dataflow(query.plan, workers=workers)) as engine,
        closing(resources.PretouchedMemory(touched_bytes)) as warm,
    ):
        for start in range(0, query.rounds, several * rounds):
            stop = min(start + several * rounds, query.rounds)
            batch = query.batch(engine.inputs, start, stop)
            warm.release()
            ends = [
                (min(end, query.rounds) - 1) // query.logical for end in range(start + rounds, stop + rounds, rounds)
            ]
            _push(engine, batch, ends, done)
            done.tuples += sum(len(each.time) for each in batch.values())
    return done


def _push(engine: Dataflow[Batch], batch: dict[str, Batch], ends: Sequence[int], done: EventLoad) -> None:
    """Time batches: several by the clock of compiled code, a single one by that of Python."""
    if len(ends) > 1:
        each = engine.push_each(batch, ends)
        done.latencies += (each.nanoseconds / 1e9).tolist()
        done.changes += int(each.changes.sum())
        return
    started = perf_counter()
    done.changes += engine.push(batch)
    done.latencies.append(perf_counter() - started)


def _refuse_other_changes(query: EventQuery, expected: int, loads: Sequence[EventLoad]) -> None:
    for run in loads:
        if run.changes != expected:
            actual = f"{query.name}, {query.workload}: {run.changes:,}, in the checked run {expected:,}"
            raise WrongAnswerError(
                "a wrong number of changes", actual, f"pytest {TESTS} tells whether small data is right"
            )
