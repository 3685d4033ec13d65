"""Laws of arrangements with debts: plans are attached to them as to any other, and they keep no rows that have left."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import numpy as np
import pytest
from support.engines.driving import added, arrays, stream_of

from deltamark.dataflow.kernels.arrangements import debts
from deltamark.dataflow.kernels.arrangements.arrangement import ArrangementBlock
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.language.expr import count
from deltamark.dataflow.operators.arrangement import Arrangement
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import NULL, integer

ROWS = 1200
"""The rows of long lists: searches pass enough of them for debts to begin."""

facts = source("facts", {"a": integer(0, 3), "b": integer(0, 3).or_null(), "c": integer(0, 10**6)}, ROWS)
names = source("names", {"x": integer(0, 3), "y": integer(0, 3).or_null(), "z": integer(0, 9)}, 10)

RESIDENTS = {
    "one key": facts.join(names, on={"a": "x"}),
    "several keys": facts.join(names, on={"a": "x", "b": "y"}, null_keys=True),
    "no key": facts.join(names, on={}),
}
CASES = {
    "distinct": ("one key", facts.distinct()),
    "join": ("several keys", RESIDENTS["several keys"].distinct("c", "z")),
    "all": ("no key", facts),
    "count": ("no key", facts.count(by="c")),
    "threshold": ("no key", facts.select("b", "c").threshold(1)),
    "top": ("no key", facts.top(3, ["c", "a", "b"])),
    "largest": ("no key", facts.largest("c", by="a")),
    "join of counts": ("no key", facts.aggregate(by="a", n=count()).join(names, on={}).count(by="n")),
    "difference": ("no key", facts.concat(facts.distinct().negate()).count(by="c")),
}
"""Plans, and the resident whose arrangement each of them reads."""

each_case = pytest.mark.parametrize(("resident", "plan"), CASES.values(), ids=CASES)

ORDER = [*map(int, np.random.default_rng(0).permutation(ROWS))]
NAMES = [(0, NULL, 5), (0, 1, 6), (1, 1, 6)]


def fact(number):
    """Return a row: most have the same key, and some have NULL in it."""
    return int(number % 7 == 0), NULL if number % 3 == 0 else 1, number


def rows_of(arrangement):
    return ArrangementBlock(arrangement.block)


class Facts:
    """A dataflow whose arrangement of the facts has debts, and the facts that are live."""

    def __init__(self, resident):
        self.together = Dataflow({"resident": RESIDENTS[resident]})
        self.live, self.time, self.said = set(), -1, []
        self.feed(ORDER, [], names=arrays(names.schema, [(row, 0, 1) for row in NAMES]))
        self.feed([], range(0, ROWS, 10))
        assert self.arrangement.has_debts == 1
        assert self.arrangement.all_debts > 0

    @property
    def arrangement(self):
        return max(self.together.states(Arrangement, rows_of), key=lambda rows: rows.top)

    def feed(self, coming, going, **others):
        """Insert and retract facts at the next time."""
        self.time += 1
        self.live = self.live.union(coming).difference(going)
        updates = [*((each, 1) for each in coming), *((each, -1) for each in going)]
        facts_now = arrays(facts.schema, [(fact(each), self.time, diff) for each, diff in updates])
        if "late" in (out := self.together.feed({"facts": facts_now, **others})):
            self.said.append(out["late"])

    def history(self):
        return {
            "facts": [arrays(facts.schema, [(fact(each), 0, 1) for each in self.live])],
            "names": [arrays(names.schema, [(row, 0, 1) for row in NAMES])],
        }

    def check(self, plan):
        """Compare the sum of all changes of the late plan with its answer over the live facts."""
        with closing(Dataflow(plan)) as alone:
            answer = alone.feed({name: each for name, (each,) in self.history().items() if name in alone.inputs})
        wanted = {row: diff for (_, row), diff in stream_of(plan, answer).items()}
        found = Counter()
        for (_, row), diff in added(stream_of(plan, each) for each in self.said).items():
            found[row] += diff
        assert {row: diff for row, diff in found.items() if diff} == wanted


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Let rows that cancel each other be read in different pieces."""
    monkeypatch.setattr("deltamark.dataflow.runtime.backfill.SLICE_ROWS", 32)
    monkeypatch.setattr("deltamark.dataflow.runtime.backfill.BATCH_ROWS", 32)
    monkeypatch.setattr("deltamark.dataflow.runtime.inputs.SLICE_ROWS", 32)


@each_case
@pytest.mark.parametrize("given", [False, True], ids=["arranged", "history"])
def test_a_plan_is_attached_to_an_arrangement_with_debts(resident, plan, given):
    run = Facts(resident)
    with closing(run.together) as together:
        run.said.append(together.attach("late", plan, history=run.history() if given else None))
        run.check(plan)
        run.feed([5 * ROWS], range(1, ROWS, 10))
        run.check(plan)


@each_case
def test_a_plan_is_attached_as_of_a_time_since_which_debts_were_made(resident, plan):
    run = Facts(resident)
    with closing(run.together) as together:
        together.hold()
        run.feed([5 * ROWS], range(1, ROWS, 10))
        later = together.hold()
        run.feed([6 * ROWS], range(2, ROWS, 10))
        run.said.append(together.attach("late", plan, since=later))
        run.check(plan)
        run.feed([7 * ROWS], range(3, ROWS, 10))
        run.check(plan)


@each_case
def test_a_plan_is_attached_over_several_feeds_that_make_debts(resident, plan):
    run = Facts(resident)
    with closing(run.together) as together:
        together.attach("late", plan, fuel=8)
        number = 1
        while together.pending:
            run.feed([], [number] if number % 10 else [])
            number += 1
        assert number > 2
        run.check(plan)
        run.feed([5 * ROWS], range(number + 10 - number % 10 + 1, ROWS, 10))
        run.check(plan)


def retract_all(run):
    run.feed([], sorted(run.live), names=arrays(names.schema, [(row, run.time + 1, -1) for row in NAMES]))


@pytest.mark.parametrize("resident", RESIDENTS)
def test_nothing_is_left_once_all_rows_are_retracted(resident):
    run = Facts(resident)
    with closing(run.together) as together:
        retract_all(run)
        assert together.state_rows() == 0


def test_debts_are_paid_though_the_last_slices_of_their_time_have_no_update_of_their_arrangement(monkeypatch):
    monkeypatch.setattr("deltamark.dataflow.builder.program.SLICE_ROWS", 64)
    run = Facts("one key")
    with closing(run.together) as together:
        for rows in together.states(Arrangement, rows_of):
            if not rows.has_debts:
                debts.begin(rows)
        retract_all(run)
        assert together.state_rows() == 0
