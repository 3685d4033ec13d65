"""Random loops, all of which settle."""

from __future__ import annotations

from collections.abc import Callable

from support.random_plans.choices import Choices
from support.written_plans.loops import begun, edges, nodes, roots

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col

FURTHEST = 5


def random_loop(choices: Choices) -> Collection:
    """Draw a loop whose body follows edges in one or more ways, and keeps each node, or the least distance of each."""
    by_distance = choices.chance(50)
    begin = (
        begun if by_distance else choices.pick([roots, nodes, roots.concat(nodes), roots.antijoin(nodes, on="node")])
    )
    ways = [_way(choices, by_distance=by_distance) for _ in range(choices.pick([1, 2, 3]))]

    def body(found: Collection) -> Collection:
        there = [way(found) for way in ways]
        whole = there[0].concat(*there[1:], begin)
        return (whole.smallest("dist", by="node") if by_distance else whole).distinct()

    return begin.iterate(body)


def _way(choices: Choices, *, by_distance: bool) -> Callable[[Collection], Collection]:
    """Draw a step from nodes to nodes."""
    here, there = choices.pick([("src", "dst"), ("dst", "src")])
    graph = choices.pick([edges, edges.where(col.cost < 2), edges.distinct(), edges.threshold(2)])
    cost = choices.pick([0, 1, col.cost])
    most = choices.pick([FURTHEST, 1, 2])
    outside = choices.pick(["", "semijoin", "antijoin"])

    def way(found: Collection) -> Collection:
        near = found.where(col.dist < most) if by_distance else found.where(col.node < most)
        if outside:
            near = getattr(near, outside)(nodes, on="node")
        joined = near.join(graph, on={"node": here})
        return joined.select(node=col[there], dist=col.dist + cost) if by_distance else joined.select(node=col[there])

    return way
