"""Backfill: bring the operators of a newly compiled plan to the present, one bounded piece of work at a time.

A backfill first loads history, the rows that were live at a held time. Then it replays each batch that was fed since:
the arrangements that the new operators share with other plans show them the logged updates (see `read_holds`). It runs
the new operators only.

The new operators have two kinds of sources of history: inputs, whose live rows are read from an arrangement or given by
the user, and joins, whose pairs are read from the complete arrangements of both sides. One source after another emits
its rows, slice by slice, to the operators behind it; joins themselves do not run. All rows have one logical time.

If nothing is subtracted, and no operator needs complete times, the time may end after every slice: operators that emit
at the end of a time then emit a few rows at a time. Otherwise each of them becomes a source too, which emits its rows
after all sources before it. A loop is always such a source: it collects the rows that enter it, and runs once they are
complete.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from deltamark.dataflow.batch import Batch, Column, concatenated, merged
from deltamark.dataflow.builder.program import SLICE_ROWS, Op, Schedule
from deltamark.dataflow.codegen.compiled import SharedArrangement
from deltamark.dataflow.codegen.compiler import Added
from deltamark.dataflow.kernels.arrangements import join_cursor as kernel
from deltamark.dataflow.kernels.arrangements.join import JOIN, JoinBlock
from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.memory import Scratch, view
from deltamark.dataflow.kernels.hashing.hash_map import id_limit
from deltamark.dataflow.kernels.loops.iterate import ITERATE, IterateBlock
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.operators.arrangement import Arrangement
from deltamark.dataflow.operators.node import Node, walk
from deltamark.dataflow.passes.share import ArrangementKey
from deltamark.dataflow.plan import terms
from deltamark.dataflow.runtime.read_holds import FedBatches, HeldTime, ReadHolds, WorkerHolds
from deltamark.dataflow.runtime.threads import WorkerThreads
from deltamark.dataflow.runtime.worker import Worker

UNLIMITED_FUEL = 1 << 20
"""Pieces of work that no call of `work` is expected to reach."""


@dataclass(frozen=True)
class NewOperators:
    """The newly compiled operators of one worker.

    arrangements: those of other plans that they read; scratch: the memory that is needed meanwhile.
    """

    worker: Worker
    holds: WorkerHolds
    added: Added
    arrangements: Sequence[SharedArrangement]
    scratch: Scratch

    def replay(self, fed: FedBatches, after: int) -> None:
        """Run the operators over the batches of one feed, from the first row after a time."""
        logs = [self.holds.log_of(each, after) for each in self.added.existing]
        bindings = {name: self.worker.bindings[name] for name in self.added.read if name in fed.pointers}
        blocks = [*(each.input for each in logs), *(each.block for each in bindings.values())]
        program = self.worker.program
        schedule = program.schedule(blocks, self.added.ops)
        with ExitStack() as stack:
            stack.callback(program.memory.release, schedule.block)
            for log in logs:
                stack.enter_context(log.replay(after, fed.last))
            for name, binding in bindings.items():
                stack.enter_context(binding.replay(fed.pointers[name], self.added.read[name], after))
            self.worker.execute(schedule)


class Backfill:
    """The backfill of one plan, at all workers.

    time: the logical time as of which history is loaded; inputs: iterators that bind the plan's inputs to one slice of
    history after another.
    """

    def __init__(  # noqa: PLR0913
        self, name: str, collection: Collection, new: Sequence[NewOperators], *, threads: WorkerThreads,
        holds: ReadHolds, time: int, inputs: Sequence[Generator[None]],
    ) -> None:  # fmt: skip
        self.name, self.new = name, new
        self._answers: list[Batch] = []
        self._threads, self._holds, self._time, self._inputs = threads, holds, time, inputs
        self._history = HistoryLoad(threads, new, ends_once=_ends_once(collection.node))
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
        for new in self.new:
            new.scratch.close()

    def _all(self) -> Generator[None]:
        if self._time >= 0:
            yield from self._history.steps(self._inputs, self._time)
        self._answers.append(merged([each.worker.pending_snapshot(self.name, self._time) for each in self.new]))
        while fed := next((each for each in self._holds.fed if each.last > self._time), None):
            self._replay(fed)
            yield

    def _replay(self, fed: FedBatches) -> None:
        """Run the new operators over the batches of one feed."""
        of = {each.worker: each for each in self.new}
        self._threads.run(lambda worker: of[worker].replay(fed, self._time))
        self._answers.append(merged([each.worker.pending_changes(self.name) for each in self.new]))
        self._time = fed.last


@dataclass
class PendingPlan:
    """A plan that is attached over several feeds: its backfill, the time that it holds, and its fuel for each feed."""

    backfill: Backfill
    held: HeldTime
    fuel: int
    is_complete: bool = False
    """Whether the plan runs with the others, so that the next feed returns the answer of the backfill."""


BATCH_ROWS = 1 << 14
"""The most rows of an arrangement that are read as one batch. Not measured."""


class HistoryLoad:
    """Loads history into the new operators of all workers, which take each step together."""

    def __init__(self, threads: WorkerThreads, new: Sequence[NewOperators], *, ends_once: bool) -> None:
        self._threads, self._ends_once = threads, ends_once
        self._loads = {each.worker: _WorkerLoad(each, ends_once=ends_once) for each in new}

    def steps(self, inputs: Iterable[Iterator[None]], time: int) -> Iterator[None]:
        """Run the operators slice by slice. inputs: iterators that bind an input to one slice after another."""
        frontier, loads = time if self._ends_once else time + 1, list(self._loads.values())
        for each in loads:
            each.empty_joins()
        for _ in chain.from_iterable(inputs):
            self._run(lambda load: load.everything, frontier)
            yield
        self._run(lambda load: load.everything, frontier)  # an aggregate over no rows has a row
        for place, source in enumerate(loads[0].sources):
            if source.step is JOIN:
                pairs = [each.pairs(place, time) for each in loads]
                while any([next(each, False) for each in pairs]):  # noqa: C419 (each worker makes a piece of its pairs)
                    self._run(lambda load: load.everything, frontier)
                    yield
            elif source.step is ITERATE:
                for each in loads:
                    each.begin_loop(place)
                self._run(lambda load: load.loop(place), time + 1)  # noqa: B023 (called at once)
                for each in loads:
                    each.end_loop(place)
                self._run(lambda load: load.everything, frontier)
                for each in loads:
                    each.empty_loop(place)
                yield
            else:
                self._run(lambda load: load.everything, time)  # leaves no rows between operators
                self._run(lambda load: load.alone(place), time + 1)  # noqa: B023
                self._run(lambda load: load.others(place), time)  # noqa: B023
                yield
        self._run(lambda load: load.everything, time + 1)

    def _run(self, schedule: Callable[[_WorkerLoad], Schedule], frontier: int) -> None:
        """Run a schedule of each worker, which has the same operators for all."""
        self._threads.run(lambda worker: self._loads[worker].run(schedule(self._loads[worker]), frontier))


class _WorkerLoad:
    """The history of one worker."""

    def __init__(self, new: NewOperators, *, ends_once: bool) -> None:
        ops = new.added.ops
        self._worker, self._program, self._scratch = new.worker, new.worker.program, new.scratch
        self._loops = {each: _loop(ops, at) for at, each in enumerate(ops) if each.step is ITERATE}
        looping = {each for loop in self._loops.values() for each in loop}
        self.sources = [each for each in ops if each.step in (JOIN, ITERATE) or (ends_once and each.step.ends_times)]
        """The operators that emit history one after another."""
        self._others = [each for each in ops if each.step is not JOIN and each not in looping]
        self._joins = 0

    @cached_property
    def everything(self) -> Schedule:
        """The schedule of all operators but joins and loops."""
        return self._schedule(self._others)

    def alone(self, place: int) -> Schedule:
        """Return the schedule of one source, which ends the time."""
        return self._schedule([self.sources[place]])

    def others(self, place: int) -> Schedule:
        """Return the schedule of the operators that read what a source emits."""
        return self._schedule([each for each in self._others if each is not self.sources[place]])

    def loop(self, place: int) -> Schedule:
        return self._schedule(self._loops[self.sources[place]])

    def _schedule(self, ops: Sequence[Op]) -> Schedule:
        schedule = self._program.schedule([], ops)
        self._scratch.own(schedule.block)
        return schedule

    def run(self, schedule: Schedule, frontier: int) -> None:
        self._program.write(self._program.frontier, frontier)
        self._worker.execute(schedule, 0)

    def empty_joins(self) -> None:
        for each in self.sources:
            if each.step is JOIN:
                _empty(each)

    def begin_loop(self, place: int) -> None:
        """Let a loop run over the rows that have entered it, with arrangements that have no new updates."""
        iterate = IterateBlock(self.sources[place].block)
        self._joins, iterate.join_count = iterate.join_count, 0

    def end_loop(self, place: int) -> None:
        IterateBlock(self.sources[place].block).join_count = self._joins

    def empty_loop(self, place: int) -> None:
        IterateBlock(self.sources[place].block).reduce.answer_size = 0

    def pairs(self, place: int, time: int) -> Iterator[bool]:
        """Let a join emit the pairs of the rows that both sides store; yield True for each piece of them."""
        op = self.sources[place]
        join = JoinBlock(op.block)
        sides = sorted((join.left, join.right), key=lambda side: id_limit(side.rows.keys))
        cursor = kernel.cursor_over(self._scratch.reserve, time, *map(kernel.read_by, sides))
        done = False
        while not done:
            done = kernel.pairs(join, cursor, SLICE_ROWS)
            if join.overflow:
                raise self._program.states[op.block].problem()
            yield True
        _empty(op)


def _ends_once(root: Node) -> bool:
    """Return whether the time of the history may end only once all of its rows have come."""
    return any(each.negates or each.needs_complete_times for each in walk(root))


def _empty(join: Op) -> None:
    JoinBlock(join.block).size = 0


def _loop(ops: Sequence[Op], at: int) -> list[Op]:
    """Return the operators of the loop whose first operator is at an index."""
    return list(ops[at : at + 1 + IterateBlock(ops[at].block).length])


def arranged(shared: Iterable[SharedArrangement], of: Node, names: Sequence[str]) -> SharedArrangement | None:
    """Return an arrangement of a node's rows that stores these columns, or None."""
    return next(
        (
            each
            for each in shared
            if each.key.node is of and set(names) <= _columns(each.arrangement) | _single(each.key)
        ),
        None,
    )


def _columns(arrangement: Arrangement) -> set[str]:
    """Return the names of the columns that are stored unchanged."""
    return {term.name for term in arrangement.stored if isinstance(term, terms.Column)}


def _single(key: ArrangementKey) -> set[str]:
    """Return the name of a key's only column, whose values are the key itself."""
    return set(key.names) if len(key.names) == 1 and not key.types[0].nullable else set()


def rows_of(scratch: Scratch, shared: SharedArrangement, names: Sequence[str], time: int) -> Iterator[Batch]:
    """Yield columns of an arrangement's rows as of a time, consolidated, in batches that may be empty.

    scratch: has the memory that is needed meanwhile.
    """
    arrangement, single = shared.arrangement, _single(shared.key)
    partition = arrangement.key.of.partition
    stored = {term.name: term for term in arrangement.stored if isinstance(term, terms.Column)}
    place, is_last = scratch.reserve(3 * BATCH_ROWS), False
    cursor = kernel.cursor_over(scratch.reserve, time, {"rows": arrangement.block})
    slots, keys, weights = np.split(view(place, 3 * BATCH_ROWS), 3)
    places = [Array(place + 8 * at * BATCH_ROWS) for at in range(3)]
    while not is_last:
        is_last = kernel.rows(cursor, BATCH_ROWS, *places)
        found, rows = cursor.size, dict[str, Column]()
        for name in names:
            if name in single:
                rows[name] = keys[:found].copy() if partition is None else partition.keys(keys[:found])
            else:
                rows[name] = arrangement.values(stored[name], slots[:found])
        yield Batch(np.full(found, time), weights[:found].copy(), rows)
