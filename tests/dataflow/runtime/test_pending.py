"""A pending plan leaves nothing behind when it is retired, and its answer is not lost."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from contextlib import closing

import pytest
from support.engines.driving import stream_of
from support.engines.inside import worker_of
from support.engines.late import fed
from support.engines.resident import (
    HISTORY,
    OWN,
    RESIDENT,
    SCHEMAS,
    SHARING,
    STREAMS,
    UPDATE,
    check_update,
    kept,
    opened,
)
from support.reference.answers import changes

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.kernels.core import memory
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.runtime.live_plans import LivePlans
from deltamark.dataflow.types import integer
from deltamark.errors import DeltamarkError


@pytest.fixture(autouse=True)
def small_slices(monkeypatch):
    """Make slices so small that a backfill is stopped within an input and within a join."""
    for name in ("backfill.SLICE_ROWS", "backfill.BATCH_ROWS", "inputs.SLICE_ROWS"):
        monkeypatch.setattr(f"deltamark.dataflow.runtime.{name}", 2)


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


PENDING = {
    "at an input": lambda together: together.attach("late", OWN, history=HISTORY, fuel=2),
    "at an arrangement": lambda together: together.attach("late", SHARING, fuel=2),
}


@pytest.mark.parametrize("feeds", [0, 1, 3])
@pytest.mark.parametrize("pending", PENDING)
@pytest.mark.usefixtures("no_collector")
def test_a_pending_plan_that_is_retired_leaves_nothing(pending, feeds):
    with closing(opened()) as together:
        before = kept(together)
        PENDING[pending](together)
        for _ in range(feeds):
            fed(together, SCHEMAS, {})
        assert together.pending == "late"
        together.retire("late")
        assert kept(together) == before
        check_update(together, {"resident": RESIDENT})


@pytest.mark.usefixtures("no_collector")
def test_the_collector_frees_no_memory_of_an_open_dataflow(monkeypatch):
    """It runs while reservations are counted, as it may at any allocation."""
    counted = memory._resident
    monkeypatch.setattr(memory, "_resident", lambda mappings: (gc.collect(), counted(mappings))[1])
    with closing(opened()) as together:
        for pending in PENDING.values():
            pending(together)
            fed(together, SCHEMAS, {})
            together.retire("late")
            assert together.state_bytes() > 0
            assert "resident" in together.explain()


def attach_whole(together, history, fuel):
    together.attach("late", OWN, history=history, fuel=fuel)
    while together.pending:
        fed(together, SCHEMAS, {})


def test_a_history_that_fails_leaves_nothing():
    """The error is alive, and with it the frames of the backfill."""

    def broken():
        yield from HISTORY["others"]
        raise ZeroDivisionError

    with closing(opened()) as together:
        before = kept(together)
        for fuel in (None, 2):
            with pytest.raises(ZeroDivisionError) as error:
                attach_whole(together, {**HISTORY, "others": broken()}, fuel)
            assert error.tb
            assert kept(together) == before
        check_update(together, {"resident": RESIDENT})


@pytest.mark.parametrize("closed", [True, False])
def test_a_dataflow_with_a_pending_plan_frees_all_memory(closed):
    """The second one is never closed, and is part of a cycle of references."""
    together = opened()
    PENDING["at an arrangement"](together)
    fed(together, SCHEMAS, {})
    own = worker_of(together).compiled.program.memory
    if closed:
        together.close()
        assert not own.reservations()
    memories, cycle = weakref.ref(own), [together]
    cycle.append(cycle)
    del together, own, cycle
    gc.collect()
    assert memories() is None


def test_a_wrong_batch_does_not_lose_the_answer_of_a_plan_that_it_completes():
    """The plan stays pending until a feed has returned its answer."""
    wrong = {"items": [((1, 77, 1), 1, 1)]}
    with closing(opened()) as together:
        together.attach("late", SHARING, fuel=1000)
        for _ in range(2):
            with pytest.raises(DeltamarkError, match=r"a value outside its bounds: items\.value"):
                fed(together, SCHEMAS, wrong)
            assert together.pending == "late"
            with pytest.raises(DeltamarkError, match="another plan is being attached: late"):
                together.hold()
        found = stream_of(SHARING, fed(together, SCHEMAS, UPDATE)["late"])
        streams = {name: [*stream, *UPDATE.get(name, [])] for name, stream in STREAMS.items()}
        assert (together.pending, found) == (None, changes(SHARING.node, streams))


sold = source("sold", {"shop": integer(0, 9), "day": integer(0, 9)}, rows=1000)
same = sold.join(sold.rename(shop2="shop", day2="day"), on={"shop": "shop2", "day": "day2"})


def test_a_pending_plan_keeps_its_operators_though_another_plan_is_retired(monkeypatch):
    """The first plan has the arrangements of the pending one, which needs no exchange of its own for them.

    Such an exchange went with the plan that was retired, and the pending plan still ran it, over freed memory.
    """
    monkeypatch.setattr("deltamark.dataflow.operators.exchange.MIN_DIVIDED_ROWS", 1)
    other = sold.count(by="shop")
    with closing(LivePlans({"first": same, "other": other}, workers=2)) as together:
        feeds = [batch(time, time % 3, time % 7) for time in range(8)]
        together.feed({"sold": feeds[0]})
        history = {"sold": [feeds[0]]}
        together.attach("late", same.distinct(), history=history, since=None, fuel=2)
        added = {op.block for new in together._pending.backfill.new for op in new.added.ops}
        together.feed({"sold": feeds[1]})
        together.retire("other")
        left = {op.block for each in together.workers for op in each.compiled.program.ops}
        assert added <= left
        answers = [together.feed({"sold": each}).get("late") for each in feeds[2:]]
    late = Counter()
    for each in filter(None, answers):
        for diff, *row in zip(each.diff, *each.columns.values(), strict=True):
            late[tuple(map(int, row))] += int(diff)
    assert {row for row, count in late.items() if count} == {(time % 3, time % 7) for time in range(8)}


def batch(time, shop, day):
    return Batch([time], [1], {"shop": [shop], "day": [day]})
