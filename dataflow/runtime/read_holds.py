"""Read holds: while a logical time is held, plans can still be attached as of that time.

A hold delays compaction. Fed batches are kept, and each arrangement keeps an update log: its compacted rows are those
as of the oldest held time, and compacted rows and log together are those of now. When the oldest hold advances, updates
up to its new time are compacted and forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from deltamark.dataflow.batch import Pointers
from deltamark.dataflow.codegen.compiled import Compiled, SharedArrangement
from deltamark.dataflow.codegen.program import LOOSE, Program
from deltamark.dataflow.kernels import interpreter as vm
from deltamark.dataflow.kernels.arrangements import arrangement as kernel
from deltamark.dataflow.kernels.arrangements import update_log as log_kernel
from deltamark.dataflow.kernels.core import interner as intern
from deltamark.dataflow.kernels.core.memory import view
from deltamark.errors import DeltamarkError

OWN_WORDS = 32


class UpdateLog:
    """The updates of an arrangement that are not compacted yet, in the order of their arrival."""

    def __init__(self, program: Program, kept: SharedArrangement, since: int) -> None:
        self.since = since
        self._program, self._state = program, kept.arrangement
        with program.building(kept.part):
            times, diffs, keys = self._logs = [program.memory.reserve(LOOSE) for _ in range(3)]
            own = self._own = program.memory.reserve(OWN_WORDS)
        size, time, diff, key, bases, widths, cells, self.input = (own + 8 * at for at in (0, 1, 2, 3, 4, 6, 8, 10))
        self._cells = [size, time, diff, key]
        """The slice from which the arrangement reads while it compacts the log or replays it."""
        first = kept.arrangement.block + 8 * kernel.FIRST
        words = [0, times, diffs, keys, keys, 0, 8, 1, key, first, times, diffs, 0, 0, size, time, diff, 2, bases]
        view(own, OWN_WORDS)[: len(words) + 2] = [*words, widths, cells]
        self._words = view(kept.arrangement.block, kernel.LOG_KEY + 1)
        self._words[kernel.SEEN_TIME : kernel.FIRST] = self.input + 8 * vm.TIMES, self.input + 8 * vm.DIFFS
        self._words[kernel.LOG_TIME :] = times, diffs, keys

    def compact(self, time: int) -> None:
        """Compact the updates up to a time."""
        self.since = max(self.since, time)
        count, mark = self._count(time), int(self._words[kernel.MARK])
        if count == 0:
            return
        log_kernel.unlink(self._state.block, count)
        left = int(self._words[kernel.FIRST]) - count
        self._start_at(0)
        view(self._own, 1)[0] = count
        with self._reading_log():
            self._words[[kernel.FIRST, kernel.LOG_TIME]] = 0
            self._words[kernel.PLAIN] = int((view(self._logs[1], count) == 1).all())
            self._settle(time + 1)
        self._words[[kernel.FIRST, kernel.LOG_TIME]] = left, self._logs[0]
        for address in self._logs:
            view(address, left)[:] = view(address + 8 * count, left).copy()
        for cell in self._state.stored.values():
            stored, end = int(view(cell, 1)[0]), int(self._words[kernel.MARK])
            view(stored + 8 * end, left)[:] = view(stored + 8 * (mark + count), left).copy()
        log_kernel.link(self._state.block)

    def _count(self, time: int) -> int:
        """Count the updates up to a time."""
        return int(np.searchsorted(view(self._logs[0], int(self._words[kernel.FIRST])), time, "right"))

    def _settle(self, frontier: int) -> None:
        view(self._program.frontier, 1)[0] = frontier
        while status := kernel.settle(self._state.block):
            if status == kernel.FAILED:
                raise self._state.problem()
            self._program.grow_found(self._state.block)

    @contextmanager
    def replay(self, after: int, until: int) -> Iterator[None]:
        """Let the arrangement's slices be the updates after one time, up to another, read through `input`."""
        first = int(self._words[kernel.FIRST])
        view(self.input, vm.POSITION + 1)[vm.ROWS :] = self._count(until), self._count(after)
        try:
            with self._reading_log():
                yield
        finally:
            self._words[kernel.FIRST] = first
            self._start_at(0)

    def _start_at(self, first: int) -> None:
        """Let our slice begin with an update of the log."""
        view(self._own, len(self._cells))[1:] = [each + 8 * first for each in self._logs]

    @contextmanager
    def _reading_log(self) -> Iterator[None]:
        """Let the arrangement read our slice instead of its own."""
        names = [kernel.SIZE, kernel.TIME, kernel.DIFF, kernel.KEY]
        before = self._words[names]
        self._words[names] = self._cells
        try:
            yield
        finally:
            self._words[names] = before

    def close(self) -> None:
        """Compact all updates, and log no more."""
        self.compact(vm.FOREVER)
        self._words[kernel.SEEN_TIME : kernel.FIRST] = self._words[[kernel.TIME, kernel.DIFF]]
        self._words[kernel.LOG_TIME :] = 0
        for address in (*self._logs, self._own):
            self._program.memory.release(address)


def is_logged(kept: SharedArrangement) -> bool:
    """Has an arrangement updates that are not compacted?"""
    return bool(view(kept.arrangement.block, kernel.FIRST + 1)[kernel.FIRST])


@dataclass(frozen=True)
class FedBatches:
    """The batches of one feed, up to a time."""

    last: int
    pointers: Mapping[str, Pointers]
    inputs: Mapping[str, Sequence[str]]
    """The inputs that the plans read at that time, and the columns of each."""


class ReadHolds:
    """The held times of a program, and the batches and logs that are kept because of them."""

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        self.active: list[Hold] = []
        self._logs: dict[int, UpdateLog] = {}
        self._flags: list[tuple[int, int]] = []
        """Words of interners that are set so that numbers of rows keep their meaning."""
        self.fed: list[FedBatches] = []
        self.is_pinned = False
        """Whether a backfill reads in pieces, so that nothing may be compacted."""

    def hold(self, time: int, arrangements: Iterable[SharedArrangement]) -> Hold:
        """Hold the last time that was fed, in some arrangements."""
        self._drop_retired()
        for each in arrangements:
            if each.arrangement.block not in self._logs:
                self._logs[each.arrangement.block] = UpdateLog(self._compiled.program, each, time)
        self._compiled.program.keeps_texts = True
        for interner in self._compiled.interners.values():
            words = view(interner.block, intern.KEEP + 1)
            if words[intern.KEEP] == 0:
                words[intern.KEEP] = 1
                self._flags.append((interner.block, intern.KEEP))
        self.active.append(Hold(self, time))
        return self.active[-1]

    def log_of(self, kept: SharedArrangement, since: int) -> UpdateLog:
        """Return the log of an arrangement; refuse one that does not go back to a time."""
        log = self._logs.get(kept.arrangement.block)
        if log is None or log.since > since:
            actual = f"what came after time {since}: {kept.key.node.operation} by {', '.join(kept.key.names)}"
            remedy = "call hold() after the arrangement exists, or attach without since="
            raise DeltamarkError("updates that were not kept", actual, remedy)
        return log

    def release(self, hold: Hold | None = None) -> None:
        """Remove a hold, if one is given; compact and forget everything that no other hold needs."""
        if hold is not None:
            self.active.remove(hold)
        if self.is_pinned:
            return
        self._drop_retired()
        if self.active:
            oldest = min(each.time for each in self.active)
            for log in self._logs.values():
                log.compact(oldest)
            self.fed = [each for each in self.fed if each.last > oldest]
            return
        for log in self._logs.values():
            log.close()
        self._compiled.program.keeps_texts = False
        for block, word in self._flags:
            view(block, word + 1)[word] = 0
        self._logs, self._flags, self.fed = {}, [], []

    def _drop_retired(self) -> None:
        """Forget the logs of arrangements that are gone."""
        kept = {each.arrangement.block for each in self._compiled.arrangements}
        self._logs = {block: log for block, log in self._logs.items() if block in kept}


class Hold:
    """A held logical time: plans can be attached as of this time, or of any later one.

    >>> with Dataflow({"sales": sales.join(shops, on="shop")}) as dataflow:
    ...     dataflow.push({"sales": batch})
    ...     hold = dataflow.hold()
    ...     hold.time
    ...     hold.release()
    0
    0
    """

    def __init__(self, holds: ReadHolds, time: int) -> None:
        self._holds = holds
        self.time = time

    def advance(self, time: int) -> None:
        """Hold a later time instead."""
        if time < self.time:
            actual = f"{time}, held {self.time}"
            raise DeltamarkError("a hold cannot move back", actual, "take another hold before feeding on")
        self.time = time
        self._holds.release()

    def release(self) -> None:
        """End the hold."""
        self._holds.release(self)
