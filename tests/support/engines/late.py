"""Dataflows that are attached to a running one, and the check of their changes."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

from hypothesis import strategies as st
from support.engines.driving import arrays, between, stream_of
from support.random_plans.case import Case
from support.random_plans.streams import Streams, inputs_of, times_of
from support.reference.answers import answer, changes

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.errors import DeltamarkError

numbers_of_workers = st.sampled_from([1, 1, 2, 3])


def fed(together: Dataflow, schemas, streams: Streams) -> dict[str, Batch]:
    batches = {name: arrays(schemas[name], stream) for name, stream in streams.items() if stream}
    return together.feed({name: batch for name, batch in batches.items() if name in together.inputs})


def live(schema, stream) -> Batch:
    rows: Counter = Counter()
    for row, _, diff in stream:
        rows[row] += diff
    return arrays(schema, [(row, 0, diff) for row, diff in rows.items() if diff])


def attached(together: Dataflow, whole: Collection, history) -> Batch:
    """Attach a plan; pass the history only if the arrangements do not have it."""
    try:
        return together.attach("late", whole)
    except DeltamarkError:
        return together.attach("late", whole, history=history)


def cuts_of(streams: Streams) -> st.SearchStrategy[int]:
    """Draw the number of times before a plan is attached; time 0 always is one, because the first feed ends it."""
    times = times_of(streams)
    return st.integers(int(0 in times), len(times))


def check_late(case: Case, residents: dict[str, Collection], cut: int, *, stay: bool, workers: int = 1) -> None:
    """Run residents over the times before a cut, attach a plan, and go on with the residents or without them."""
    whole, streams = case.collection, case.streams
    times = times_of(streams)
    schemas = inputs_of(whole) | {name: each for item in residents.values() for name, each in inputs_of(item).items()}
    before, after = between(streams, set(times[:cut])), between(streams, set(times[cut:]))
    with closing(Dataflow(residents, workers=workers)) as together:
        fed(together, schemas, before)
        history = {name: [live(schemas[name], stream)] for name, stream in before.items()}
        found = stream_of(whole, attached(together, whole, history=history))
        for name in [] if stay else residents:
            together.retire(name)
        found = {**found, **stream_of(whole, fed(together, schemas, after)["late"])}
    seen = {name for each in residents.values() for name in inputs_of(each)}
    last = max((time for name in seen for _, time, _ in before.get(name, ())), default=0)
    expected = {change: diff for change, diff in changes(whole.node, streams).items() if change[0] > last}
    expected |= {(last, row): diff for row, diff in answer(whole.node, before, last).items()}
    assert found == expected
