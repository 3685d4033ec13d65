"""The checks: answers against the oracle at many times, the law between L and 1, and digests that batching leaves be.

A check returns what it found wrong, as text with the command that repeats it; nothing where all is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.types import Schema
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import TIMES_PER_ROUND, Feed
from deltamark.datagen.schema import relation
from deltamark.datagen.workload import Workload, workload
from deltamark.harness.check import change_stream
from deltamark.harness.check.change_csv import Digest, Lines
from deltamark.harness.check.decode import Value
from deltamark.harness.check.oracle import Oracle
from deltamark.harness.check.snapshot import WEIGHT, Snapshot, nothing, stored_table, summed
from deltamark.harness.engines.duckdb_tables import reads
from deltamark.harness.engines.embedded import open_answer, open_stream
from deltamark.harness.measure.cell import ALL, Cell
from deltamark.queries.catalogue import query

TOLERANCE = 1e-14
"""How far DuckDB's doubles may lie from the nearest one, as a share."""

TIME = "time of the change"
GATHERED = 1 << 15

Row = tuple[Any, ...]
Report = Callable[[int, int], None]


def random_times(work: Workload, names: Iterable[str], logical: int, count: int, chance: Random) -> list[int]:
    """Draw times: the first and the last, and of the others half at the end of a round and half in the middle."""
    ranks = sorted({relation(name).rank for name in names})
    last = (work.rounds - 1) // logical
    times = {0, last * TIMES_PER_ROUND + TIMES_PER_ROUND - 1}
    wanted = min(count, (last + 1) * len({*ranks, TIMES_PER_ROUND - 1}))
    while len(times) < wanted:
        middle = chance.choice([TIMES_PER_ROUND - 1, chance.choice(ranks)])
        times.add(chance.randint(0, last) * TIMES_PER_ROUND + middle)
    return sorted(times)


def every_time(dataset: Dataset, work: Workload, names: Iterable[str], logical: int) -> list[int]:
    """Return all times at which a relation changes."""
    feed = Feed(dataset, work, {relation(name).name: () for name in names}, logical=logical)
    return np.unique(np.concatenate([delta.time for delta in feed.take(ALL)])).tolist()


def check_answers(cell: Cell, dataset: Dataset, times: Sequence[int], report: Report = change_stream.nothing) -> str:
    """Compare the maintained answer with the oracle's at some times, in order."""
    asked, work = query(cell.query), workload(dataset, cell.workload)
    with (
        closing(open_answer(cell, dataset, work)) as engine,
        closing(Oracle(dataset, work, reads(cell.sql, asked.relations), cell.logical)) as oracle,
    ):
        changes = change_stream.changes(cell, dataset, engine, change_stream.at(work, cell.logical, times[-1]))
        cursor = _Cursor(Snapshot(engine.schema), changes, cell)
        for number, time in enumerate(times):
            oracle.at(time)
            wrong = difference(cursor.move(time).answer(asked.order), oracle.answer(cell.sql))
            if wrong:
                return f"{cell}: wrong at time {time}, round {time // TIMES_PER_ROUND * cell.logical}\n{wrong}\n  " + (
                    cell.command("answer", "--at", str(time))
                )
            report(number + 1, len(times))
    return ""


class _Cursor:
    """Adds up a stream of changes as far as it is asked to."""

    def __init__(self, snapshot: Snapshot, changes: Iterable[Batch], cell: Cell) -> None:
        self._snapshot = snapshot
        self._changes = iter(changes)
        self._span = TIMES_PER_ROUND * cell.physical
        self._time = -1
        self._known = -1 - self._span  # the stream begins with what is said before any input
        self._held: Batch | None = None

    def move(self, time: int) -> Snapshot:
        while True:
            if self._held is not None:
                self._snapshot.add(self._held, since=self._time, until=time)
            if self._known >= time or (following := next(self._changes, None)) is None:
                break
            self._held = following
            self._known += self._span
        self._time = time
        return self._snapshot


def difference(mine: Sequence[Row], theirs: Sequence[Row], tolerance: float = TOLERANCE) -> str:
    """Describe the first row that differs, if one does. tolerance: between doubles, as a share."""
    for at in range(max(len(mine), len(theirs))):
        one, other = (rows[at] if at < len(rows) else None for rows in (mine, theirs))
        if one is None or other is None or not _same_row(one, other, tolerance):
            return f"  row {at + 1}\n  ours    {_row(one)}\n  DuckDB  {_row(other)}"
    return ""


def _same_row(mine: Row, theirs: Row, tolerance: float) -> bool:
    return len(mine) == len(theirs) and all(_same(*pair, tolerance) for pair in zip(mine, theirs, strict=True))


def _same(mine: Value, theirs: Value, tolerance: float) -> bool:
    if isinstance(mine, float) and isinstance(theirs, float):
        return abs(mine - theirs) <= tolerance * abs(mine)
    return mine == theirs


def _row(row: Row | None) -> str:
    return "has no such row" if row is None else ", ".join("NULL" if each is None else str(each) for each in row)


@dataclass(frozen=True)
class Stream:
    """All changes of a cell."""

    cell: Cell
    schema: Schema
    table: pa.Table
    digest: str


def run_stream(cell: Cell, dataset: Dataset, report: Report = change_stream.nothing) -> Stream:
    """Run a cell to its end, and keep its changes."""
    work = workload(dataset, cell.workload)
    with closing(open_stream(cell, dataset, work)) as engine:
        lines, digest = Lines(engine.schema), Digest()
        changes = change_stream.changes(cell, dataset, engine, change_stream.after(work, cell.logical), report)
        tables = []
        for each in change_stream.gathered(changes, GATHERED):
            lines.digest(each, digest)
            tables.append(_timed(engine.schema, each))
        tables = tables or [_timed(engine.schema, nothing(engine.schema))]
        return Stream(cell, engine.schema, pa.concat_tables(tables), str(digest))


def digest_of(cell: Cell, dataset: Dataset, report: Report = change_stream.nothing) -> str:
    """Run a cell to its end; return the digest of its changes."""
    work = workload(dataset, cell.workload)
    with closing(open_stream(cell, dataset, work)) as engine:
        lines, digest = Lines(engine.schema), Digest()
        changes = change_stream.changes(cell, dataset, engine, change_stream.after(work, cell.logical), report)
        for each in change_stream.gathered(changes, GATHERED):
            lines.digest(each, digest)
        return str(digest)


def _timed(schema: Schema, changes: Batch) -> pa.Table:
    return stored_table(schema, changes).append_column(TIME, pa.array(changes.time))


def check_logical(fine: Stream, coarse: Stream) -> str:
    """Check the law: the stream of L=1 with times mapped by t -> (t // 8) // L is that of L by t -> t // 8."""
    wrong = _first_difference(_rounds(fine, coarse.cell.logical), _rounds(coarse, 1))
    if not wrong:
        return ""
    return (
        f"{coarse.cell}: not the stream of L=1 in larger steps\n{wrong}\n"
        f"  {fine.cell.command('changes')}\n  {coarse.cell.command('changes')}"
    )


def _rounds(each: Stream, logical: int) -> pa.Table:
    """Replace times by logical batches."""
    batches = pa.array(each.table[TIME].to_numpy() // TIMES_PER_ROUND // logical)
    return summed(each.table.drop_columns([TIME]).append_column(TIME, batches))


def check_digest(reference: Stream, cell: Cell, dataset: Dataset) -> str:
    """Check that a cell's changes are those of the reference, which differs from it only in how it is run."""
    digest = digest_of(cell, dataset)
    if digest == reference.digest:
        return ""
    wrong = _first_difference(reference.table, run_stream(cell, dataset).table)
    return (
        f"{cell}: another stream than {reference.cell}: {digest}, not {reference.digest}\n{wrong}\n"
        f"  {reference.cell.command('changes')}\n  {cell.command('changes')}"
    )


def _first_difference(mine: pa.Table, theirs: pa.Table) -> str:
    """Describe the first change that is not in both streams."""
    at = theirs.schema.get_field_index(WEIGHT)
    turned = theirs.set_column(at, WEIGHT, pa.compute.negate(theirs[WEIGHT])).select(mine.column_names)
    left = summed(pa.concat_tables([mine, turned]))
    if not left.num_rows:
        return ""
    first = left.sort_by([(TIME, "ascending")]).slice(0, 1).to_pylist()[0]
    time, weight = first.pop(TIME), first.pop(WEIGHT)
    return f"  at {time}: weight {weight:+} more in the first stream, of {_row(tuple(first.values()))} (as stored)"
