"""Loops, all of which settle."""

from __future__ import annotations

from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.types import integer

NODES = integer(0, 5)
ROWS = 100_000
edges = source("edges", {"src": NODES, "dst": NODES, "cost": integer(0, 2)}, ROWS)
roots = source("roots", {"node": NODES}, ROWS)
nodes = source("nodes", {"node": NODES}, ROWS)

gaps = source("gaps", {"src": NODES.or_null(), "dst": NODES.or_null()}, ROWS)

FAR_APART = 10**9
begun = roots.select("node", dist=0)
begun_far = roots.select(node=col.node * FAR_APART)
far_edges = edges.select(src=col.src * FAR_APART, dst=col.dst * FAR_APART)
cheap_edges = edges.where(col.cost < 2)
pairs = edges.select(origin=col.src, node=col.dst)


def step(found: Collection, graph: Collection = edges) -> Collection:
    return found.join(graph, on={"node": "src"}).select(node=col.dst)


def reach(begin: Collection = roots, graph: Collection = edges) -> Collection:
    return begin.iterate(lambda found: step(found, graph).concat(begin).distinct())


def distances(cost: object = 1) -> Collection:
    def body(found: Collection) -> Collection:
        further = found.join(edges, on={"node": "src"}).select(node=col.dst, dist=col.dist + cost)
        return further.concat(begun).smallest("dist", by="node").distinct()

    return begun.iterate(body)


def labelled(which: str) -> Collection:
    begin = nodes.select("node", label=col.node)

    def body(found: Collection) -> Collection:
        there = found.join(edges, on={"node": "src"}).select(node=col.dst, label=col.label)
        back = found.join(edges, on={"node": "dst"}).select(node=col.src, label=col.label)
        return getattr(there.concat(back, begin), which)("label", by="node").distinct()

    return begin.iterate(body)


def reach_of_missing() -> Collection:
    """Return the nodes in reach of any, of which NULL is one."""
    begin = gaps.select(node=col.src)

    def body(found: Collection) -> Collection:
        return found.join(gaps, on={"node": "src"}, null_keys=True).select(node=col.dst).concat(begin).distinct()

    return begin.iterate(body)


def within_reach(found: Collection) -> Collection:
    """Return a body that contains a loop, which does not depend on the rows of the body."""
    return step(found.join(reach(nodes).rename(other="node"), on={"node": "other"})).concat(roots).distinct()


LOOPS = {
    "reach": reach(),
    "reach-of-missing": reach_of_missing(),
    "reach-of-rows-so-far": roots.iterate(lambda found: found.concat(step(found)).distinct()),
    "reach-by-two-steps": roots.iterate(lambda found: step(step(found)).concat(roots).distinct()),
    "reach-from-the-right": roots.iterate(
        lambda found: edges.join(found, on={"src": "node"}).select(node=col.dst).concat(roots).distinct()
    ),
    "reach-of-hashed-keys": reach(begun_far, far_edges),
    "reach-over-edges-of-weight-two": reach(graph=edges.select("src", "dst").threshold(2)),
    "reach-around-others": roots.iterate(lambda found: step(found).antijoin(nodes, on="node").concat(roots).distinct()),
    "reach-of-cheap-edges": roots.iterate(
        lambda found: (
            found.join(edges, on={"node": "src"}).where(col.cost < 2).select(node=col.dst).concat(roots).distinct()
        )
    ),
    # from roots of weight two it would alternate for ever: the nodes that they reach at first have less weight later
    "reach-by-two-ways": roots.distinct().iterate(lambda found: step(found).concat(roots, roots).threshold(2)),
    "reach-by-a-way-that-opens-later": roots.iterate(
        lambda found: step(found, cheap_edges).concat(step(found.where(col.node > 0)), roots).distinct()
    ),
    "closure": pairs.iterate(
        lambda found: found.join(edges, on={"node": "src"}).select("origin", node=col.dst).concat(pairs).distinct()
    ),
    "distances": distances(),
    "distances-by-cost": distances(col.cost),
    "nodes-at-each-distance": distances().count(by="dist"),
    "distances-up-to-two": begun.iterate(
        lambda found: (
            found.where(col.dist < 2)
            .join(edges, on={"node": "src"})
            .select(node=col.dst, dist=col.dist + 1)
            .concat(begun)
            .smallest("dist", by="node")
            .distinct()
        )
    ),
    "components": labelled("smallest"),
    "components-by-the-largest": labelled("largest"),
    "reach-of-reached-nodes": reach(reach().where(col.node > 1)),
    "a-loop-in-the-body-of-another": roots.iterate(within_reach),
    "least-of-all": nodes.iterate(lambda found: found.concat(roots).smallest("node").distinct()),
}
