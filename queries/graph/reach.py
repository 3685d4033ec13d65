"""Distances and components: loops over the edges of a graph."""

from __future__ import annotations

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col, count


def distances(edges: Collection, roots: Collection) -> Collection:
    """Count the edges on a shortest path from any root to each reachable node."""
    begin = roots.select("node", dist=0)

    def further(reached: Collection) -> Collection:
        steps = reached.join(edges, on={"node": "src"}).select(node=col.dst, dist=col.dist + 1)
        return steps.concat(begin).smallest("dist", by="node").distinct()

    return begin.iterate(further)


def by_distance(edges: Collection, roots: Collection) -> Collection:
    """Count the nodes at each distance, and sum their numbers, so that an exchange of two nodes changes the answer."""
    return distances(edges, roots).aggregate(by="dist", nodes=count(), numbers=col.node.sum())


def components(edges: Collection, nodes: Collection) -> Collection:
    """Label each node with the least node of its component; the direction of edges does not matter."""
    begin = nodes.select("node", label=col.node)

    def spread(labels: Collection) -> Collection:
        forward = labels.join(edges, on={"node": "src"}).select(node=col.dst, label=col.label)
        backward = labels.join(edges, on={"node": "dst"}).select(node=col.src, label=col.label)
        return forward.concat(backward, begin).smallest("label", by="node").distinct()

    return begin.iterate(spread)
