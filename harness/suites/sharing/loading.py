"""Measurements of loads: several queries in one dataflow beside the same queries alone, and their shared arrangements.

All work runs in this process, over batches that are cut untimed in advance. The memory of a timed run is touched in
advance too: see resources.PretouchedMemory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from random import Random

from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.datagen.schema import TIMES_PER_ROUND
from deltamark.harness.check.snapshot import Snapshot
from deltamark.harness.engines.inputs import batches
from deltamark.harness.measure import resources
from deltamark.harness.measure.timing import Stopwatch
from deltamark.harness.results.record import Figures, TableRow
from deltamark.harness.suites.sharing.queries import SharedQueries


@dataclass(frozen=True)
class Loaded:
    """A whole stream, loaded: seconds, tuples fed, the state at its end, and the peak memory of the process."""

    seconds: float
    tuples: int
    state_rows: int
    state_bytes: int
    peak_bytes: int


def loads(shared: SharedQueries, logical: int, physical: int, runs: int) -> Iterator[TableRow]:
    """Load all queries together and each alone, alternately: once to measure their memory, then timed."""
    rounds = shared.work.rounds
    drawn = Random(logical * physical).randrange(1, rounds) // logical * logical  # noqa: S311
    check(shared, logical, physical, sorted({max(drawn, logical), rounds}))

    def load(names: Sequence[str], touched_bytes: int = 0) -> Loaded:
        return _load(shared, names, logical, physical, touched_bytes)

    names = list(shared.cells)
    together, alone = load(names), [load([name]) for name in names]
    timed_together, timed_alone = [], []
    for _ in range(runs):
        timed_together.append([load(names, together.state_bytes)])
        timed_alone.append([load([name], each.state_bytes) for name, each in zip(names, alone, strict=True)])
    figures = _figures("together", timed_together, [together]) | _figures("alone", timed_alone, alone)
    yield TableRow(f"{logical} x {physical}", {"tuples": [together.tuples], **figures})


def _load(shared: SharedQueries, names: Sequence[str], logical: int, physical: int, touched_bytes: int) -> Loaded:
    """Load the stream into one dataflow of some of the queries."""
    plans = {name: shared.plans[name] for name in names}
    resources.reset_peak()
    with closing(Dataflow(plans)) as engine, closing(resources.PretouchedMemory(touched_bytes)) as warm:
        watch, tuples = Stopwatch(), 0
        for batch in shared.batches(engine, logical, physical):
            warm.release()
            with watch:
                engine.push(batch)
            tuples += sum(len(each.time) for each in batch.values())
        return Loaded(watch.seconds, tuples, engine.state_rows(), engine.state_bytes(), resources.peak())


def _figures(name: str, timed: Sequence[Sequence[Loaded]], sizes: Sequence[Loaded]) -> Figures:
    """Sum the seconds of loads, run by run, and their state; the peak is that of the largest."""
    return {
        f"{name}_seconds": [sum(each.seconds for each in run) for run in timed],
        f"{name}_rows": [sum(each.state_rows for each in sizes)],
        f"{name}_bytes": [sum(each.state_bytes for each in sizes)],
        f"{name}_peak": [max(each.peak_bytes for each in sizes)],
    }


def check(shared: SharedQueries, logical: int, physical: int, rounds: Sequence[int]) -> None:
    """Compare all answers with DuckDB's after some numbers of rounds; raise an error at the first difference."""
    with closing(Dataflow(shared.plans)) as engine, closing(shared.oracle()) as oracle:
        feed = shared.feed(engine, logical)
        snapshots = {name: Snapshot(plan.schema) for name, plan in shared.plans.items()}
        for stop in rounds:
            while not feed.done and feed.round < stop:
                batch = batches(feed.take(min(physical, -(-(stop - feed.round) // logical))))
                for name, changes in engine.feed(batch).items():
                    snapshots[name].add(changes)
            oracle.at(TIMES_PER_ROUND * min(feed.round, shared.work.rounds) - 1)
            for name, snapshot in snapshots.items():
                where = f"together with others, after {feed.round} rounds in batches of {logical} x {physical}"
                shared.compare(name, snapshot, oracle, where)


def arrangements(shared: SharedQueries) -> Iterator[TableRow]:
    """List the arrangements that several queries read after all rows were loaded, the largest first."""
    with closing(shared.loaded()) as engine:
        several = [each for each in engine.sharing() if len(each[1]) > 1]
    for name, queries, rows, size in sorted(several, key=lambda each: -each[-1]) or [("none", [], 0, 0)]:
        yield TableRow(name, {"rows": [rows], "bytes": [size]}, " ".join(queries))


def filters(shared: SharedQueries) -> Iterator[TableRow]:
    """List the planner's decisions about arrangements that differ in their filters."""
    names = "apart", "left", "bytes_apart", "bytes_as_one", "in_vain"
    with closing(Dataflow(shared.plans)) as engine:
        decisions = [
            (name, (each.apart, len(each.filters), each.bytes_apart, each.bytes_as_one, each.wasted_probes))
            for name, each in engine.choices()
        ]
    for name, values in decisions or [("none", (0, 0, 0, 0, 0))]:
        yield TableRow(name, {figure: [value] for figure, value in zip(names, values, strict=True)})
