"""Examples of loops."""

from __future__ import annotations

from support.random_plans.choices import Choices
from support.random_plans.loops import random_loop
from support.random_plans.streams import cut, inputs_of, streams_for, times_of
from support.written_plans.loops import LOOPS

from deltamark.dataflow.language.expr import count
from fuzz.engines import SLICE_ROWS, OnOneWorker


def loop(choices: Choices) -> OnOneWorker:
    """Draw a loop that settles, and streams for its inputs."""
    collection = random_loop(choices) if choices.chance(50) else LOOPS[choices.pick(sorted(LOOPS))]
    if choices.chance(25):
        collection = collection.aggregate(choices.picks(collection.schema.names), many=count())
    streams = streams_for(choices, inputs_of(collection), 2)
    feeds = cut(choices, times_of(streams))
    rows, order = choices.pick(SLICE_ROWS), choices.place(1000)
    goes, at_once, begins_debts = (choices.chance(percent) for percent in (30, 30, 20))
    return OnOneWorker(collection, streams, feeds, rows, order, goes, at_once, begins_debts)
