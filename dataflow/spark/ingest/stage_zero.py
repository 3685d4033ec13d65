"""Stage 0: what each edge takes from a piece of the inputs, where they are read. Nothing is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np
import pyarrow as pa

from deltamark.dataflow.batch import Batch, Column, trusted
from deltamark.dataflow.codegen.compiler import compile_plans
from deltamark.dataflow.runtime.worker import Worker
from deltamark.dataflow.spark.ingest.wire import deal, pack
from deltamark.dataflow.spark.planning.edges import ROW, Cut, Output

Wanted = Mapping[str, tuple[str, ...]]
"""The columns that are read, input by input."""

Sent = tuple[int, str, bytes]
"""To a shard, for an edge: changes."""


class Taker(Protocol):
    """Hands out pieces of batches: disjoint ones, which together are the batch, each in order of time."""

    def take(self, batch: int, piece: int, pieces: int) -> Mapping[str, Batch]: ...


class Source(Protocol):
    """Where the changes of the inputs come from. It travels to every executor by pickle, and opens there."""

    @property
    def batches(self) -> int:
        """How many physical batches there are."""
        ...

    @property
    def identity(self) -> Mapping[str, str]:
        """What must be the same for a checkpoint to be gone on from."""
        ...

    def rows(self, batch: int) -> int:
        """About how many rows a batch has."""
        ...

    def open(self, wanted: Wanted) -> Taker: ...


MOST_READINGS = 4
"""What goes to later stages than so many comes to that one, and passes through: Spark has a process for each source."""


def read_for(plan: Cut, stage: int) -> list[Output]:
    """Return what stage 0 computes for a stage, or sends through it."""
    return [output for output in plan.stages[0] if min(output.edge.stage, MOST_READINGS) == stage]


class Reading:
    """The edges from stage 0 to one stage, or through it."""

    def __init__(self, plan: Cut, stage: int, shards: int) -> None:
        self._outputs = read_for(plan, stage)
        self._shards = shards
        plans = {output.edge.name: output.node for output in self._outputs}
        self._program = Worker(compile_plans(plans)) if plans else None

    @property
    def wanted(self) -> Wanted:
        found: dict[str, dict[str, None]] = {}
        for name, columns in (self._program.inputs if self._program else {}).items():
            found[name] = dict.fromkeys(column for column in columns if column != ROW)
        for output in self._outputs:
            found[output.input].update(dict.fromkeys(output.texts.values()))
        return {name: tuple(columns) for name, columns in found.items()}

    def sent(self, batches: Mapping[str, Batch]) -> Iterator[Sent]:
        """Take from a piece what goes to each shard."""
        if self._program is None:
            return
        rowed = {name: self._rowed(name, batch) for name, batch in batches.items() if name in self._program.inputs}
        changes = self._program.feed({name: batch for name, batch in rowed.items() if batch is not None})
        for output in self._outputs:
            found = changes[output.edge.name]
            if len(found.time):
                yield from sent(output, with_texts(output, found, batches[output.input]), self._shards)

    def close(self) -> None:
        if self._program:
            self._program.close()

    def _rowed(self, name: str, batch: Batch) -> Batch | None:
        """Leave out what the program does not read, and add a row's place where it is asked for."""
        assert self._program
        columns: dict[str, Column] = {}
        for column in self._program.inputs[name]:
            columns[column] = np.arange(len(batch.time)) if column == ROW else batch.columns[column]
        if not len(batch.time):
            return None
        return trusted(batch.time, batch.diff, columns, nullable=self._program.bindings[name].nullable)


def with_texts(output: Output, changes: Batch, batch: Batch) -> Batch:
    """Put in the texts of the rows that changes are of."""
    if not output.texts:
        return changes
    rows = pa.array(changes.columns[ROW])
    columns = dict(changes.columns) | {name: batch.columns[of].take(rows) for name, of in output.texts.items()}
    return Batch(changes.time, changes.diff, columns)


def sent(output: Output, changes: Batch, shards: int) -> Iterator[Sent]:
    """Address changes that are not empty."""
    edge = output.edge
    match edge.to:
        case "owner":
            for shard, part in deal(edge, changes, shards):
                yield shard, edge.name, pack(edge.fields, part)
        case "all":
            content = pack(edge.fields, changes)
            for shard in range(shards):
                yield shard, edge.name, content
        case _:
            yield 0, edge.name, pack(edge.fields, changes)
