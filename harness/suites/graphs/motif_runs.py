"""Runs of a motif over a stream of edges: their costs, and DuckDB's count to compare with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.motifs.static import StaticMotif
from deltamark.dataflow.motifs.statistics import proposals
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.errors import DeltamarkError
from deltamark.harness.measure.timing import timed
from deltamark.harness.suites.graphs.graph_data import WORKLOADS, Edges, EdgeStream
from deltamark.queries.graph.pattern import Pattern
from deltamark.queries.graph.triangles import by_triangles

ENDS = ("src", "dst")


@dataclass
class MotifCosts:
    """The costs of a run so far."""

    took: list[float] = field(default_factory=list)
    """Seconds of each batch."""
    updates: int = 0
    changes: int = 0
    proposals: int | None = None
    state_bytes: int | None = None
    rows: int = 0
    """Rows in all indexes of the engine."""

    @property
    def seconds(self) -> float:
        return sum(self.took)


def run(collection: Collection, stream: EdgeStream, workers: int, measured: MotifCosts) -> Iterator[tuple[Batch, int]]:
    """Yield the changes of the answer after each batch, and the number of edge changes fed so far."""
    with closing(Dataflow(collection, workers=workers)) as engine:
        fed = int(stream.starts[0])
        if fed:
            yield engine.feed({"e": stream.loaded()}), fed
        proposed = proposals(engine) if workers == 1 else 0
        for batch in stream.batches():
            seconds, changes = timed(lambda: engine.feed({"e": batch}))  # noqa: B023 (called at once)
            measured.took.append(seconds)
            fed += len(batch.time)
            measured.updates += len(batch.time)
            yield changes, fed
        if workers == 1:
            measured.proposals = proposals(engine) - proposed
            measured.state_bytes, measured.rows = engine.state_bytes(), engine.state_rows()


def relations_of(edges: Edges, name: str = "e") -> dict[str, Collection]:
    """Return the relations of motifs: `e`, the edges, and `once`, the distinct edges. name: that of the input."""
    relation = edges.relation(name)
    return {"e": relation, "once": relation.distinct()}


def triangular(pattern: Pattern, edges: Edges) -> Pattern:
    """Rewrite a motif in terms of triangles."""
    return by_triangles(pattern, "e", "e" if edges.are_once() else "once")


def bigjoin_of(pattern: Pattern, edges: Edges, workers: int = 1) -> StaticMotif:
    """Return the BiGJoin of a motif over a static graph, before its indexes are loaded."""
    return StaticMotif(pattern.over(relations_of(edges)), pattern.smaller, workers=workers)


def indexed(pattern: Pattern, edges: Edges, workers: int = 1) -> StaticMotif:
    """Return the BiGJoin of a motif over a static graph, with its indexes loaded."""
    whole = WORKLOADS["load"](edges, 1).batch(0, len(edges), 0)
    relations = relations_of(edges)
    batches_of: dict[str, Callable[[], Iterable[Batch]]] = {"e": lambda: [whole]}

    def index(each: Pattern) -> StaticMotif:
        static = StaticMotif(each.over(relations), each.smaller, workers=workers)
        static.load_parts({name: batch} for name in static.inputs for batch in batches_of[name]())
        return static

    with ExitStack() as definitions:
        for name, each in pattern.definitions:
            schema = each.dataflow(relations).schema
            static = definitions.enter_context(closing(index(each)))
            relations[name] = source(name, {field.name: field.type for field in schema.fields}, static.count())
            batches_of[name] = partial(_rows, static)
        return index(pattern)


def _rows(static: StaticMotif) -> Iterator[Batch]:
    """Yield the matches as rows of a relation."""
    for rows in static.rows():
        columns = {name: rows[:, place] for place, name in enumerate(static.variables)}
        yield Batch(np.zeros(len(rows), np.int64), rows[:, -1], columns)


def counted(changes: Batch) -> int:
    """Return the change of a count."""
    return int((changes.diff * changes.columns["count"]).sum())


def oracle(pattern: Pattern, stream: EdgeStream, fed: int) -> int:
    """Count a motif with DuckDB after the first `fed` changes of edges."""
    live = stream.live(fed)
    if live.size and live.min() < 0:
        raise DeltamarkError("a negative multiplicity", stream.edges.name, "retract only what was inserted before")
    rows = np.repeat(np.arange(len(live)), live)
    with duckdb.connect() as connection:
        connection.register("stored", pa.table({"src": stream.edges.src[rows], "dst": stream.edges.dst[rows]}))
        connection.execute("CREATE TABLE e AS SELECT * FROM stored")
        connection.execute("CREATE VIEW once AS SELECT DISTINCT * FROM e")
        row = connection.execute(pattern.sql({"e": ENDS, "once": ENDS}, "count(*)")).fetchone()
    return int(row[0]) if row else 0
