"""A dataflow with one plan and rows, and plans that can be attached to it."""

from __future__ import annotations

from support.engines.driving import stream_of
from support.engines.inside import worker_of
from support.engines.late import fed, live
from support.random_plans.streams import inputs_of
from support.reference.answers import changes
from support.written_plans.operators import items, others

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.runtime.dataflow import Dataflow

RESIDENT = items.select("key", "value").join(others.select("key", "amount"), on="key")
SHARING = RESIDENT.count(by=("value", "amount"))
"""A plan that reads the arrangements of the resident one."""
OWN = items.where(col.word != "cat").join(others, on="key").count(by=("value", "day"))
"""A plan that reads the history of inputs, and columns that the resident plan does not read."""
SCHEMAS = inputs_of(OWN)
STREAMS = {
    "items": [((key, value, 0), 0, 1) for key in range(3) for value in range(3)],
    "others": [((key, amount, 8034), 0, 1) for key in range(3) for amount in range(3)],
}
UPDATE = {"items": [((1, 1, 1), 1, 1)]}
HISTORY = {name: [live(SCHEMAS[name], stream)] for name, stream in STREAMS.items()}


def opened() -> Dataflow:
    together = Dataflow({"resident": RESIDENT})
    fed(together, SCHEMAS, STREAMS)
    return together


def kept(together: Dataflow) -> tuple[object, ...]:
    """Return what a dataflow keeps, and the number of its reservations."""
    reservations = worker_of(together).compiled.program.memory.reservations()
    return together.state_rows(), together.explain(), list(together.schemas), len(reservations)


def check_update(together: Dataflow, plans: dict[str, Collection]) -> None:
    """Feed an update; check the changes of plans."""
    while together.pending:
        fed(together, SCHEMAS, {})
    said = fed(together, SCHEMAS, UPDATE)
    streams = {name: [*stream, *UPDATE.get(name, [])] for name, stream in STREAMS.items()}
    for name, plan in plans.items():
        wanted = changes(plan.node, streams)
        assert stream_of(plan, said[name]) == {change: diff for change, diff in wanted.items() if change[0] == 1}
