"""The oracle: DuckDB over exactly the rows that are live at a logical time.

In every workload the live rows of a relation are consecutive, so a relation is a view of a range of rows of a table,
and a later time is another view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from time import perf_counter

import duckdb

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import TIMES_PER_ROUND
from deltamark.datagen.schema import Relation, RelationName, relation
from deltamark.datagen.workload import Workload
from deltamark.harness.engines.base import Inputs, Row
from deltamark.harness.engines.plans import sql_inputs
from deltamark.harness.measure.cell import Cell

ALL_ROWS = "all_rows"
"""The schema of the tables, which hold all rows."""

TIMED_RUNS = 3
"""The number of timed runs of a query, after one that is not timed; the fastest one counts."""

SQL_VALUES = {
    "int": "{0}",
    "decimal": "({0} / 100)::DECIMAL(15, 2)",
    "date": "DATE '1970-01-01' + {0}",
    "code": "{0}::VARCHAR",
    "text": "{0}",
}
"""The SQL that converts a stored column to the type of the TPC-H specification, for each kind of column."""

Answers = Mapping[int, list[Row]]
"""The oracle's answers, by number of rounds."""


@dataclass(frozen=True)
class OracleAnswers:
    """The oracle's results for a query."""

    answers: Answers
    once: float
    """Seconds of one run of the query over all rows with one thread; 0 if the workload does not end with all rows."""


def oracle_answers(cell: Cell, dataset: Dataset, work: Workload, rounds: Sequence[int]) -> OracleAnswers:
    """Answer a query over the rows that are live after some numbers of rounds, in increasing order."""
    answers = {}
    with closing(Oracle(dataset, work, sql_inputs(cell), 1)) as oracle:
        for each in rounds:
            oracle.at(TIMES_PER_ROUND * each - 1)
            answers[each] = oracle.answer(cell.sql)
        return OracleAnswers(answers, oracle.seconds(cell.sql) if cell.workload == "insert" else 0.0)


def sql_values(table: Relation, columns: Sequence[str]) -> str:
    """Return the SELECT list that converts stored columns to those of the TPC-H specification."""
    return ", ".join(f"{SQL_VALUES[table.column(name).kind].format(name)} AS {table.prefix}{name}" for name in columns)


class Oracle:
    """Answers queries at logical times that never decrease."""

    def __init__(self, dataset: Dataset, work: Workload, inputs: Inputs, logical: int) -> None:
        self._dataset = dataset
        self._connection = duckdb.connect(config={"threads": 1})
        self._connection.execute(f"CREATE SCHEMA {ALL_ROWS}")
        for name, columns in inputs.items():
            self._load(relation(name), columns)
        self._live = [LiveRows(work, relation(name).name, logical) for name in inputs]
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
        """Time a query over the live rows, with the fetch of its answer."""
        seconds = []
        for _ in range(TIMED_RUNS + 1):
            started = perf_counter()
            self.answer(sql)
            seconds.append(perf_counter() - started)
        return min(seconds[1:])

    def close(self) -> None:
        self._connection.close()

    def _load(self, table: Relation, columns: Sequence[str]) -> None:
        values = sql_values(table, columns)
        self._connection.register("stored", self._dataset.table(table.name))
        self._connection.execute(f"CREATE TABLE {ALL_ROWS}.{table.name} AS SELECT {values} FROM stored")  # noqa: S608
        self._connection.unregister("stored")

    def _show(self, live: LiveRows) -> None:
        span = f" WHERE rowid >= {live.first} AND rowid < {live.last}"
        where = "" if (live.first, live.last) == (0, self._dataset.rows(live.name)) else span
        self._connection.execute(
            f"CREATE OR REPLACE VIEW {live.name} AS SELECT * FROM {ALL_ROWS}.{live.name}{where}"  # noqa: S608
        )


class LiveRows:
    """The positions of the live rows of a relation: `first` to `last` - 1."""

    def __init__(self, work: Workload, name: RelationName, logical: int) -> None:
        self.name: RelationName = name
        self.first = self.last = 0
        self._work, self._logical = work, logical
        self._round = 0

    def move(self, time: int) -> bool:
        """Advance to the end of a time; return whether the live rows changed."""
        batch, rank = divmod(time, TIMES_PER_ROUND)
        has_come = relation(self.name).rank <= rank
        before, stop = (self.first, self.last), min((batch + has_come) * self._logical, self._work.rounds)
        for piece in self._work.pieces(self.name, self._round, stop) if self._round < stop else ():
            if piece.start != (self.last if piece.diff > 0 else self.first):
                raise AssertionError(f"{self.name}: {piece} does not follow {self.first}..{self.last}")
            if piece.diff > 0:
                self.last = piece.stop
            else:
                self.first = piece.stop
        self._round = max(self._round, stop)
        return before != (self.first, self.last)
