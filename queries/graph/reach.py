"""What is reached from where, and how far it is: queries that go round until nothing changes."""

from __future__ import annotations

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col, count


def distances(edges: Collection, roots: Collection) -> Collection:
    """Count the edges of a shortest way from any root to each node that has one."""
    begin = roots.select("node", dist=0)

    def further(found: Collection) -> Collection:
        steps = found.join(edges, on={"node": "src"}).select(node=col.dst, dist=col.dist + 1)
        return steps.concat(begin).smallest("dist", by="node").distinct()

    return begin.iterate(further)


def by_distance(edges: Collection, roots: Collection) -> Collection:
    """Count the nodes at each distance; the sum of their numbers tells which they are."""
    return distances(edges, roots).aggregate(by="dist", nodes=count(), numbers=col.node.sum())


def components(edges: Collection, nodes: Collection) -> Collection:
    """Label each node with the least one that it hangs together with, whichever way the edges go."""
    begin = nodes.select("node", label=col.node)

    def spread(found: Collection) -> Collection:
        there = found.join(edges, on={"node": "src"}).select(node=col.dst, label=col.label)
        back = found.join(edges, on={"node": "dst"}).select(node=col.src, label=col.label)
        return there.concat(back, begin).smallest("label", by="node").distinct()

    return begin.iterate(spread)
