"""The stream of Nexmark: event i arrives in round i, and leaves in round i+N if the workload is window:N.

L consecutive rounds share a logical time. The table side_input arrives in round 0 and stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.sql.arrow_tables import arrow_batch, arrow_table
from deltamark.dataflow.sql.query import sql
from deltamark.datagen.nexmark.events import CYCLE, KINDS, SIDE_KEYS, side_input
from deltamark.datagen.nexmark.make import read_events, read_table
from deltamark.errors import unknown, whole_number
from deltamark.harness.check.table_oracle import LiveRanges, named_columns
from deltamark.queries.nexmark import TEXTS

SIDE_INPUT = "side_input"
SCHEMAS = {**{name: kind.schema for name, kind in KINDS.items()}, SIDE_INPUT: side_input().schema}
KEYS = {"person": "id", "auction": "id"}
WORKLOADS = ("insert", "window:N")
WEIGHT = "weight"
"""The name of a column that no relation has."""


def window_of(workload: str, events: int) -> int:
    """Return the number of events that are live at the same time."""
    kind, _, size = workload.partition(":")
    if workload == "insert":
        return events
    if kind != "window":
        raise unknown("workload of Nexmark", workload, WORKLOADS)
    return whole_number(size, 1, events - 1, "window:N needs a whole number N below the number of events")


@dataclass(frozen=True)
class EventQuery:
    """A query over the stored events of a directory. logical: the rounds that share a logical time."""

    name: str
    directory: Path
    workload: str = "insert"
    logical: int = 1

    @property
    def text(self) -> str:
        return TEXTS[self.name]

    @cached_property
    def rounds(self) -> int:
        return read_events(self.directory).events

    @cached_property
    def window(self) -> int:
        """The number of events that are live at the same time, at most."""
        return window_of(self.workload, self.rounds)

    @cached_property
    def tables(self) -> Mapping[str, pa.Table]:
        """The tables that the text names, with the columns that it names."""
        found = {}
        for name, columns in named_columns(self.text, SCHEMAS).items():
            table = side_input() if name == SIDE_INPUT else read_table(self.directory, name)
            found[name] = table.select(columns).combine_chunks()
        return found

    @cached_property
    def relations(self) -> Mapping[str, Collection]:
        """The inputs, with the most rows that are live at the same time."""
        events = min(self.window + CYCLE, self.rounds)
        found = {
            SIDE_INPUT: arrow_table(SIDE_INPUT, SCHEMAS[SIDE_INPUT], SIDE_KEYS, {"key": (0, SIDE_KEYS - 1)}, "key")
        }
        for name, kind in KINDS.items():
            bounds = kind.bounds(self.rounds - 1)
            found[name] = arrow_table(name, kind.schema, kind.rows_of(events), bounds, KEYS.get(name, ()))
        return found

    @cached_property
    def plan(self) -> Collection:
        return sql(self.text, self.relations)

    def live(self, rounds: int) -> LiveRanges:
        """Return the rows that are live after some rounds."""
        first = max(rounds - self.window, 0)
        return {
            name: range(SIDE_KEYS) if name == SIDE_INPUT else range(*map(KINDS[name].rows_of, (first, rounds)))
            for name in self.tables
        }

    def batch(self, inputs: Mapping[str, Sequence[str]], start: int, stop: int) -> dict[str, Batch]:
        """Return the changes in the rounds start to stop - 1, with the columns that a dataflow reads."""
        return {name: self._changes(name, columns, start, stop) for name, columns in inputs.items()}

    def _changes(self, name: str, columns: Sequence[str], start: int, stop: int) -> Batch:
        table, schema = self.tables[name].select(columns), self.relations[name].schema
        if name == SIDE_INPUT:
            return arrow_batch(table if start == 0 else table.slice(0, 0), schema, 0)
        kind, pieces, rounds, diffs = KINDS[name], [], [], []
        for diff, age in ((1, 0), (-1, self.window)):
            rows = range(*(kind.rows_of(max(each - age, 0)) for each in (start, stop)))
            pieces.append(table.slice(rows.start, len(rows)))
            rounds.append(kind.events_of(np.arange(rows.start, rows.stop)) + age)
            diffs.append(np.full(len(rows), diff))
        order = np.argsort(np.concatenate(rounds), kind="stable")
        changes = pa.concat_tables(pieces).append_column(WEIGHT, pa.array(np.concatenate(diffs)))
        times = np.concatenate(rounds)[order] // self.logical
        return arrow_batch(changes.take(pa.array(order)), schema, times, WEIGHT)
