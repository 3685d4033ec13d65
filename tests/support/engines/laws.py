"""Laws that the tests of several engines check."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing

from support.engines.driving import added, at_once, between, feed, maintained, shuffled, undone
from support.random_plans.case import Case
from support.random_plans.streams import times_of
from support.reference.answers import answer, changes

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.plan.nodes import Node, NullRow, walk
from deltamark.dataflow.runtime.dataflow import Dataflow


def check_cuts(case: Case, feeds: list[list[int]]) -> None:
    assert maintained(case.collection, case.streams, feeds) == at_once(case.collection, case.streams)


def check_order(case: Case, seed: int) -> None:
    assert at_once(case.collection, shuffled(case.streams, seed)) == at_once(case.collection, case.streams)


def has(collection: Collection, kind: type[Node]) -> bool:
    return any(isinstance(node, kind) for node in walk(collection.node))


def check_recomputation(case: Case, feeds: list[list[int]]) -> None:
    assert maintained(case.collection, case.streams, feeds) == changes(case.collection.node, case.streams)


def check_nothing_is_left(case: Case, seed: int) -> None:
    """Check that an engine whose rows have all been deleted keeps as many rows as an engine without input."""
    collection, streams = case.collection, undone(case.streams)
    times = times_of(streams)
    first = set(times[: random.Random(seed).randint(min(1, len(times)), len(times))])
    with closing(Dataflow(collection)) as worker:
        parts = [feed(worker, collection, between(streams, each)) for each in (first, set(times) - first)]
        feed(worker, collection, {})  # releases the texts of the last output
        left = worker.state_rows()
    total_of = Counter()
    for (_, row), diff in added(parts).items():
        total_of[row] += diff
    assert {row: diff for row, diff in total_of.items() if diff} == answer(collection.node, {}, 0)
    assert left == untouched(collection)


def untouched(collection: Collection) -> int:
    """Count the rows that an engine without input keeps: none, except the row of NULL of `or_null`."""
    if not has(collection, NullRow):
        return 0
    with closing(Dataflow(collection)) as worker:
        feed(worker, collection, {})
        return worker.state_rows()
