"""Counts of motifs in static and in changing graphs, and their measurements.

Motifs are counted by hand-written loops in one thread, by BiGJoin and by delta queries. All counts are compared with
one another, or with DuckDB's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa
from numba import njit

from deltamark.dataflow import kernels  # sets the cache of compiled code
from deltamark.dataflow.batch import Batch
from deltamark.dataflow.interpreter.compilation import load_kernels
from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.language.motif import Variant
from deltamark.dataflow.motifs.static import StaticMotif, proposals
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.errors import DeltamarkError, unknown
from deltamark.harness.check.answers import WrongAnswerError
from deltamark.harness.measure.client import CellReply
from deltamark.harness.measure.stats import percentile
from deltamark.harness.results.record import Figures
from deltamark.harness.suites.graphs.graph_data import WORKLOADS, Edges, EdgeStream
from deltamark.harness.system.clock import Stopwatch, timed
from deltamark.harness.tables.graphs import MAX_CHANGES, VERTICES, WORKERS
from deltamark.queries.graph.motifs import MOTIFS
from deltamark.queries.graph.pattern import Pattern
from deltamark.queries.graph.triangles import by_triangles

__all__ = ["adjacency", "four_cliques", "kernels", "triangles"]

compiled = njit(cache=True, error_model="numpy")


def adjacency(src: np.ndarray, dst: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first position of the targets of each vertex, and the sorted targets."""
    order = np.lexsort([dst, src])
    starts = np.zeros(int(max(src.max(), dst.max())) + 2, np.int64)
    np.cumsum(np.bincount(src, minlength=len(starts) - 1), out=starts[1:])
    return starts, dst[order].astype(np.int32)


@compiled
def triangles(starts: np.ndarray, targets: np.ndarray) -> int:
    """Count a->b->c with a->c: stamp the targets of a, then look up every target of a target."""
    nodes = len(starts) - 1
    stamps, matches = np.full(nodes, -1, np.int32), 0
    for a in range(nodes):
        for at in range(starts[a], starts[a + 1]):
            stamps[targets[at]] = a
        for at in range(starts[a], starts[a + 1]):
            b = targets[at]
            for place in range(starts[b], starts[b + 1]):
                matches += stamps[targets[place]] == a
    return matches


@compiled
def four_cliques(starts: np.ndarray, targets: np.ndarray) -> int:
    """Count 4-cliques a->b->c->d: stamp the common targets of a and b, then look up every target of each of them."""
    nodes = len(starts) - 1
    first, second = np.full(nodes, -1, np.int32), np.full(nodes, -1, np.int64)
    common, matches = np.empty(nodes, np.int32), 0
    for a in range(nodes):
        for at in range(starts[a], starts[a + 1]):
            first[targets[at]] = a
        for at in range(starts[a], starts[a + 1]):
            b, size = targets[at], 0
            for place in range(starts[b], starts[b + 1]):
                c = targets[place]
                if first[c] == a:
                    second[c], common[size], size = at, c, size + 1
            for each in range(size):
                c = common[each]
                for place in range(starts[c], starts[c + 1]):
                    matches += second[targets[place]] == at
    return matches


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


LOOPS = {"triangle": triangles, "4-clique": four_cliques}
"""The hand-written loops, by the name of their motif."""

BY_HAND, BY_BIGJOIN = "by hand", "by BiGJoin"

MAX_BATCHES = 2000
"""The most batches of a changing workload."""


def by_hand(name: str, edges: Edges) -> Callable[[], int]:
    """Return the hand-written counter of a motif, with its adjacency built and its loop compiled."""
    if name not in LOOPS:
        raise unknown("motif by hand", name, LOOPS)
    loop, arrays = LOOPS[name], adjacency(edges.src, edges.dst)
    loop(*adjacency(edges.src[:1], edges.dst[:1]))
    return lambda: loop(*arrays)


def by_bigjoin(name: str, edges: Edges) -> int:
    with closing(bigjoin_of(MOTIFS[name], edges)) as motif:
        motif.load({"e": edges.batch()})
        return motif.count()


def maintained(collection: Collection, stream: EdgeStream, workers: int = 1) -> tuple[int, MotifCosts]:
    """Maintain a count over a stream of edges; return the final count and its costs."""
    measured = MotifCosts()
    total = sum(counted(changes) for changes, _ in run(collection, stream, workers, measured))
    return total, measured


def agree(name: str, edges: Edges, matches: int, expected: tuple[str, int]) -> None:
    """Compare a count with that of another algorithm."""
    other, right = expected
    if matches != right:
        actual = f"{matches:,} in {edges.name}, {other} {right:,}"
        raise WrongAnswerError(f"wrong number of motifs {name}", actual, "compare with DuckDB: see motif --help")


def churn(edges: Edges, batch: int) -> EdgeStream:
    """Return a stream that loads most edges, then inserts and deletes equally many, `batch` changes at a time."""
    stream = WORKLOADS["half"](edges, batch)
    changes = min(MAX_CHANGES, MAX_BATCHES * batch, len(stream.rows) - int(stream.starts[0]))
    if not changes:
        raise DeltamarkError("too few edges to change any", len(edges), "take a larger graph")
    return stream.shortened(changes)


def left(stream: EdgeStream) -> Edges:
    """Return the edges that remain at the end of a stream."""
    kept = np.repeat(np.arange(len(stream.edges)), stream.live(len(stream.rows)))
    return Edges(stream.edges.name, stream.edges.src[kept], stream.edges.dst[kept])


def warm() -> None:
    """Compile or load the kernels, so that the children of this process inherit them."""
    load_kernels()
    edges = Edges("three edges", np.array([0, 0, 1]), np.array([1, 2, 2]))
    for name in LOOPS:
        by_hand(name, edges)()
        by_bigjoin(name, edges)
    maintained(MOTIFS["triangle"].dataflow({"e": edges.relation()}).count(), WORKLOADS["insert"](edges, 1))


TRIANGLE, CLIQUE = "triangle", "4-clique"

ROUND_SIZES = (1000, 10_000, 100_000, 1_000_000)
"""Proposals per round of BiGJoin."""


MAX_REPEAT_S = 10.0
"""The time after which no further run begins. Not tuned."""


def _beside_hand(edges: Edges, name: str, runs: int, ours: Callable[[int], tuple[float, int]]) -> Figures:
    """Count a motif by hand and by another algorithm alternately; slow cells get fewer runs.

    ours: takes the number of workers; returns seconds and the count.
    """
    hand, watch = by_hand(name, edges), Stopwatch()
    figures: Figures = {"found": [], "batches": [1], "by_hand": [], **{f"seconds_w{each}": [] for each in WORKERS}}
    for _ in watch.repeats(runs, MAX_REPEAT_S):
        with watch:
            by_hand_seconds, expected = timed(hand)
            figures["found"].append(expected)
            figures["by_hand"].append(by_hand_seconds)
            for workers in WORKERS:
                seconds, matches = ours(workers)
                agree(name, edges, matches, (BY_HAND, expected))
                figures[f"seconds_w{workers}"].append(seconds)
    return figures


def static(edges: Edges, name: str, runs: int) -> Iterator[CellReply]:
    """Count a motif by BiGJoin, on each number of workers, and by hand."""
    with ExitStack() as motifs:
        ours = {each: motifs.enter_context(closing(bigjoin_of(MOTIFS[name], edges, each))) for each in WORKERS}
        took = [timed(partial(each.load, {"e": edges.batch()}))[0] for each in ours.values()]
        figures = _beside_hand(edges, name, runs, lambda workers: timed(ours[workers].count))
        alone = ours[WORKERS[0]]
        figures |= {
            "indexed": took, "proposals": [alone.statistics.proposals], "state_bytes": [alone.index_bytes()],
            "state_rows": [alone.index_rows()],
        }  # fmt: skip
    yield CellReply(figures=figures, verified=BY_HAND)


def rounds(edges: Edges) -> Iterator[CellReply]:
    """Count 4-cliques in rounds of several sizes."""
    expected = by_hand(CLIQUE, edges)()
    with closing(bigjoin_of(MOTIFS[CLIQUE], edges)) as motif:
        motif.load({"e": edges.batch()})
        for size in ROUND_SIZES:
            seconds, matches = timed(lambda: motif.count(size))  # noqa: B023 (called within the iteration)
            agree(CLIQUE, edges, matches, (BY_HAND, expected))
            shown = motif.statistics
            figures: Figures = {
                "found": [matches], "seconds": [seconds], "rounds": [shown.rounds], "most": [max(shown.most)],
                "held_bytes": [motif.held_bytes()],
            }  # fmt: skip
            yield CellReply(row=str(size), figures=figures, verified=BY_HAND)


def at_once(edges: Edges, name: str, runs: int) -> Iterator[CellReply]:
    """Count a motif by delta queries over all edges in one batch, on each number of workers, and by hand."""
    count = MOTIFS[name].dataflow({"e": edges.relation()}).count()

    def ours(workers: int) -> tuple[float, int]:
        matches, measured = maintained(count, WORKLOADS["load"](edges, 1), workers)
        return measured.seconds, matches

    yield CellReply(figures=_beside_hand(edges, name, runs, ours), verified=BY_HAND)


def changing(edges: Edges, batch: int, runs: int) -> Iterator[CellReply]:
    """Maintain the number of triangles while edges are inserted and deleted; count the remaining ones by hand."""
    stream = churn(edges, batch)
    last = left(stream)
    hand = by_hand(TRIANGLE, last)
    theirs, answers = zip(*(timed(hand) for _ in range(runs)), strict=True)
    count = MOTIFS[TRIANGLE].dataflow({"e": edges.relation()}).count()
    figures: Figures = {"batches": [len(stream.starts)], "edges": [len(last)], "by_hand": list(theirs)}
    for workers in WORKERS:
        matches, measured = maintained(count, stream, workers)
        agree(TRIANGLE, edges, matches, (BY_HAND, answers[0]))
        figures |= {
            "changes": [measured.updates],
            f"seconds_w{workers}": [measured.seconds],
            f"p99_w{workers}": [percentile(sorted(measured.took), 99)],
        }
        if measured.proposals is not None and measured.state_bytes is not None:
            figures |= {"proposals": [measured.proposals], "state_bytes": [measured.state_bytes]}
    yield CellReply(figures=figures, verified=BY_HAND)


def hub(edges: Edges, variant: Variant) -> Iterator[CellReply]:
    """Insert each vertex of a graph on its own, and count triangles by a variant."""
    count = MOTIFS[TRIANGLE].dataflow({"e": edges.relation()}, variant).count()
    matches, measured = maintained(count, WORKLOADS["nodes"](edges, 1))
    agree(TRIANGLE, edges, matches, (BY_HAND, by_hand(TRIANGLE, edges)()))
    proposals = measured.proposals or 0
    figures: Figures = {
        "seconds": [measured.seconds], "proposals": [proposals], "changes": [measured.updates],
    }  # fmt: skip
    yield CellReply(figures=figures, verified=BY_HAND)


def vertices(edges: Edges, name: str) -> Iterator[CellReply]:
    """Insert vertices with their outgoing edges, and maintain the count of a motif."""
    expected = by_bigjoin(name, edges)
    count = MOTIFS[name].dataflow({"e": edges.relation()}).count()
    figures: Figures = {"found": [expected]}
    for size in VERTICES:
        stream = WORKLOADS["nodes"](edges, size)
        matches, measured = maintained(count, stream)
        agree(name, edges, matches, (BY_BIGJOIN, expected))
        took = sorted(measured.took)
        figures |= {f"seconds_{size}": [measured.seconds], f"times_{size}": [len(took)]}
        figures |= {f"p50_{size}": [percentile(took, 50)], f"p99_{size}": [percentile(took, 99)]}
    yield CellReply(figures=figures, verified=BY_BIGJOIN)
