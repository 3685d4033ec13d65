"""A call that fails leaves a dataflow as it was, or makes it refuse later ones; released holds are refused, too."""

from __future__ import annotations

import random
from contextlib import closing

import pytest
from support.engines.late import fed
from support.engines.resident import HISTORY, OWN, RESIDENT, SCHEMAS, SHARING, UPDATE, check_update, kept, opened
from support.written_plans.operators import items, others

from deltamark.dataflow.builder.program import Program
from deltamark.dataflow.kernels.core.memory import Memory
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import integer
from deltamark.errors import DeltamarkError


class LackError(DeltamarkError):
    def __init__(self):
        super().__init__("no address space", "in a test", "do not inject this error")


def lacking(patch, place, *methods):
    """Let a call of some methods fail, counted from 1; return a list with the number of calls so far."""
    calls = [0]

    def wrap(of, name):
        whole = getattr(of, name)

        def call(*args, **given):
            calls[0] += 1
            if calls[0] == place:
                raise LackError
            return whole(*args, **given)

        patch.setattr(of, name, call)

    for of, name in methods:
        wrap(of, name)
    return calls


PLACES = 4
"""The calls of a test that lack memory, drawn from some 200, because each takes 10 milliseconds."""

BEGINNINGS = {
    "attach": lambda together: together.attach("late", OWN, history=HISTORY),
    "attach to arrangements": lambda together: together.attach("late", SHARING),
    "attach with fuel": lambda together: together.attach("late", SHARING, fuel=2),
    "hold": lambda together: together.hold(),
}


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_a_call_that_lacks_memory_leaves_a_dataflow_as_it_was(beginning):
    """Some reservations, and some allocations of blocks and cells, fail once each."""
    methods = (Memory, "_reserve"), (Program, "words")
    with closing(opened()) as whole, pytest.MonkeyPatch.context() as patch:
        calls = lacking(patch, 0, *methods)
        BEGINNINGS[beginning](whole)
    for place in (calls[0], *random.sample(range(1, calls[0]), min(PLACES, calls[0] - 1))):
        with closing(opened()) as together:
            before = kept(together)
            with pytest.MonkeyPatch.context() as patch:
                lacking(patch, place, *methods)
                with pytest.raises(LackError):
                    BEGINNINGS[beginning](together)
            assert kept(together) == before, place
            check_update(together, {"resident": RESIDENT})


def test_a_plan_that_is_refused_while_it_is_compiled_leaves_nothing():
    other = source("items", {"key": integer(0, 2), "value": integer(0, 1)}, 10)
    with closing(opened()) as together:
        before = kept(together)
        for _ in range(2):
            with pytest.raises(DeltamarkError, match="two inputs of one name: items"):
                together.attach("late", others.select("key", "day").join(other, on="key"), history=HISTORY)
            assert kept(together) == before
        check_update(together, {"resident": RESIDENT})


@pytest.mark.parametrize("workers", [1, 2])
def test_a_dataflow_that_cannot_be_opened_keeps_no_memory(workers, monkeypatch):
    """The error is alive, and with it the objects in its frames."""
    whole, made, methods = Memory.__init__, [], ((Memory, "_reserve"), (Program, "words"))
    monkeypatch.setattr(Memory, "__init__", lambda self, **given: (made.append(self), whole(self, **given))[1])
    with pytest.MonkeyPatch.context() as patch:
        calls = lacking(patch, 0, *methods)
        Dataflow(RESIDENT, workers=workers).close()
    for place in (calls[0], *random.sample(range(1, calls[0]), 2 * PLACES)):
        with pytest.MonkeyPatch.context() as patch:
            lacking(patch, place, *methods)
            with pytest.raises(LackError) as error:
                Dataflow(RESIDENT, workers=workers)
        assert error.tb
        assert not any(each.reservations() for each in made), place


def test_a_dataflow_whose_feed_has_failed_answers_nothing_more():
    """It neither holds nor attaches; what is left can be counted, released and closed."""
    with closing(opened()) as together:
        together.attach("other", SHARING)
        together.attach("distinct", items.distinct("value"), history=HISTORY)
        hold = together.hold()
        with pytest.raises(DeltamarkError, match="a negative multiplicity"):
            fed(together, SCHEMAS, {"items": [((1, -2, 0), 1, -1)]})
        refused = {
            "feed": lambda: together.feed({}),
            "feed_each": lambda: together.feed_each({}, [5]),
            "attach": lambda: together.attach("late", SHARING),
            "hold": together.hold,
            "advance": lambda: hold.advance(0),
        }
        for use in refused.values():
            with pytest.raises(DeltamarkError, match="an earlier call was stopped halfway: DeltamarkError: a negative"):
                use()
        hold.release()
        together.retire("other")
        assert together.state_rows() >= 0
        assert "distinct" in together.explain()


def test_a_dataflow_whose_release_has_failed_answers_nothing_more():
    """Only compaction finds a row that was retracted too often while a time was held."""
    with closing(opened()) as together:
        hold = together.hold()
        fed(together, SCHEMAS, {"items": [((1, -2, 0), 1, -1)]})
        with pytest.raises(DeltamarkError, match="a negative multiplicity"):
            hold.release()
        hold.release()
        for use in (lambda: together.feed({}), lambda: together.attach("late", SHARING), together.hold):
            with pytest.raises(DeltamarkError, match="an earlier call was stopped halfway: DeltamarkError: a negative"):
                use()


def test_a_hold_that_is_released_or_of_another_dataflow_is_refused():
    """The rows that were fed since its time are not kept, so an answer as of its time would lack them."""
    with closing(opened()) as together, closing(opened()) as stranger:
        released, foreign = together.hold(), stranger.hold()
        released.release()
        released.release()
        fed(together, SCHEMAS, UPDATE)
        for hold in (released, foreign):
            with pytest.raises(DeltamarkError, match="not a hold of this dataflow, or released: time 0; call hold"):
                together.attach("late", items.count(), history=HISTORY, since=hold)
        with pytest.raises(DeltamarkError, match="not a hold of this dataflow, or released: time 0"):
            released.advance(1)
        assert list(together.schemas) == ["resident"]


def test_a_time_that_was_not_fed_cannot_be_held():
    with closing(opened()) as together:
        hold = together.hold()
        with pytest.raises(DeltamarkError, match="a time that was not fed yet: 7 after 0; feed it first"):
            hold.advance(7)
        assert hold.time == 0
