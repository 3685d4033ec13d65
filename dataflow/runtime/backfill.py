"""Bring a dataflow that was compiled into a running program to where the program is, one small piece of work at a time.

First its history, as of a time that has passed, then batch by batch what came since. Only its own operators run; the
arrangements that it shares show them what was then, and then what came: see past.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.codegen.compiled import SharedArrangement
from deltamark.dataflow.codegen.compiler import Added
from deltamark.dataflow.codegen.program import nobody
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.plan.traversal import subtracts
from deltamark.dataflow.runtime.attach import History
from deltamark.dataflow.runtime.read_holds import Fed, Past, is_logged
from deltamark.dataflow.runtime.worker import Shard

MANY = 1 << 20


class CatchUp:
    """A dataflow that comes: as of which time its history is read, what aims its inputs at that (see History), and the
    arrangements of others that it reads.
    """

    def __init__(  # noqa: PLR0913, PLR0917 (what comes to whom, and from where)
        self, shard: Shard, past: Past, name: str, collection: Collection, added: Added, time: int,
        inputs: Iterable[Iterator[None]], shared: Sequence[SharedArrangement],
    ) -> None:  # fmt: skip
        self.name, self.ops, self.shared, self.answers = name, added.ops, shared, list[Batch]()
        self._shard, self._past, self._added, self._time = shard, past, added, time
        # while an earlier time is held, what was retracted since is still there beside what it cancels
        subtracting = subtracts(collection.node) or any(map(is_logged, shared))
        self._history = History(shard.compiled.program, added.ops, subtracts=subtracting)
        self._steps = self._all(inputs)

    def work(self, pieces: int = MANY) -> bool:
        """Do so many pieces of the work, or see two feeds again; return whether that is all."""
        left = pieces
        while left > 0:
            before, done = self._time, object()
            if next(self._steps, done) is done:
                return True
            left -= 1 if self._time == before else pieces // 2
        return False

    def _all(self, inputs: Iterable[Iterator[None]]) -> Iterator[None]:
        if self._time >= 0:
            yield from self._history.steps(inputs, self._time)
        self.answers.append(self._shard.settled(self.name, self._time))
        while fed := next((each for each in self._past.fed if each.last > self._time), None):
            self._again(fed)
            yield

    def _again(self, fed: Fed) -> None:
        """Show what was fed then."""
        logs = [self._past.log(each, self._time) for each in self._added.existing]
        aims = {name: self._shard.inputs[name] for name in self._added.read if name in fed.pointers}
        blocks = [*(each.input for each in logs), *(each.block for each in aims.values())]
        program = self._shard.compiled.program
        loop = program.loop(blocks, self.ops)
        with ExitStack() as stack:
            for log in logs:
                stack.enter_context(log.again(self._time, fed.last))
            for name, aim in aims.items():
                stack.enter_context(aim.again(fed.pointers[name], self._added.read[name], self._time))
            program.run(loop, -1, nobody)
        program.memory.release(loop.block)
        self.answers.append(self._shard.collected(self.name))
        self._time = fed.last
