"""The checks of answers and streams: answers equal the oracle's at many times; the stream of L equals that of L = 1 in
coarser times; digests do not depend on physical batches, workers, variants and engines.

A check returns a description of the first violation with the command that reproduces it, or an empty string. Golden
digests, to which later code is compared, are those of the change streams of all queries of a benchmark. Those of this
project's benchmarks are computed at one scale factor and committed in results/golden; those of another benchmark lie in
its folder.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa

from deltamark.dataflow.answer import WEIGHT, no_changes, stored_table, summed
from deltamark.dataflow.batch import Batch
from deltamark.dataflow.types import Schema
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Feed
from deltamark.datagen.schema import TIMES_PER_ROUND
from deltamark.datagen.workloads.registry import workload
from deltamark.datagen.workloads.workload import Workload
from deltamark.errors import DeltamarkError, naming
from deltamark.harness.benchmarks.benchmark import DEFAULT, Benchmark, benchmark, included
from deltamark.harness.benchmarks.cell import ALL, Cell
from deltamark.harness.check import change_stream
from deltamark.harness.check.answers import Snapshot, difference, row_text, rows_of, unordered_difference
from deltamark.harness.check.change_stream import DIGESTED_ROWS, ChangeCsv, Digest, open_answer
from deltamark.harness.check.oracle import Oracle
from deltamark.harness.engines.base import TOLERANCE, Row
from deltamark.harness.engines.plans import sql_inputs
from deltamark.harness.engines.registry import open_stream

TIME = "time of the change"
"""The name of a column that no schema has."""

NO_DIFFERENCE = "  their sums are equal at all times: one of them changes a row twice at a time"


def random_times(work: Workload, names: Iterable[str], logical: int, count: int, chance: Random) -> list[int]:
    """Draw times: the first, the last, and others, half of which are at the end of a round and half inside one."""
    ranks = sorted({work.dataset.relations[name].rank for name in names})
    last = (work.rounds - 1) // logical
    times = {0, last * TIMES_PER_ROUND + TIMES_PER_ROUND - 1}
    wanted = min(count, (last + 1) * len({*ranks, TIMES_PER_ROUND - 1}))
    while len(times) < wanted:
        middle = chance.choice([TIMES_PER_ROUND - 1, chance.choice(ranks)])
        times.add(chance.randint(0, last) * TIMES_PER_ROUND + middle)
    return sorted(times)


def every_time(work: Workload, names: Iterable[str], logical: int) -> list[int]:
    """Return all times at which one of the relations changes."""
    feed = Feed(work, dict.fromkeys(names, ()), logical=logical)
    return np.unique(np.concatenate([delta.time for delta in feed.take(ALL)])).tolist()


def check_answers(cell: Cell, dataset: Dataset, times: Sequence[int]) -> str:
    """Compare the maintained answer with the oracle's at increasing times."""
    definition, work = cell.definition, workload(dataset, cell.workload)
    with (
        closing(open_answer(cell, dataset, work)) as stream,
        closing(Oracle(work, sql_inputs(cell), cell.logical)) as oracle,
    ):
        changes = stream.changes(change_stream.end_at_time(work, cell.logical, times[-1]))
        cursor = _Cursor(Snapshot(stream.schema), changes, cell)
        for time in times:
            oracle.at(time)
            wrong = difference(cursor.move(time).answer(definition.order_by), oracle.answer(cell.sql))
            if wrong:
                return f"{cell}: wrong at time {time}, round {time // TIMES_PER_ROUND * cell.logical}\n{wrong}\n  " + (
                    cell.command("answer", "--at", str(time))
                )
    return ""


class _Cursor:
    """A position in a stream of changes, with the snapshot at its time."""

    def __init__(self, snapshot: Snapshot, changes: Iterable[Batch], cell: Cell) -> None:
        self._snapshot = snapshot
        self._changes = iter(changes)
        self._span = TIMES_PER_ROUND * cell.physical
        self._time = -1
        self._read_until = -1 - self._span  # the stream begins with the changes before any input
        self._batch: Batch | None = None

    def move(self, time: int) -> Snapshot:
        """Advance to a time; return the snapshot."""
        while True:
            if self._batch is not None:
                self._snapshot.add(self._batch, since=self._time, until=time)
            if self._read_until >= time or (following := next(self._changes, None)) is None:
                break
            self._batch = following
            self._read_until += self._span
        self._time = time
        return self._snapshot


@dataclass(frozen=True)
class RecordedStream:
    """The complete change stream of a cell."""

    cell: Cell
    schema: Schema
    table: pa.Table
    digest: str

    def answer(self, time: int) -> list[Row]:
        """Return the rows of the answer at a logical time, in any order."""
        until = self.table.filter(pa.compute.less_equal(self.table[TIME], time))
        return rows_of(self.schema, summed(until.drop_columns([TIME])))


def run_stream(cell: Cell, dataset: Dataset) -> RecordedStream:
    """Run a cell to its end; return all its changes."""
    with _stream(cell, dataset) as (schema, batches):
        tables, lines, digest = [_timed(schema, no_changes(schema))], ChangeCsv(schema), Digest()
        for changes in batches:
            lines.digest(changes, digest)
            tables.append(_timed(schema, changes))
    return RecordedStream(cell, schema, pa.concat_tables(tables), str(digest))


def digest_of(cell: Cell, dataset: Dataset) -> str:
    """Run a cell to its end; return the digest of its stream."""
    with _stream(cell, dataset) as (schema, batches):
        lines, digest = ChangeCsv(schema), Digest()
        for changes in batches:
            lines.digest(changes, digest)
    return str(digest)


@contextmanager
def _stream(cell: Cell, dataset: Dataset) -> Iterator[tuple[Schema, Iterator[Batch]]]:
    """Open a cell; yield the schema of its changes, and the changes to its end."""
    work = workload(dataset, cell.workload)
    with closing(open_stream(cell, dataset, work)) as engine:
        changes = change_stream.changes(engine, change_stream.end_after_rounds(work, cell.logical))
        yield engine.schema, change_stream.gathered(changes, DIGESTED_ROWS)


def _timed(schema: Schema, changes: Batch) -> pa.Table:
    return stored_table(schema, changes).append_column(TIME, pa.array(changes.time))


def check_logical(fine: RecordedStream, coarse: RecordedStream) -> str:
    """Check that the stream of L = 1, with t mapped to (t // 8) // L, equals that of L with t mapped to t // 8."""
    wrong = _first_difference(_rounds(fine, coarse.cell.logical), _rounds(coarse, 1))
    if wrong is None:
        return ""
    return (
        f"{coarse.cell}: not the stream of L=1 in larger steps\n{wrong.text}\n"
        f"  {fine.cell.command('changes')}\n  {coarse.cell.command('changes')}"
    )


def _rounds(each: RecordedStream, logical: int) -> pa.Table:
    """Replace times by the numbers of larger logical batches."""
    batches = pa.array(each.table[TIME].to_numpy() // TIMES_PER_ROUND // logical)
    return summed(each.table.drop_columns([TIME]).append_column(TIME, batches))


def check_digest(reference: RecordedStream, cell: Cell, dataset: Dataset) -> str:
    """Check that a cell has the stream of the reference, whose batches, workers, variant or engine may differ."""
    digest = digest_of(cell, dataset)
    if digest == reference.digest:
        return ""
    other = run_stream(cell, dataset)
    wrong = _first_difference(reference.table, other.table)
    difference = f"{wrong.text}\n{_judged(reference, other, dataset, wrong.time)}" if wrong else NO_DIFFERENCE
    return (
        f"{cell}: another stream than {reference.cell}: {digest}, not {reference.digest}\n{difference}\n"
        f"  {reference.cell.command('changes')}\n  {cell.command('changes')}"
    )


def _judged(one: RecordedStream, other: RecordedStream, dataset: Dataset, time: int) -> str:
    """Say which of two streams has the oracle's answer at a time."""
    cell, work = one.cell, workload(dataset, one.cell.workload)
    with closing(Oracle(work, sql_inputs(cell), cell.logical)) as oracle:
        oracle.at(time)
        right = oracle.answer(cell.sql)
    equal = [
        f"that of {each.cell}" for each in (one, other) if not unordered_difference(each.answer(time), right, TOLERANCE)
    ]
    return f"  DuckDB's answer at that time is {' and '.join(equal) or 'another one than both'}"


@dataclass(frozen=True)
class _Difference:
    """The first change in which two streams differ."""

    time: int
    text: str


def _first_difference(mine: pa.Table, theirs: pa.Table) -> _Difference | None:
    """Find the first change in which two streams differ."""
    at = theirs.schema.get_field_index(WEIGHT)
    negated = theirs.set_column(at, WEIGHT, pa.compute.negate(theirs[WEIGHT])).select(mine.column_names)
    left = summed(pa.concat_tables([mine, negated]))
    if not left.num_rows:
        return None
    first = left.sort_by([(TIME, "ascending")]).slice(0, 1).to_pylist()[0]
    time, weight = first.pop(TIME), first.pop(WEIGHT)
    row = row_text(tuple(first.values()))
    return _Difference(time, f"  at {time}: weight {weight:+} more in the first stream, of {row} (as stored)")


SF = "0.01"
FOLDER = Path(__file__).resolve().parent.parent.parent / "results" / "golden"
OWN_FILE = "golden.csv"
"""The file in the folder of a benchmark outside this project."""

HEADER = ["query", "workload", "logical", "updates", "digest"]


def golden_cells(
    queries: Iterable[str] = (), home: Benchmark | None = None, workloads: Iterable[str] | None = None
) -> list[Cell]:
    """Return the cells of some queries and workloads, or of all that have golden digests."""
    home = home or benchmark()
    sf, names = str(home.source.scale(Decimal(SF))), list(queries) or home.queries
    return [
        Cell(name, sf, work, logical, benchmark=home.name)
        for name in names
        for work in (home.golden if workloads is None else workloads)
        for logical in home.golden[work]
    ]


def golden_file(home: Benchmark) -> Path:
    """Return the file with the digests of a benchmark."""
    if home.name not in included():
        return home.folder / OWN_FILE
    return FOLDER / (f"sf{SF}.csv" if home.name == DEFAULT else f"{home.name}-sf{SF}.csv")


def read_golden(home: Benchmark | None = None) -> dict[Cell, str]:
    """Return the digests of a benchmark that were written before."""
    home = home or benchmark()
    path, sf = golden_file(home), str(home.source.scale(Decimal(SF)))
    try:
        with path.open(encoding="utf-8", newline="") as file:
            _, *rows = csv.reader(file)
        return {
            Cell(name, sf, work, int(logical), benchmark=home.name): f"{updates} {digest}"
            for name, work, logical, updates, digest in rows
        }
    except OSError as error:
        remedy = (
            "write them: golden WRITE=yes" if home.name not in included() else "restore the file from version control"
        )
        raise DeltamarkError("no golden digests", f"{path}: {error.strerror}", remedy) from error
    except (ValueError, csv.Error) as error:
        raise DeltamarkError(
            "unreadable golden digests", f"{path}: {error}", "write them again: golden WRITE=yes"
        ) from error


def write_golden(digests: Mapping[Cell, str], home: Benchmark) -> None:
    path = golden_file(home)
    with naming(path), path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows([cell.query, cell.workload, cell.logical, *digest.split()] for cell, digest in digests.items())
