"""Checks of plans that are attached as of a past time, or incrementally between feeds."""

from __future__ import annotations

from contextlib import closing
from unittest.mock import patch

from hypothesis import strategies as st
from support.engines.driving import added, between, stream_of
from support.engines.late import fed, live, numbers_of_workers
from support.random_plans.case import Case
from support.random_plans.strategies import cuts
from support.random_plans.streams import inputs_of
from support.reference.answers import answer, changes

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.operators.input import Input
from deltamark.dataflow.operators.iterate import free
from deltamark.dataflow.operators.node import walk
from deltamark.dataflow.runtime.dataflow import Dataflow

SMALL_SLICES = (
    patch.multiple("deltamark.dataflow.runtime.backfill", SLICE_ROWS=2, BATCH_ROWS=2),
    patch("deltamark.dataflow.runtime.inputs.SLICE_ROWS", 2),
)


class Feeds:
    """A dataflow of residents, and the changes of the plan of a case after it is attached to them as `late`."""

    def __init__(self, case: Case, residents: dict[str, Collection], workers: int = 1) -> None:
        self.case, self.said = case, {}
        self.schemas = inputs_of(case.collection)
        for each in residents.values():
            self.schemas |= inputs_of(each)
        self.together = Dataflow(residents, workers=workers)

    def feed(self, times) -> None:
        for name, batch in fed(self.together, self.schemas, between(self.case.streams, set(times))).items():
            if name == "late":
                self.hear(batch)

    def hear(self, batch) -> None:
        self.said = added([self.said, stream_of(self.case.collection, batch)])

    def until(self, time):
        return {name: [each for each in stream if each[1] <= time] for name, stream in self.case.streams.items()}

    def history(self, time):
        return {name: [live(self.schemas[name], stream)] for name, stream in self.until(time).items()}

    def expected(self, time):
        """Return the answer of the plan as of a time, and its changes since."""
        node = self.case.collection.node
        found = {change: diff for change, diff in changes(node, self.case.streams).items() if change[0] > time}
        then = answer(node, self.until(time), time).items()
        return found | {(time, row): diff for row, diff in then}


def residents_of(data: st.DataObject, whole: Collection) -> dict[str, Collection]:
    """Draw parts of a plan that are maintained before it is attached, and add all its inputs."""
    parts = [Collection(node) for node in walk(whole.node) if not free(node)]
    chosen = data.draw(st.lists(st.sampled_from(parts), max_size=3))
    inputs = [each for each in parts if isinstance(each.node, Input)]
    return {str(place): each for place, each in enumerate([*inputs, *chosen])}


def check_since(case: Case, data: st.DataObject) -> None:
    """Hold a time, feed more, attach the plan as of that time or a later one, and feed the rest."""
    feeds = data.draw(cuts(case.streams))
    first, second = sorted(data.draw(st.tuples(*[st.integers(1, len(feeds))] * 2)))
    run = Feeds(case, residents_of(data, case.collection), data.draw(numbers_of_workers))
    with closing(run.together) as together:
        for times in feeds[:first]:
            run.feed(times)
        hold = together.hold()
        for times in feeds[first:second]:
            run.feed(times)
        between_them = [time for times in feeds[first:second] for time in times]
        hold.advance(data.draw(st.sampled_from([hold.time, *between_them])))
        history = run.history(hold.time)
        run.hear(together.attach("late", case.collection, history=history, since=hold))
        hold.release()
        for times in [*feeds[second:], []]:
            run.feed(times)
        assert run.said == run.expected(hold.time)


def check_incremental(case: Case, data: st.DataObject) -> None:
    """Attach a plan incrementally, between feeds."""
    feeds = data.draw(cuts(case.streams))
    first = data.draw(st.integers(1, len(feeds)))
    run = Feeds(case, residents_of(data, case.collection), data.draw(numbers_of_workers))
    with closing(run.together) as together, SMALL_SLICES[0], SMALL_SLICES[1]:
        for times in feeds[:first]:
            run.feed(times)
        run.feed([])  # releases the texts of deleted rows
        begun = max((time for times in feeds[:first] for time in times), default=0)
        rows = together.state_rows()
        together.attach("late", case.collection, history=run.history(begun), fuel=2)
        for times in [*feeds[first:], []]:
            run.feed(times)
        while together.pending:
            run.feed([])
        assert run.said == run.expected(begun)
        together.retire("late")
        run.feed([])
        if first == len(feeds):
            assert together.state_rows() == rows
