"""The oracle: DuckDB over exactly the rows that are live at a logical time.

A relation is a view of some rows of a table, by their numbers, and a later time is another view.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from operator import itemgetter

import duckdb
import numpy as np
import pyarrow as pa

from deltamark.dataflow.sql.front_end import without_threads
from deltamark.datagen.feed import last_time
from deltamark.datagen.positions import array_of, index_of
from deltamark.datagen.schema import NULL, TIMES_PER_ROUND, Column, Relation
from deltamark.datagen.workloads.workload import ChangedRows, Workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.engines.base import Inputs, Row
from deltamark.harness.engines.plans import sql_inputs
from deltamark.harness.system.clock import Stopwatch

ALL_ROWS = "all_rows"
"""The schema of the tables, which hold all rows."""

NUMBERS = "numbers"
"""The schema of the tables that hold the numbers of the live rows, if these are not consecutive."""

TIMED_RUNS = 3
"""The number of timed runs of a query, after one that is not timed; the fastest one counts."""

FAULTY_OPTIMIZER = "projection_pullup"
"""An optimizer of DuckDB 2.0.0 with which a query may end in an internal error about a cache of dictionaries (q09 on
`hot:100` at scale factor 1)."""

Answers = Mapping[int, list[Row]]
"""The oracle's answers, by the logical times of a cell."""

Moment = tuple[int, int]
"""The number of rounds that share a logical time, and such a time, which together decide the live rows."""


@dataclass(frozen=True)
class OracleAnswers:
    """The oracle's results for a query."""

    answers: Mapping[Moment, list[Row]]
    once: float
    """Seconds of one run of the query over all rows with one thread; 0 if the workload does not end with all rows."""


def moment_after(rounds: int) -> Moment:
    """Return the moment after a number of rounds, which is the same for all sizes of logical batches."""
    return 1, last_time(rounds, 1)


def moments(cell: Cell, rounds: Iterable[int], times: Iterable[int]) -> dict[int, Moment]:
    """Return the moments after some numbers of rounds and at some logical times of a cell, by logical time."""
    after = {last_time(each, cell.logical): moment_after(each) for each in rounds}
    return after | {time: (cell.logical, time) for time in times}


def oracle_answers(cell: Cell, work: Workload, wanted: Iterable[Moment]) -> OracleAnswers:
    """Answer a query over the rows that are live at some moments."""
    answers: dict[Moment, list[Row]] = {}
    with closing(Oracle(work, sql_inputs(cell), 1)) as oracle:
        for logical, group in groupby(sorted(set(wanted)), itemgetter(0)):
            oracle.restart(logical)
            for moment in group:
                oracle.at(moment[1])
                answers[moment] = oracle.answer(cell.sql)
        if cell.workload != "insert":
            return OracleAnswers(answers, 0.0)
        oracle.restart(1)
        oracle.at(last_time(work.rounds, 1))
        return OracleAnswers(answers, oracle.seconds(cell.sql))


def sql_values(table: Relation, columns: Sequence[str]) -> str:
    """Return the SELECT list that converts stored columns to those of SQL."""
    return ", ".join(f'{_sql_value(table.column(name))} AS "{table.prefix}{name}"' for name in columns)


def _sql_value(column: Column) -> str:
    """Return the SQL that converts a stored column to its type in SQL."""
    stored = f'"{column.name}"'
    if column.kind in ("code", "text"):
        return f"{stored}::VARCHAR"
    if column.nullable:
        stored = f"nullif({stored}, {NULL})"
    match column.kind:
        case "decimal":
            unit = Decimal(1).scaleb(-column.scale)
            return f"({stored}::DECIMAL(18, 0) * {unit:f})::DECIMAL({column.digits}, {column.scale})"
        case "double":
            return f"(CASE WHEN {stored} < 0 THEN -1 - {stored} + {NULL} ELSE {stored} END)::BIT::DOUBLE"
        case "timestamp":
            return f"make_timestamp({stored})"
        case "date":
            return f"DATE '1970-01-01' + {stored}::INTEGER"
    return stored


class Oracle:
    """Answers queries at logical times that never decrease."""

    def __init__(self, work: Workload, inputs: Inputs, logical: int) -> None:
        self._work, self._inputs, self._dataset = work, inputs, work.dataset
        self._connection = duckdb.connect(config=without_threads())
        self._connection.execute(f"CREATE SCHEMA {ALL_ROWS}; CREATE SCHEMA {NUMBERS}")
        self._disable(FAULTY_OPTIMIZER)
        for name, columns in inputs.items():
            self._load(self._dataset.relations[name], columns)
        self.restart(logical)

    def restart(self, logical: int) -> None:
        """Return to the state before the first row. logical: the number of rounds that share a time from now on."""
        self._live = [LiveRows(self._work, name, logical) for name in self._inputs]
        for each in self._live:
            self._show(each)

    def at(self, time: int) -> None:
        """Advance to the state at the end of a time."""
        for each in self._live:
            if each.move(time):
                self._show(each)

    def answer(self, sql: str) -> list[Row]:
        return self._connection.execute(sql).fetchall()

    def seconds(self, sql: str) -> float:
        """Time a query over the live rows, with the fetch of its answer, and with all optimizers."""
        self._disable("")
        watch = Stopwatch()
        for _ in range(TIMED_RUNS + 1):
            with watch:
                self.answer(sql)
        self._disable(FAULTY_OPTIMIZER)
        return min(watch.laps[1:])

    def close(self) -> None:
        self._connection.close()

    def _disable(self, optimizers: str) -> None:
        self._connection.execute(f"SET disabled_optimizers = '{optimizers}'")

    def _load(self, table: Relation, columns: Sequence[str]) -> None:
        values = sql_values(table, columns)
        self._connection.register("stored", self._dataset.table(table.name, columns))
        self._connection.execute(f"CREATE TABLE {ALL_ROWS}.{table.name} AS SELECT {values} FROM stored")  # noqa: S608
        self._connection.unregister("stored")

    def _show(self, live: LiveRows) -> None:
        span = live.span
        if span is None or span.stop > self._dataset.rows(live.name):
            self._number(live)
            where = f" WHERE rowid IN (SELECT number FROM {NUMBERS}.{live.name})"  # noqa: S608
        elif span == range(len(live.mask)):
            where = ""
        else:
            where = f" WHERE rowid >= {span.start} AND rowid < {span.stop}"
        self._connection.execute(f"CREATE OR REPLACE VIEW {live.name} AS SELECT * FROM {ALL_ROWS}.{live.name}{where}")  # noqa: S608

    def _number(self, live: LiveRows) -> None:
        """Store the numbers of the live rows."""
        numbers = self._dataset.numbers(live.name, np.flatnonzero(live.mask))
        self._connection.register("live", pa.table({"number": numbers}))
        self._connection.execute(f"CREATE OR REPLACE TABLE {NUMBERS}.{live.name} AS SELECT number FROM live")  # noqa: S608
        self._connection.unregister("live")


class LiveRows:
    """The live rows of a relation, as a mask over all positions."""

    def __init__(self, work: Workload, name: str, logical: int) -> None:
        self.name = name
        self.mask = np.zeros(work.dataset.positions(name), dtype=bool)
        self._work, self._logical = work, logical
        self._round = 0

    @property
    def span(self) -> range | None:
        """The live rows if they are consecutive."""
        count = int(self.mask.sum())
        first = int(self.mask.argmax()) if count else 0
        return range(first, first + count) if self.mask[first : first + count].all() else None

    def move(self, time: int) -> bool:
        """Advance to the end of a time; return whether rows came or went."""
        batch, rank = divmod(time, TIMES_PER_ROUND)
        has_come = self._work.dataset.relations[self.name].rank <= rank
        stop = min((batch + has_come) * self._logical, self._work.rounds)
        pieces = self._work.pieces(self.name, self._round, stop) if self._round < stop else []
        for piece in pieces:
            self._apply(piece)
        self._round = max(self._round, stop)
        return bool(pieces)

    def _apply(self, piece: ChangedRows) -> None:
        """Apply a piece; raise an error if a row is inserted while it is live, or retracted while it is not.

        The keys of the relations are promised to the engines, so no row may be live twice.
        """
        rows, before = index_of(piece.rows), int(np.count_nonzero(self.mask))
        was_live = self.mask[rows].copy()
        self.mask[rows] = piece.diff > 0
        if np.count_nonzero(self.mask) - before == piece.diff * len(piece.rows):
            return
        positions = array_of(piece.rows)
        found, times = np.unique(positions, return_counts=True)
        position = [*positions[was_live == (piece.diff > 0)], *found[times > 1]][0]
        words = "inserted while it is live" if piece.diff > 0 else "retracted while it is not live"
        actual = f"the row at position {position} of {self.name}"
        raise DeltamarkError(f"{self._work.name}: a row is {words}", actual, "a row is live once: correct the workload")
