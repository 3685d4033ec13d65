"""Examples of loops."""

from __future__ import annotations

from support.random_plans.choices import Choices
from support.random_plans.loops import random_loop
from support.random_plans.steps import Grown
from support.random_plans.streams import cut, inputs_of, streams_for, times_of
from support.written_plans.loops import LOOPS, edges, nodes

from deltamark.dataflow.language.expr import count
from fuzz.engines import SLICE_ROWS, OnWorkers, on_workers
from fuzz.plans import Texts


def loop(choices: Choices) -> OnWorkers:
    """Draw a loop that settles, and streams for its inputs."""
    collection, texts = random_loop(choices) if choices.chance(50) else LOOPS[choices.pick(sorted(LOOPS))], Texts()
    if choices.chance(25):
        collection = collection.aggregate(choices.picks(collection.schema.names), many=count())
    if choices.chance(25):
        found = texts.query(choices, [Grown(each, signed=False) for each in (edges, nodes, collection)])
        collection = collection if found is None else found.rows
    streams = streams_for(choices, inputs_of(collection), 2)
    feeds, slice_rows = cut(choices, times_of(streams)), choices.pick(SLICE_ROWS)
    return on_workers(
        choices, (collection, texts.of(collection), streams, feeds, slice_rows), choices.pick((1, 1, 1, 2, 3))
    )
