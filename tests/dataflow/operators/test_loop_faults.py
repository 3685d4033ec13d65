"""Loops that do not settle, and unsupported bodies, are errors."""

from __future__ import annotations

from contextlib import closing

import pytest
from support.engines.driving import arrays
from support.written_plans.loops import LOOPS, NODES, ROWS, begun, nodes, reach, roots, step

from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.operators.loop import MAX_ITERATIONS
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.spark.planning.stage_planner import plan_stages
from deltamark.dataflow.types import TEXT, integer
from deltamark.errors import DeltamarkError


def test_a_loop_that_does_not_end_is_an_error():
    counting = roots.select(n=col.node).iterate(lambda found: found.select(n=col.n + 1).distinct())
    message = f"a loop has not converged after {MAX_ITERATIONS} iterations: time 7"
    with closing(Dataflow(counting)) as worker, pytest.raises(DeltamarkError, match=message):
        worker.feed({"roots": arrays(roots.schema, [((0,), 7, 1)])})


CIRCLES = {
    "there and back": (lambda row: row.select("key", at=1 - col.at), 1),
    "round three": (
        lambda row: row.where(col.at < 2).select("key", at=col.at + 1).concat(
            row.where(col.at == 2).select("key", at=col.at - 2)
        ),
        2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CIRCLES)
@pytest.mark.parametrize("others", [0, 5])
def test_a_loop_that_goes_round_in_a_circle_is_an_error(name, others):
    body, most = CIRCLES[name]
    rows = source("rows", {"key": integer(0, 9), "at": integer(0, most)}, 100)
    circle = rows.iterate(lambda found: body(found).distinct())
    with closing(Dataflow(circle)) as worker:
        settled = {"rows": arrays(rows.schema, [])}
        worker.feed(settled)
        updates = [((key, 0), 3, 1) for key in range(others + 1)]
        message = f"a loop does not converge: the same rows again after {most + 1} iterations, time 3"
        with pytest.raises(DeltamarkError, match=message):
            worker.feed({"rows": arrays(rows.schema, updates)})


def test_a_negative_row_of_a_loop_is_named():
    message = "a negative multiplicity: node=3, dist=0 at time 2"
    with closing(Dataflow(LOOPS["distances"])) as worker, pytest.raises(DeltamarkError, match=message):
        worker.feed({"roots": arrays(roots.schema, [((3,), 2, -1)])})


texts = source("texts", {"node": NODES, "name": TEXT}, ROWS)
wide = source("wide", {"a": integer(0, 2**40), "b": integer(0, 2**40)}, ROWS)
widest = source("widest", {"a": integer(0, 9), "b": integer(0, 2**62)}, ROWS)
REFUSED = {
    "the body of a loop does not end in a reduction: join": lambda: reach().iterate(lambda it: it.join(nodes, "node")),
    "the body of a loop does not end in a reduction: extreme": lambda: begun.iterate(
        lambda it: it.smallest("dist", by="node")
    ),
    "a loop whose body does not use its rows": lambda: roots.iterate(lambda _: nodes.distinct()),
    "both sides of a join change in a loop": lambda: roots.iterate(lambda it: it.join(it, on="node").distinct()),
    "cannot be done inside a loop: threshold": lambda: roots.iterate(lambda it: nodes.semijoin(it, "node").distinct()),
    "cannot be done inside a loop: aggregate": lambda: roots.iterate(
        lambda it: it.count(by="node").select("node").distinct()
    ),
    "a loop inside a loop": lambda: roots.iterate(
        lambda it: nodes.iterate(lambda other: other.concat(it).distinct()).concat(it).distinct()
    ),
    "a loop that begins with the rows of another": lambda: roots.iterate(lambda it: it.iterate(Collection.distinct)),
    "other columns after an iteration": lambda: begun.iterate(lambda it: it.select("node").distinct()),
    "a column of another type": lambda: texts.iterate(lambda it: it.select("node", name=col.node).distinct()),
    "a column that a loop cannot keep: name": lambda: texts.iterate(lambda it: it.concat(texts).distinct()),
    "a key of a loop does not fit in 62 bits: a, b": lambda: wide.iterate(lambda it: it.concat(wide).distinct()),
    "a key of a loop does not fit in 62 bits: x, y": lambda: roots.iterate(
        lambda it: (
            it.select("node", x=col.node, y=col.node * 2**60)
            .join(wide, on={"x": "a", "y": "b"})
            .select("node")
            .concat(roots)
            .distinct()
        )
    ),
    "a value of a loop does not fit in 62 bits: b": lambda: widest.iterate(
        lambda it: it.concat(widest).smallest("b", by="a").distinct()
    ),
    "values may outgrow 64 bits in a loop: dist": lambda: begun.iterate(
        lambda it: it.select("node", dist=col.dist * 3 + 1).distinct()
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_an_unsupported_body_is_an_error_when_it_is_written(message):
    with pytest.raises(DeltamarkError, match=message):
        REFUSED[message]()


def test_an_unsupported_loop_is_an_error_when_it_is_compiled():
    leaked: list[Collection] = []
    roots.iterate(lambda it: leaked.append(it) or step(it).concat(roots).distinct())
    with pytest.raises(DeltamarkError, match="rows of a loop outside of it"):
        Dataflow(leaked[-1])
    with pytest.raises(DeltamarkError, match="a loop cannot run on Spark"):
        plan_stages(reach(), 2)
