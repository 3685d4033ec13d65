"""Backfill: bring the operators of a newly compiled plan to the present, one bounded piece of work at a time.

A backfill first loads history as of a held time (see `history`), then replays each batch that was fed since. It runs
the new operators only. The arrangements that they share with other plans show them the rows as of that time first, and
then the logged updates (see `read_holds`).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from deltamark.dataflow.batch import Batch, concatenated
from deltamark.dataflow.builder.program import wait_alone
from deltamark.dataflow.codegen.compiled import SharedArrangement
from deltamark.dataflow.codegen.compiler import Added
from deltamark.dataflow.kernels.core.memory import Scratch
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.operators.linear import subtracts
from deltamark.dataflow.runtime.history import HistoryLoad
from deltamark.dataflow.runtime.read_holds import FedBatches, HeldTime, ReadHolds
from deltamark.dataflow.runtime.worker import Worker

UNLIMITED_FUEL = 1 << 20
"""Pieces of work that no call of `work` is expected to reach."""


class Backfill:
    """The backfill of one plan.

    time: the logical time as of which history is loaded; inputs: iterators that bind the plan's inputs to one slice of
    history after another; shared: arrangements of other plans that it reads; scratch: its memory, until `close`.
    """

    def __init__(  # noqa: PLR0913
        self, name: str, collection: Collection, added: Added, *, worker: Worker, holds: ReadHolds, time: int,
        inputs: Sequence[Generator[None]], shared: Sequence[SharedArrangement], scratch: Scratch,
    ) -> None:  # fmt: skip
        self.name, self.ops, self.shared = name, added.ops, shared
        self._answers: list[Batch] = []
        self._worker, self._holds, self._added, self._time = worker, holds, added, time
        self._inputs, self._scratch = inputs, scratch
        self._history = HistoryLoad(worker.compiled.program, added.ops, scratch, subtracts=subtracts(collection.node))
        self._steps = self._all()

    @property
    def answer(self) -> Batch:
        """The answer as of the backfill's first time, and its changes since."""
        return concatenated(self._answers)

    def work(self, fuel: int = UNLIMITED_FUEL) -> bool:
        """Do at most `fuel` pieces of work; return whether the backfill is complete.

        Replaying a fed batch costs half the fuel, so that a backfill replays two for each new one and catches up.
        """
        left = fuel
        while left > 0:
            before, done = self._time, object()
            if next(self._steps, done) is done:
                return True
            left -= 1 if self._time == before else fuel // 2
        return False

    def close(self) -> None:
        """End the work wherever it is, and release the scratch."""
        for each in (self._steps, *self._inputs):
            each.close()
        self._scratch.close()

    def _all(self) -> Generator[None]:
        if self._time >= 0:
            yield from self._history.steps(self._inputs, self._time)
        self._answers.append(self._worker.pending_snapshot(self.name, self._time))
        while fed := next((each for each in self._holds.fed if each.last > self._time), None):
            self._replay(fed)
            yield

    def _replay(self, fed: FedBatches) -> None:
        """Run the new operators over the batches of one feed."""
        logs = [self._holds.log_of(each, self._time) for each in self._added.existing]
        bindings = {name: self._worker.bindings[name] for name in self._added.read if name in fed.pointers}
        blocks = [*(each.input for each in logs), *(each.block for each in bindings.values())]
        program = self._worker.compiled.program
        schedule = program.schedule(blocks, self.ops)
        with ExitStack() as stack:
            stack.callback(program.memory.release, schedule.block)
            for log in logs:
                stack.enter_context(log.replay(self._time, fed.last))
            for name, binding in bindings.items():
                stack.enter_context(binding.replay(fed.pointers[name], self._added.read[name], self._time))
            program.run(schedule, -1, wait_alone)
        self._answers.append(self._worker.pending_changes(self.name))
        self._time = fed.last


@dataclass
class PendingPlan:
    """A plan that is attached over several feeds: its backfill, the time that it holds, and its fuel for each feed."""

    backfill: Backfill
    held: HeldTime
    fuel: int
    is_complete: bool = False
    """Whether the plan runs with the others, so that the next feed returns the answer of the backfill."""
