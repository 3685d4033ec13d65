"""Measurements of a query over a star schema: a run that is checked, then timed ones. All work runs in this process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from random import Random

from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.harness.check.snapshot import Snapshot
from deltamark.harness.check.table_oracle import LiveRanges, TableOracle
from deltamark.harness.measure import resources
from deltamark.harness.results.record import TableRow
from deltamark.harness.suites.ssb.stream import StarQuery
from deltamark.harness.suites.table_cell import refuse_difference

RANDOM_TIMES = 3
"""The logical times, beside three fixed ones, at which an answer is compared with DuckDB's."""

TESTS = "tests/harness/suites/test_ssb.py"


@dataclass(frozen=True)
class StarLoad:
    """A stream that was fed: the seconds of the engine, the tuples, and the state at its end."""

    seconds: float
    tuples: int
    state_bytes: int


def measure(query: StarQuery, batch_rows: int, runs: int) -> Iterator[TableRow]:
    """Compare the answers of a query with DuckDB's, then time its stream."""
    compared = check(query, batch_rows)
    with TableOracle(query.text, query.tables) as oracle:
        once = oracle.seconds({table: range(rows) for table, rows in query.rows.items()})
    touched = load(query, batch_rows, 0).state_bytes
    loads = [load(query, batch_rows, touched) for _ in range(runs)]
    yield TableRow(
        f"{query.name} {batch_rows}",
        {
            "seconds": [each.seconds for each in loads], "tuples": [loads[0].tuples], "compared": [compared],
            "state_bytes": [touched], "oracle_seconds": [once],
        },
    )  # fmt: skip


def check(query: StarQuery, batch_rows: int) -> int:
    """Compare answers after the first time, the last insertion, the last retraction and random times between."""
    steps = list(query.steps(batch_rows))
    inserts = sum(any(each.diff > 0 for each in step) for step in steps)
    drawn = Random(f"{query.name} {batch_rows}").choices(range(len(steps)), k=RANDOM_TIMES)  # noqa: S311 (no secret)
    times = {0, inserts - 1, len(steps) - 1, *drawn}
    live: LiveRanges = dict.fromkeys(query.columns, range(0))
    with closing(Dataflow(query.plan)) as engine, TableOracle(query.text, query.tables) as oracle:
        snapshot = Snapshot(query.plan.schema)
        for time_, batch in enumerate(query.batches(engine.inputs, batch_rows)):
            snapshot.add(engine.feed(batch))
            for each in steps[time_]:
                live = each.applied(live)
            if time_ in times:
                where = f"{query.name}, in batches of {batch_rows} rows, at time {time_}"
                refuse_difference(snapshot.rows(), oracle.answer(live), where, TESTS)
    return len(times)


def load(query: StarQuery, batch_rows: int, touched_bytes: int) -> StarLoad:
    """Feed the whole stream; the conversion of its rows is not timed."""
    with closing(Dataflow(query.plan)) as engine, closing(resources.PretouchedMemory(touched_bytes)) as warm:
        seconds, tuples = 0.0, 0
        for batch in query.batches(engine.inputs, batch_rows):
            warm.release()
            started = time.perf_counter()
            engine.push(batch)
            seconds += time.perf_counter() - started
            tuples += sum(len(each.time) for each in batch.values())
        return StarLoad(seconds, tuples, engine.state_bytes())
