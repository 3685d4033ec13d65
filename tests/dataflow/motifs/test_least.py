"""Law of proposals: a delta query proposes hardly more values than the smallest of the sets that could propose."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.motifs.static import proposals
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.datagen.graphs.generator import graph
from deltamark.harness.suites.graphs.graph_data import WORKLOADS, Edges, EdgeStream
from deltamark.queries.graph.motifs import MOTIFS


def drawn(name: str) -> Edges:
    """Draw a graph without repeated edges."""
    pairs = np.unique(np.column_stack(graph(name).edges(0)), axis=0)
    pairs = np.random.default_rng(1).permutation(pairs[pairs[:, 0] != pairs[:, 1]])
    return Edges(name, pairs[:, 0].copy(), pairs[:, 1].copy())


def degrees(batch: Batch, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the changes of the out-degree and the in-degree of each vertex."""
    return tuple(np.bincount(batch.columns[end], batch.diff, nodes).astype(np.int64) for end in ("src", "dst"))


def least(batches: list[Batch], nodes: int) -> int:
    """Return the sum of the sizes of the smaller of the two sets, over changes and rules of triangles.

    Changes of e(a,b) extend by the edges that leave b and a afterwards; of e(b,c) by those that reach b before and c
    afterwards; of e(a,c) by those that leave a and reach c before.
    """
    leave, reach = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    total = 0
    for batch in batches:
        src, dst = batch.columns["src"], batch.columns["dst"]
        more_leave, more_reach = degrees(batch, nodes)
        old_leave, old_reach, leave, reach = leave, reach, leave + more_leave, reach + more_reach
        total += int(np.minimum(leave[dst], leave[src]).sum())
        total += int(np.minimum(old_reach[src], reach[dst]).sum())
        total += int(np.minimum(old_leave[src], old_reach[dst]).sum())
    return total


def proposed(edges: Edges, batches: list[Batch]) -> int:
    triangles = MOTIFS["triangle"].dataflow({"e": edges.relation()}).count()
    with closing(Dataflow(triangles)) as worker:
        for batch in batches:
            worker.push({"e": batch})
        return proposals(worker)


def batches_of(stream: EdgeStream) -> list[Batch]:
    loaded = stream.loaded()
    return [*([loaded] if len(loaded.time) else []), *stream.batches()]


CASES = [
    *(("hub:1000", workload, size) for workload in ("nodes", "half") for size in (1, 10, 1000)),
    *((name, "half", size) for name in ("rmat-hubs:7", "zipf:8") for size in (1, 10, 100, 1000)),
]


@pytest.mark.parametrize(("name", "workload", "size"), CASES)
def test_at_most_two_proposals_a_change_are_more_than_the_least_possible(name, workload, size):
    edges = drawn(name)
    batches = batches_of(WORKLOADS[workload](edges, size))
    changes = sum(len(batch.time) for batch in batches)
    assert proposed(edges, batches) <= least(batches, graph(name).nodes) + 2 * changes
