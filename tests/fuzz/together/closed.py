"""Dataflows that are closed while another one runs, and the uses of their handles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from support.engines.closed import HOLD_USES, USES, is_refused
from support.engines.driving import arrays
from support.engines.inside import worker_of
from support.engines.late import live
from support.random_plans.streams import Streams, inputs_of

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.runtime.dataflow import Dataflow, Hold
from fuzz.example import WrongError

SELDOM = 1000
"""Collections of young objects between those of all objects, which are many."""


@dataclass(frozen=True)
class ClosedHandles:
    """A closed dataflow of one plan, and a hold of it."""

    dataflow: Dataflow[dict[str, Batch]]
    hold: Hold
    plan: Collection

    @classmethod
    def of(cls, plan: Collection, streams: Streams, fuel: int) -> ClosedHandles:
        """Open a dataflow, feed it, take a hold, begin to attach the plan once more if there is fuel, and close it."""
        schemas = inputs_of(plan)
        with Dataflow({"plan": plan}) as dataflow:
            read = {name: streams[name] for name in dataflow.inputs}
            dataflow.feed({name: arrays(schemas[name], stream) for name, stream in read.items() if stream})
            hold = dataflow.hold()
            if fuel:
                history = {name: [live(schemas[name], stream)] for name, stream in read.items()}
                dataflow.attach("late", plan, history=history, fuel=fuel)
                dataflow.feed({})
        return cls(dataflow, hold, plan)

    def use(self, name: str) -> None:
        """Use the dataflow, or the hold."""
        refused = (
            is_refused(lambda: HOLD_USES[name](self.hold))
            if name in HOLD_USES
            else is_refused(lambda: USES[name](self.dataflow, self.plan))
        )
        if not refused:
            raise WrongError("a closed dataflow is not refused", name)


def collect(together: Dataflow[dict[str, Batch]]) -> None:
    """Collect garbage: none of the memory of an open dataflow may be released by that."""
    memory = worker_of(together).compiled.program.memory
    before = set(memory.reservations())
    gc.collect()
    if released := before - set(memory.reservations()):
        raise WrongError("the collector releases memory", f"{len(released)} reservations of an open dataflow")


@contextmanager
def collecting(threshold: int) -> Iterator[None]:
    """Collect the garbage among young objects whenever some more were made; 0: as usual."""
    before = gc.get_threshold()
    if threshold:
        gc.set_threshold(threshold, 2, SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)
