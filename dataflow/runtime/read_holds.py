"""Read holds: while a logical time is held, plans can still be attached as of that time.

A hold delays compaction. Fed batches are kept, and each arrangement keeps an update log: its compacted rows are those
as of the oldest held time, and compacted rows and log together are the current rows. When the oldest hold advances,
updates up to its new time are compacted and forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np

from deltamark.dataflow.batch import Pointers
from deltamark.dataflow.builder.program import BlockAddress, Program
from deltamark.dataflow.codegen.compiled import Compiled, SharedArrangement
from deltamark.dataflow.kernels.arrangements import update_log as kernel
from deltamark.dataflow.kernels.arrangements.arrangement import PENDING, ArrangementBlock
from deltamark.dataflow.kernels.arrangements.settle import settle
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS, Scratch, view
from deltamark.dataflow.kernels.hashing.interner import InternerBlock
from deltamark.dataflow.kernels.program import InputBlock
from deltamark.dataflow.kernels.status import FAILED
from deltamark.dataflow.types import FOREVER
from deltamark.errors import DeltamarkError


@dataclass(eq=False)
class HeldTime:
    """A logical time that is held."""

    time: int


class LogReader(InputBlock):
    """The input by which a logged arrangement reads its own log, and the cells and tables of this input.

    It has two columns. The second has no values: its cell is the number of the first update of the slice.
    """

    slice_size: int = 0
    slice_time: int
    slice_diff: int
    slice_key: int
    """The slice of the log, of which these words are the cells."""
    key_base: int
    number_base: int = 0
    key_width: int = 8
    number_width: int = 1
    key_cell: int
    number_cell: int

    @classmethod
    def at(cls, address: int, log: Sequence[int], first: int, *, is_local: bool) -> LogReader:
        """Make the reader of a log at an address.

        log: the addresses of its times, weights and keys; first: the cell of the number of the first update; is_local:
        whether there are other workers.
        """
        times, diffs, keys = log
        place = {name: address + field.offset for name, field in cls.fields.items()}
        content = cls.words(
            times=times, diffs=diffs, size=place["slice_size"], time=place["slice_time"], diff=place["slice_diff"],
            columns=2, bases=place["key_base"], widths=place["key_width"], cells=place["key_cell"], slice_time=times,
            slice_diff=diffs, slice_key=keys, key_base=keys, key_cell=place["slice_key"], number_cell=first,
            is_local=int(is_local),
        )  # fmt: skip
        view(address, len(content))[:] = content
        return cls(address)


class UpdateLog:
    """The updates of an arrangement that are not compacted yet, in the order of their arrival.

    It changes nothing before `begin`. scratch: has its memory.
    """

    def __init__(self, program: Program, shared: SharedArrangement, since: int, scratch: Scratch) -> None:
        self.since = since
        self._program, self._state, self._scratch = program, shared.arrangement, scratch
        self._block = ArrangementBlock(shared.arrangement.block)
        first = self._block.address + ArrangementBlock.fields["first"].offset
        with program.building(shared.part):
            self._logs = [scratch.reserve_unset(UNBOUNDED_WORDS) for _ in range(3)]
            own = scratch.reserve(LogReader.size_in_words)
        self._reader = LogReader.at(own, self._logs, first, is_local=program.workers > 1)

    @property
    def input(self) -> BlockAddress:
        """The block of the input by which the arrangement reads the log."""
        return BlockAddress(self._reader.address)

    def begin(self) -> None:
        """Let the arrangement log its updates from now on."""
        pointers = self._block.as_words
        pointers.visible_time = self.input + LogReader.fields["times"].offset
        pointers.visible_diff = self.input + LogReader.fields["diffs"].offset
        pointers.log_time, pointers.log_diff, pointers.log_key = self._logs

    def compact(self, time: int) -> None:
        """Compact the updates up to a time."""
        self.since = max(self.since, time)
        count = self._count(time)
        if count == 0:
            return
        kernel.unlink(self._block, count)
        left = self._block.first - count
        self._start_at(0)
        self._reader.slice_size = count
        with self._reading_log():
            self._block.first = self._block.as_words.log_time = 0
            self._block.kind = PENDING
            self._settle(time + 1)
        self._block.first, self._block.as_words.log_time = left, self._logs[0]
        for address in self._logs:
            view(address, left)[:] = view(address + 8 * count, left).copy()
        kernel.link(self._block)

    def _count(self, time: int) -> int:
        """Count the updates up to a time."""
        return int(np.searchsorted(view(self._logs[0], self._block.first), time, "right"))

    def _settle(self, frontier: int) -> None:
        self._program.write(self._program.frontier, frontier)
        if settle(self._block) == FAILED:
            raise self._state.problem()

    @contextmanager
    def replay(self, after: int, until: int) -> Iterator[None]:
        """Let `input` read the updates after one time, up to another, as slices of the arrangement."""
        first = self._block.first
        self._reader.rows, self._reader.position = self._count(until), self._count(after)
        try:
            with self._reading_log():
                yield
        finally:
            self._block.first = first
            self._start_at(0)

    def _start_at(self, first: int) -> None:
        """Let the slice of the log begin with one of its updates."""
        times, diffs, keys = (each + 8 * first for each in self._logs)
        self._reader.slice_time, self._reader.slice_diff, self._reader.slice_key = times, diffs, keys

    @contextmanager
    def _reading_log(self) -> Iterator[None]:
        """Let the arrangement read the slice of the log instead of its own."""
        words, reader = self._block.as_words, self._reader.as_words
        before = words.size, words.time, words.diff, words.key
        words.size, words.time, words.diff, words.key = reader.size, reader.time, reader.diff, reader.key_cell
        try:
            yield
        finally:
            words.size, words.time, words.diff, words.key = before

    def close(self) -> None:
        """Compact all updates, and stop logging."""
        self.compact(FOREVER)
        words = self._block.as_words
        words.visible_time, words.visible_diff = words.time, words.diff
        words.log_time = words.log_diff = words.log_key = 0
        self._scratch.close()


@dataclass(frozen=True)
class FedBatches:
    """The batches of one feed, up to a time."""

    last: int
    pointers: Mapping[str, Pointers]
    inputs: Mapping[str, Sequence[str]]
    """The inputs that the plans read at that time, and the columns of each."""


Logs = dict[BlockAddress, UpdateLog]
"""Logs by the blocks of their arrangements."""


class ReadHolds:
    """The held times of plans, and the batches and logs that are kept because of them. compiled: for each worker."""

    def __init__(self, compiled: Sequence[Compiled]) -> None:
        self.active: list[HeldTime] = []
        self._workers = [WorkerHolds(each) for each in compiled]
        self.fed: list[FedBatches] = []
        self.is_pinned = False
        """Whether a backfill is under way, during which no update may be compacted."""

    def __getitem__(self, number: int) -> WorkerHolds:
        """Return the logs of a worker."""
        return self._workers[number]

    def logs(self, arrangements: Sequence[Iterable[SharedArrangement]], time: int) -> list[Logs]:
        """Make the logs that some arrangements of each worker lack, for a hold of the last time that was fed."""
        made = list[Logs]()
        with ExitStack() as unless_complete:
            for worker, each in zip(self._workers, arrangements, strict=True):
                made.append(worker.lacking(each, time, unless_complete))
            unless_complete.pop_all()
        return made

    def hold(self, time: int, logs: Sequence[Logs]) -> HeldTime:
        """Hold the last time that was fed. logs: those that were made for it."""
        for worker, each in zip(self._workers, logs, strict=True):
            worker.begin(each)
        self.active.append(HeldTime(time))
        return self.active[-1]

    def refuse_inactive(self, held: HeldTime) -> None:
        """Refuse a time that is held no more, or by another program."""
        if held not in self.active:
            raise DeltamarkError("not a hold of this dataflow, or released", f"time {held.time}", "call hold() again")

    def compact(self) -> None:
        """Compact and forget everything that no hold needs."""
        if self.is_pinned:
            return
        for worker in self._workers:
            worker.drop_retired()
        if self.active:
            oldest = min(each.time for each in self.active)
            self._each_log(lambda log: log.compact(oldest))
            self.fed = [each for each in self.fed if each.last > oldest]
            return
        self._each_log(UpdateLog.close)
        for worker in self._workers:
            worker.end()
        self.fed = []

    def _each_log(self, do: Callable[[UpdateLog], None]) -> None:
        """Call a function with the logs of one arrangement after another, at all workers; raise the earliest error."""
        for logs in zip(*(worker.logs.values() for worker in self._workers), strict=True):
            errors = list[DeltamarkError]()
            for log in logs:
                try:
                    do(log)
                except DeltamarkError as error:
                    errors.append(error)
            if errors:
                raise min(errors, key=lambda error: FOREVER if error.time is None else error.time)


class WorkerHolds:
    """The logs of a worker."""

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        self.logs: Logs = {}
        self._flags: list[InternerBlock] = []
        """The interners that must not reuse the ids of rows while a time is held."""

    def lacking(self, arrangements: Iterable[SharedArrangement], time: int, unless_complete: ExitStack) -> Logs:
        """Make the logs that some arrangements lack."""
        self.drop_retired()
        lacking = {each.arrangement.block: each for each in arrangements if each.arrangement.block not in self.logs}
        made, program = Logs(), self._compiled.program
        for block, each in lacking.items():
            scratch = Scratch(program.memory)
            unless_complete.callback(scratch.close)
            made[block] = UpdateLog(program, each, time, scratch)
        return made

    def begin(self, logs: Logs) -> None:
        """Let arrangements log their updates from now on."""
        for log in logs.values():
            log.begin()
        self.logs |= logs
        self._compiled.program.sweeper.is_paused = True
        for interner in self._compiled.interners.values():
            block = InternerBlock(interner.block)
            if block.keeps_ids == 0:
                block.keeps_ids = 1
                self._flags.append(block)

    def log_of(self, shared: SharedArrangement, since: int) -> UpdateLog:
        """Return the log of an arrangement; refuse one that does not go back to a time."""
        log = self.logs.get(shared.arrangement.block)
        if log is None or log.since > since:
            actual = f"changes after time {since}: {shared.key.node.operation} by {', '.join(shared.key.names)}"
            remedy = "call hold() after the arrangement exists, or attach without since="
            raise DeltamarkError("updates that were not kept", actual, remedy)
        return log

    def end(self) -> None:
        """Forget all logs, which are closed."""
        self._compiled.program.sweeper.is_paused = False
        for block in self._flags:
            block.keeps_ids = 0
        self.logs, self._flags = {}, []

    def drop_retired(self) -> None:
        """Forget the logs of retired arrangements."""
        kept = {each.arrangement.block for each in self._compiled.arrangements}
        self.logs = {block: log for block, log in self.logs.items() if block in kept}
