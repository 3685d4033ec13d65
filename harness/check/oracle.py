"""The oracle: DuckDB over exactly the rows that are live at a logical time.

In every workload the live rows of a relation lie together, so a relation is a view of consecutive rows of a table, and
moving on in time is another view.
"""

from __future__ import annotations

from typing import Any

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import TIMES_PER_ROUND
from deltamark.datagen.schema import RelationName, relation
from deltamark.datagen.workload import Workload
from deltamark.harness.engines import duckdb_tables
from deltamark.harness.engines.duckdb_tables import Reads

WHOLE = "whole"
"""The schema of the tables that have all rows."""

RUNS = 3


class Oracle:
    """Answers at times that never go back."""

    def __init__(self, dataset: Dataset, work: Workload, wanted: Reads, logical: int) -> None:
        self._dataset = dataset
        self._connection = duckdb_tables.load(dataset, wanted, schema=WHOLE)
        self._live = [Live(work, relation(name).name, logical) for name in wanted]
        for each in self._live:
            self._show(each)

    def at(self, time: int) -> None:
        """Move on to the state at the end of a time."""
        for each in self._live:
            if each.move(time):
                self._show(each)

    def answer(self, sql: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql).fetchall()

    def seconds(self, sql: str) -> float:
        """Time a query over the rows that are live."""
        return duckdb_tables.best_seconds(self._connection, sql, RUNS)

    def close(self) -> None:
        self._connection.close()

    def _show(self, live: Live) -> None:
        some = f" WHERE rowid >= {live.first} AND rowid < {live.last}"
        where = "" if (live.first, live.last) == (0, self._dataset.rows(live.name)) else some
        self._connection.execute(
            f"CREATE OR REPLACE VIEW {live.name} AS SELECT * FROM {WHOLE}.{live.name}{where}"  # noqa: S608
        )


class Live:
    """Which rows of a relation are live: `first` to `last` - 1."""

    def __init__(self, work: Workload, name: RelationName, logical: int) -> None:
        self.name: RelationName = name
        self.first = self.last = 0
        self._work, self._logical = work, logical
        self._round = 0

    def move(self, time: int) -> bool:
        """Move on to the end of a time; return if that changes anything."""
        batch, rank = divmod(time, TIMES_PER_ROUND)
        here = relation(self.name).rank <= rank
        before, stop = (self.first, self.last), min((batch + here) * self._logical, self._work.rounds)
        for piece in self._work.pieces(self.name, self._round, stop) if self._round < stop else ():
            if piece.start != (self.last if piece.diff > 0 else self.first):
                raise AssertionError(f"{self.name}: {piece} does not follow {self.first}..{self.last}")
            if piece.diff > 0:
                self.last = piece.stop
            else:
                self.first = piece.stop
        self._round = max(self._round, stop)
        return before != (self.first, self.last)
