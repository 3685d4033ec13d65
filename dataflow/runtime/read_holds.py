"""Past times that may still be asked about: while one is held, all that came since then is kept.

Batches are kept as they were fed, and the updates of arrangements in logs: what was then is settled, and what is now is
that and the log. When the slowest of those who hold a time moves on, what came up to there is settled, and forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from deltamark.dataflow.batch import Pointers
from deltamark.dataflow.codegen.compiled import Compiled, Kept
from deltamark.dataflow.codegen.program import LOOSE, Program
from deltamark.dataflow.kernels import interpreter as vm
from deltamark.dataflow.kernels.arrangements import arrangement as kernel
from deltamark.dataflow.kernels.arrangements import update_log as log_kernel
from deltamark.dataflow.kernels.core.interner import Interner as InternerBlock
from deltamark.dataflow.kernels.core.memory import view
from deltamark.errors import DeltamarkError

OWN_WORDS = 32


class Log:
    """The updates of an arrangement that are not settled, in the order in which they came."""

    def __init__(self, program: Program, kept: Kept, since: int) -> None:
        self.since = since
        self._program, self._state = program, kept.arrangement
        with program.building(kept.part):
            times, diffs, keys = self._logs = [program.memory.reserve(LOOSE) for _ in range(3)]
            own = self._own = program.memory.reserve(OWN_WORDS)
        size, time, diff, key, bases, widths, cells, self.input = (own + 8 * at for at in (0, 1, 2, 3, 4, 6, 8, 10))
        self._cells = [size, time, diff, key]
        """What an arrangement has of a slice; here of what is settled, or seen again."""
        first = kept.arrangement.block + kernel.Arrangement.fields["first"].offset
        block = vm.InputBlock.words(
            times=times,
            diffs=diffs,
            size=size,
            time=time,
            diff=diff,
            columns=2,
            bases=bases,
            widths=widths,
            cells=cells,
        )
        words = [0, times, diffs, keys, keys, 0, 8, 1, key, first, *block]
        view(own, len(words))[:] = words
        self._block = kernel.Arrangement(kept.arrangement.block)
        self._block.set_raw(
            visible_time=self.input + vm.InputBlock.fields["times"].offset,
            visible_diff=self.input + vm.InputBlock.fields["diffs"].offset,
            log_time=times, log_diff=diffs, log_key=keys,
        )  # fmt: skip

    def settle(self, time: int) -> None:
        """Settle what is not later than a time."""
        self.since = max(self.since, time)
        count, mark = self._before(time), self._block.mark
        if count == 0:
            return
        log_kernel.unlink(self._block, count)
        left = self._block.first - count
        self._aim(0)
        view(self._own, 1)[0] = count
        with self._instead():
            self._block.set_raw(first=0, log_time=0)
            self._block.unit_inserts = int((view(self._logs[1], count) == 1).all())
            self._settle(time + 1)
        self._block.set_raw(first=left, log_time=self._logs[0])
        for address in self._logs:
            view(address, left)[:] = view(address + 8 * count, left).copy()
        for cell in self._state.stored.values():
            stored, end = int(view(cell, 1)[0]), self._block.mark
            view(stored + 8 * end, left)[:] = view(stored + 8 * (mark + count), left).copy()
        log_kernel.link(self._block)

    def _before(self, time: int) -> int:
        """Count the updates that are not later than a time."""
        return int(np.searchsorted(view(self._logs[0], self._block.first), time, "right"))

    def _settle(self, frontier: int) -> None:
        view(self._program.frontier, 1)[0] = frontier
        while status := kernel.settle(self._block):
            if status == kernel.FAILED:
                raise self._state.problem()
            self._program.grow_found(self._state.block)

    @contextmanager
    def again(self, after: int, until: int) -> Iterator[None]:
        """Have the arrangement's slices be those of the input, which is what came after a time, up to another."""
        first = self._block.first
        block = vm.InputBlock(self.input)
        block.rows, block.position = self._before(until), self._before(after)
        try:
            with self._instead():
                yield
        finally:
            self._block.first = first
            self._aim(0)

    def _aim(self, first: int) -> None:
        """Let our cells begin with an update."""
        view(self._own, len(self._cells))[1:] = [each + 8 * first for each in self._logs]

    @contextmanager
    def _instead(self) -> Iterator[None]:
        """Let the arrangement's slice be in our cells."""
        names = ("size", "time", "diff", "key")
        before = self._block.raw(*names)
        self._block.set_raw(**dict(zip(names, self._cells, strict=True)))
        try:
            yield
        finally:
            self._block.set_raw(**dict(zip(names, before, strict=True)))

    def close(self) -> None:
        """Settle everything, and keep no log."""
        self.settle(vm.FOREVER)
        time, diff = self._block.raw("time", "diff")
        self._block.set_raw(visible_time=time, visible_diff=diff, log_time=0, log_diff=0, log_key=0)
        for address in (*self._logs, self._own):
            self._program.memory.release(address)


def is_logged(kept: Kept) -> bool:
    """Has an arrangement updates that are not settled?"""
    return bool(kernel.Arrangement(kept.arrangement.block).first)


@dataclass(frozen=True)
class Fed:
    """Batches that were fed, up to a time."""

    last: int
    pointers: Mapping[str, Pointers]
    inputs: Mapping[str, Sequence[str]]
    """What could be fed then: inputs, and the columns of each."""


class Past:
    """What a program keeps for those who hold a time."""

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        self._holds: list[Hold] = []
        self._logs: dict[int, Log] = {}
        self._flags: list[InternerBlock] = []
        """Words that are set for numbers of rows to keep their meaning."""
        self.fed: list[Fed] = []
        self.pinned = False
        """Is somebody reading in pieces what was then?"""

    def hold(self, time: int, among: Iterable[Kept]) -> Hold:
        """Hold the last time that was fed, in some arrangements."""
        self._drop()
        for each in among:
            if each.arrangement.block not in self._logs:
                self._logs[each.arrangement.block] = Log(self._compiled.program, each, time)
        self._compiled.program.keeps_texts = True
        for interner in self._compiled.interners.values():
            block = InternerBlock(interner.block)
            if block.keeps_ids == 0:
                block.keeps_ids = 1
                self._flags.append(block)
        self._holds.append(Hold(self, time))
        return self._holds[-1]

    @property
    def is_held(self) -> bool:
        return bool(self._holds)

    def keep(self, fed: Fed) -> None:
        self.fed.append(fed)

    def log(self, kept: Kept, since: int) -> Log:
        """Return the log of an arrangement, of which all since a time is asked for."""
        found = self._logs.get(kept.arrangement.block)
        if found is None or found.since > since:
            actual = f"what came after time {since}: {kept.what[0].op} by {', '.join(kept.what[2])}"
            raise DeltamarkError("nobody has kept this", actual, "hold the time when the arrangement is there")
        return found

    def let_go(self, hold: Hold | None = None) -> None:
        """Settle and forget what nobody can ask for any more."""
        if hold is not None:
            self._holds.remove(hold)
        if self.pinned:
            return
        self._drop()
        if self._holds:
            slowest = min(each.time for each in self._holds)
            for log in self._logs.values():
                log.settle(slowest)
            self.fed = [each for each in self.fed if each.last > slowest]
            return
        for log in self._logs.values():
            log.close()
        self._compiled.program.keeps_texts = False
        for block in self._flags:
            block.keeps_ids = 0
        self._logs, self._flags, self.fed = {}, [], []

    def _drop(self) -> None:
        """Forget the logs of arrangements that have gone, and the flags of interners."""
        kept = {each.arrangement.block for each in self._compiled.kept}
        self._logs = {block: log for block, log in self._logs.items() if block in kept}


class Hold:
    """A time that somebody holds: a dataflow can be attached as of then, or of any later time."""

    def __init__(self, past: Past, time: int) -> None:
        self._past = past
        self.time = time

    def advance(self, time: int) -> None:
        """Hold a later time instead."""
        if time < self.time:
            raise DeltamarkError("a time that is held no more", f"{time}, held {self.time}", "hold it earlier")
        self.time = time
        self._past.let_go()

    def release(self) -> None:
        """Hold no time any more."""
        self._past.let_go(self)
