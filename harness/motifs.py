"""Run a motif over a stream of edges, count what it costs, and hold it against DuckDB."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field

import duckdb
import numpy as np
import pyarrow as pa

from dataflow.bigjoin import Static
from dataflow.collection import Collection
from dataflow.embedded import Embedded
from dataflow.motif import Atom
from dataflow.worker import Batch, Worker
from deltamark import DeltamarkError, unknown
from harness.graphs import Edges, Stream
from queries.graph.pattern import Pattern


@dataclass
class Measured:
    """What a run has shown so far."""

    took: list[float] = field(default_factory=list)
    """Seconds of each batch."""
    updates: int = 0
    changes: int = 0
    proposals: int | None = None
    state_bytes: int | None = None
    rows: int = 0
    """What the engine keeps, of all indexes."""
    checked: list[int] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return sum(self.took)


def engine_of(collection: Collection, workers: int) -> Worker | Embedded:
    return Worker(collection) if workers == 1 else Embedded(collection, workers)


def run(collection: Collection, stream: Stream, workers: int, measured: Measured) -> Iterator[tuple[Batch, int]]:
    """Yield the changes of the answer after each batch, and how many changes of edges have been fed until then."""
    with closing(engine_of(collection, workers)) as engine:
        fed = int(stream.starts[0])
        if fed:
            yield engine.feed({"e": stream.loaded()}), fed
        proposed = engine.proposals() if isinstance(engine, Worker) else 0
        for batch in stream.batches():
            started = time.perf_counter()
            changes = engine.feed({"e": batch})
            measured.took.append(time.perf_counter() - started)
            fed += len(batch.time)
            measured.updates += len(batch.time)
            yield changes, fed
        if isinstance(engine, Worker):
            measured.proposals = engine.proposals() - proposed
            measured.state_bytes, measured.rows = engine.state_bytes(), engine.state_rows()


def bigjoin_of(pattern: Pattern, edges: Edges) -> Static:
    """Return what finds a motif in a graph that does not change."""
    relation = edges.relation()
    for name, _ in pattern.atoms:
        if name != "e":
            raise unknown("relation", name, ["e"])
    return Static([Atom(relation, variables) for _, variables in pattern.atoms], pattern.smaller)


def counted(changes: Batch) -> int:
    """Return by how much a count has changed."""
    return int((changes.diff * changes.columns["count"]).sum())


def oracle(pattern: Pattern, stream: Stream, fed: int) -> int:
    """Count with DuckDB how often a motif is there after so many changes of edges."""
    live = stream.live(fed)
    if live.size and live.min() < 0:
        raise DeltamarkError("a negative multiplicity", stream.edges.name, "retract only what was inserted before")
    rows = np.repeat(np.arange(len(live)), live)
    with duckdb.connect() as connection:
        connection.register("stored", pa.table({"src": stream.edges.src[rows], "dst": stream.edges.dst[rows]}))
        connection.execute("CREATE TABLE e AS SELECT * FROM stored")
        found = connection.execute(pattern.sql({"e": ("src", "dst")}, "count(*)")).fetchone()
    return int(found[0]) if found else 0
