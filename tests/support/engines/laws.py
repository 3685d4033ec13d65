"""Laws that the tests of several engines check."""

from __future__ import annotations

from contextlib import closing

from hypothesis import strategies as st
from support.engines.driving import added, between, feed, maintained, shuffled, undone
from support.random_plans.case import Case
from support.random_plans.strategies import cuts
from support.reference.answers import changes

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.operators.node import Node, walk
from deltamark.dataflow.operators.null_row import NullRow
from deltamark.dataflow.runtime.dataflow import Dataflow


def has(collection: Collection, kind: type[Node]) -> bool:
    return any(isinstance(node, kind) for node in walk(collection.node))


def check_recomputation(case: Case, feeds: list[list[int]]) -> None:
    assert maintained(case.collection, case.streams, feeds) == changes(case.collection.node, case.streams)


def check_life(case: Case, data: st.DataObject, meaning: Collection | None = None) -> None:
    """Check the changes of rows that come in any order and any batches, and that no row is left when all are deleted.

    The reference depends neither on the batches nor on the order within a time, so no other run is compared. meaning: a
    plan with the same changes, whose reference is taken.
    """
    collection, streams = case.collection, undone(shuffled(case.streams, data.draw(st.integers(0, 99))))
    with closing(Dataflow(collection)) as worker:
        found = added(feed(worker, collection, between(streams, set(times))) for times in data.draw(cuts(streams)))
        feed(worker, collection, {})  # releases the texts of the last output
        left = worker.state_rows()
    assert found == changes((meaning or collection).node, streams)
    assert left == untouched(collection), "deleted rows have left state"


def untouched(collection: Collection) -> int:
    """Count the rows that an engine without input keeps: none, except the row of NULL of `or_null`."""
    if not has(collection, NullRow):
        return 0
    with closing(Dataflow(collection)) as worker:
        feed(worker, collection, {})
        return worker.state_rows()
