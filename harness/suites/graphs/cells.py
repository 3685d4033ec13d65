"""Measurements of motifs in static and in changing graphs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial

from deltamark.dataflow.language.motif import Variant
from deltamark.harness.measure.stats import percentile
from deltamark.harness.measure.timing import Stopwatch, timed
from deltamark.harness.results.record import Figures, TableRow
from deltamark.harness.suites.graphs.counting import (
    BY_BIGJOIN,
    BY_HAND,
    agree,
    by_bigjoin,
    by_hand,
    churn,
    left,
    maintained,
)
from deltamark.harness.suites.graphs.graph_data import WORKLOADS, Edges
from deltamark.harness.suites.graphs.motif_runs import bigjoin_of
from deltamark.queries.graph.motifs import MOTIFS

WORKERS = (1, 2)
TRIANGLE, CLIQUE = "triangle", "4-clique"

ROUND_SIZES = (1000, 10_000, 100_000, 1_000_000)
"""Proposals per round of BiGJoin."""

VERTICES = (1, 1000)
"""Vertices per batch."""

MAX_REPEAT_S = 10.0
"""The time after which no further run begins. Not tuned."""


def _repeats(runs: int) -> Iterator[None]:
    """Iterate once per run; slow cells get fewer runs."""
    watch = Stopwatch()
    for _ in watch.repeats(runs, MAX_REPEAT_S):
        with watch:
            yield


def static(edges: Edges, name: str, runs: int) -> Iterator[TableRow]:
    """Count a motif by BiGJoin, on each number of workers, and by hand, alternately."""
    hand = by_hand(name, edges)
    figures: Figures = {"found": [], "batches": [1], "by_hand": [], **{f"seconds_w{each}": [] for each in WORKERS}}
    with ExitStack() as motifs:
        ours = {each: motifs.enter_context(closing(bigjoin_of(MOTIFS[name], edges, each))) for each in WORKERS}
        took = [timed(partial(each.load, {"e": edges.batch()}))[0] for each in ours.values()]
        for _ in _repeats(runs):
            again, expected = timed(hand)
            figures["found"].append(expected)
            figures["by_hand"].append(again)
            for workers, motif in ours.items():
                seconds, matches = timed(motif.count)
                agree(name, edges, matches, (BY_HAND, expected))
                figures[f"seconds_w{workers}"].append(seconds)
        alone = ours[WORKERS[0]]
        figures |= {
            "indexed": took, "proposals": [alone.statistics.proposals], "state_bytes": [alone.index_bytes()],
            "state_rows": [alone.index_rows()],
        }  # fmt: skip
    yield TableRow(name, figures)


def rounds(edges: Edges) -> Iterator[TableRow]:
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
            yield TableRow(str(size), figures)


def at_once(edges: Edges, name: str, runs: int) -> Iterator[TableRow]:
    """Count a motif by delta queries over all edges in one batch."""
    hand, count = by_hand(name, edges), MOTIFS[name].dataflow({"e": edges.relation()}).count()
    figures: Figures = {"found": [], "batches": [1], "by_hand": [], **{f"seconds_w{each}": [] for each in WORKERS}}
    for _ in _repeats(runs):
        again, expected = timed(hand)
        figures["found"].append(expected)
        figures["by_hand"].append(again)
        for workers in WORKERS:
            matches, measured = maintained(count, WORKLOADS["load"](edges, 1), workers)
            agree(name, edges, matches, (BY_HAND, expected))
            figures[f"seconds_w{workers}"].append(measured.seconds)
    yield TableRow(name, figures)


def changing(edges: Edges, batch: int, runs: int) -> Iterator[TableRow]:
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
    yield TableRow(str(batch), figures)


def hub(edges: Edges, variant: Variant) -> Iterator[TableRow]:
    """Insert each vertex of a graph on its own, and count triangles by a variant."""
    count = MOTIFS[TRIANGLE].dataflow({"e": edges.relation()}, variant).count()
    matches, measured = maintained(count, WORKLOADS["nodes"](edges, 1))
    agree(TRIANGLE, edges, matches, (BY_HAND, by_hand(TRIANGLE, edges)()))
    proposals = measured.proposals or 0
    figures: Figures = {
        "seconds": [measured.seconds], "proposals": [proposals], "changes": [measured.updates],
    }  # fmt: skip
    yield TableRow(variant, figures)


def vertices(edges: Edges, name: str) -> Iterator[TableRow]:
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
    yield TableRow(name, figures)
