"""A worker: the part of a dataflow that one process runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from deltamark.dataflow.batch import BYTES, Batch, EachBatch, Pointers
from deltamark.dataflow.builder.program import Op, OperatorState, wait_alone
from deltamark.dataflow.builder.texts import read_texts
from deltamark.dataflow.codegen.compiled import Compiled
from deltamark.dataflow.explain import Measurements
from deltamark.dataflow.kernels.batches import BatchesBlock
from deltamark.dataflow.kernels.core.guard import lent
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.program import CollectBlock
from deltamark.dataflow.runtime.batch_checks import Accepted
from deltamark.dataflow.runtime.binding import InputBinding
from deltamark.dataflow.runtime.profile import Profile
from deltamark.errors import DeltamarkError, unknown

MIN_VIEW_ROWS = 1 << 10
"""Rows of the smallest cached view of collected changes, so that small feeds share one view. Not measured."""

StateT = TypeVar("StateT")
ReadT = TypeVar("ReadT")

UNBOUNDED_ROWS = 1 << 40
"""Rows of a slice that no feed exceeds."""


class Worker:
    """Runs a compiled program over the keys that this process owns, and keeps their state.

    >>> with closing(Worker(compile_plans({"answer": sales.count().node}))) as worker:
    ...     worker.feed({"sales": batch})["answer"]
    Batch of 1 change
     time  diff  count
        0     1      1
    """

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self._program = compiled.program
        self.bindings: dict[str, InputBinding] = {}
        self._views: dict[tuple[str, int], list[np.ndarray]] = {}
        self._failure = ""
        """The error that stopped a call halfway; from then on all states lie between two times."""
        self.last = -1
        """The last time that was fed. The first feed completes time 0 even if it has no rows."""
        self._run_schedule = self._program.run
        self._profile: Profile | None = None
        with self._program.memory.or_closed():
            self._schedule = compiled.schedule()
            self.refresh()

    def refresh(self, pending: Mapping[str, Sequence[Op]] = MappingProxyType({})) -> None:
        """Include the operators that were compiled since, except those of pending plans."""
        compiled, without = self.compiled, {op for ops in pending.values() for op in ops}
        self.bindings = {name: self.bindings.get(name) or InputBinding(each) for name, each in compiled.inputs.items()}
        for binding in self.bindings.values():
            binding.refresh()
        self._roots = {name: CollectBlock(root.block).as_words for name, root in compiled.roots.items()}
        self._running = {name: root for name, root in self._roots.items() if name not in pending}
        self._views = {}
        before, self._schedule = self._schedule, compiled.schedule(without)
        self._program.memory.release(before.block)

    @property
    def inputs(self) -> dict[str, tuple[str, ...]]:
        """The inputs that the plans read, and the columns that they read of each."""
        return {name: binding.names for name, binding in self.bindings.items()}

    def checked(self, batches: Mapping[str, Batch], end: int | None = None) -> dict[str, Pointers]:
        """Check the next batches and record their last time; return the addresses of those that have rows.

        If one batch is wrong an error is raised, and nothing is changed. end: the last time, if it is given.
        """
        self.refuse_after_failure()
        if not isinstance(batches, Mapping):
            actual = type(batches).__name__
            raise DeltamarkError("not batches by the names of inputs", actual, "feed {input: Batch(...), ...}")
        pointers, accepted = dict[str, Pointers](), dict[str, Accepted]()
        for name, batch in batches.items():
            if name not in self.bindings:
                raise unknown("input", str(name), self.bindings)
            if (trusted := getattr(batch, "pointers", None)) is not None:
                pointers[name] = trusted
            elif (checked := self.bindings[name].check(batch, self.last)) is not None:
                pointers[name], accepted[name] = checked.pointers, checked
        last = max(self.last, 0)
        for each in pointers.values():
            last = max(last, each.last)
        if end is not None and last > end:
            raise DeltamarkError(
                "rows after the last batch",
                f"time {last}, ends: {end}",
                "make the last of the ends this time, or a later one",
            )
        for name, checked in accepted.items():
            self.bindings[name].commit(checked)
        self.last = last if end is None else end
        return pointers

    def refuse_after_failure(self) -> None:
        if self.has_failed:
            remedy = "close this dataflow, and begin anew"
            raise DeltamarkError("an earlier call was stopped halfway", self._failure, remedy)

    @property
    def has_failed(self) -> bool:
        return bool(self._failure)

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Let an error fail this worker for good: operators may be left at different times, or freed in part."""
        try:
            yield
        except BaseException as error:
            self._fail(error)
            raise

    def _fail(self, error: BaseException) -> None:
        # the error itself has frames that would keep this worker and the fed batches alive
        self._failure = self._failure or f"{type(error).__name__}: {error}"

    def run(self, pointers: Mapping[str, Pointers], wait: Callable[[], None], *, drop: bool) -> dict[str, int]:
        """Run the program over checked batches; return the number of changes of each answer.

        wait: called while another worker is awaited; drop: count the changes without collecting them.
        """
        self._run(pointers, partial(self._run_schedule, self._schedule, -1, wait), drop=drop)
        return self._take_counts()

    def run_each(
        self, pointers: Mapping[str, Pointers], ends: np.ndarray, *, started: int, drop: bool
    ) -> tuple[dict[str, int], EachBatch]:
        """Run the program over one batch after another of checked rows; return the number of changes of each answer.

        ends: the last time of each batch; started: the time at which the first one began, in nanoseconds.
        """
        arrays = {
            "ends": ends,
            "rows": np.zeros(len(self.bindings), np.int64),
            "roots": np.array([self.compiled.roots[name].block for name in self._running], np.int64),
            "collected": np.zeros_like(ends),
            "clock": np.zeros_like(ends),
        }
        with lent(*arrays.values()) as at:
            fields = BatchesBlock.words(
                count=len(ends), answers=len(self._running), started=started,
                **dict(zip(arrays, at, strict=True)),
            )  # fmt: skip
            with lent(np.array(fields)) as (block,):
                self._run(pointers, partial(self._program.run_batches, self._schedule, block), drop=drop)
        return self._take_counts(), EachBatch(np.diff(arrays["collected"], prepend=0), arrays["clock"])

    def _take_counts(self) -> dict[str, int]:
        return {name: self._take_count(name) for name in self._running}

    def _run(self, pointers: Mapping[str, Pointers], run: Callable[[], None], *, drop: bool) -> None:
        """Bind the inputs to checked batches while the program runs."""
        self._program.sweeper.sweep_if_due()
        for root in self._running.values():
            root.drop = drop
        for name, each in pointers.items():
            self.bindings[name].bind(each)
        try:
            run()
        except BaseException as error:
            self._fail(error)
            raise
        finally:
            for name in pointers:
                self.bindings[name].unbind()

    def feed(self, batches: Mapping[str, Batch]) -> dict[str, Batch]:
        """Apply whole logical times, later than all before; return the changes of each answer, ordered by time."""
        counts = self.run(self.checked(batches), wait_alone, drop=False)
        return {name: self.changes(name, rows) for name, rows in counts.items()}

    def push(self, batches: Mapping[str, Batch]) -> int:
        """Apply whole logical times as `feed` does, but only count the changes."""
        return sum(self.run(self.checked(batches), wait_alone, drop=True).values())

    def changes(self, name: str, rows: int, worker: int = 0) -> Batch:
        """Copy the changes of an answer that a worker has collected."""
        views = self._views.get((name, worker))
        if views is None or len(views[0]) < rows:  # views are kept because making them takes longer than a copy
            vectors = self.compiled.roots[name].vectors[worker]
            views = self._views[name, worker] = [view(vector, max(2 * rows, MIN_VIEW_ROWS)) for vector in vectors]
        time, diff, *arrays = [each[:rows].copy() for each in views]
        return self._batch(name, time, diff, arrays)

    def pending_changes(self, name: str) -> Batch:
        """Copy the changes that the answer of a pending plan has collected."""
        return self.changes(name, self._take_count(name))

    def pending_snapshot(self, name: str, time: int) -> Batch:
        """Return the consolidated sum of the changes that the answer of a pending plan has collected, as of a time."""
        rows = self._take_count(name)
        _, diff, *arrays = (view(vector, rows) for vector in self.compiled.roots[name].vectors[0])
        order = np.lexsort(arrays) if arrays else np.arange(rows)
        changed = np.zeros(max(rows - 1, 0), bool)
        for each in arrays:
            changed |= np.diff(each[order]) != 0
        starts = np.flatnonzero(np.append(rows > 0, changed))
        weights = np.add.reduceat(diff[order], starts) if rows else diff.copy()
        kept = order[starts[weights != 0]]
        return self._batch(name, np.full(len(kept), time), weights[weights != 0], [each[kept] for each in arrays])

    def _take_count(self, name: str) -> int:
        root = self._roots[name]
        rows, root.collected = root.collected, 0
        return rows

    def _batch(self, name: str, time: np.ndarray, diff: np.ndarray, arrays: Iterable[np.ndarray]) -> Batch:
        root = self.compiled.roots[name]
        named = dict(zip(root.arrays, arrays, strict=True))
        if root.arrays == root.names:
            return Batch(time, diff, named)
        for text in root.texts:
            named[text] = read_texts(named[text], named.pop(f"{text}{BYTES}"))
        return Batch(time, diff, {column: named[column] for column in root.names})

    def take_whole_feeds(self) -> None:
        """Run each feed as one slice from now on, so that workers with other slices see changes in the same order."""
        self._program.slice_rows = UNBOUNDED_ROWS
        self.refresh()

    def profile(self) -> None:
        """Run and measure one operator after another from now on."""
        self._profile = Profile(self.compiled)
        self._run_schedule = self._profile.run
        self.take_whole_feeds()

    def refuse_after_profile(self) -> None:
        if self._profile is not None:
            raise DeltamarkError("feed_each or push_each after profile", "each operator runs alone", "use feed or push")

    def measurements(self) -> Measurements | None:
        """Return the measurements since `profile`, or None without one."""
        return None if self._profile is None else self._profile.measurements()

    def states(self, kind: type[StateT], read: Callable[[StateT], ReadT]) -> list[ReadT]:
        """Return what a function reads from each state of one type; from one that operators share once."""
        return [read(each) for each in self._states() if isinstance(each, kind)]

    def _states(self) -> Iterable[OperatorState]:
        """Return the states of the program; operators may share one."""
        return {id(state): state for state in self._program.states.values()}.values()

    def state_rows(self) -> int:
        """Count the rows, groups, keys and texts that are kept between feeds."""
        sweeper = self._program.sweeper
        if not self.has_failed:  # a sweep reads all states, which an error may have left incomplete
            sweeper.sweep()
        return sum(state.rows() for state in self._states()) + (sweeper.texts.used() if sweeper.texts else 0)

    def state_bytes(self) -> int:
        """Count the bytes of the memory that is kept between feeds."""
        return sum(self._program.memory.resident(self._program.state_memory()).values())

    def close(self) -> None:
        """Release all memory."""
        self._program.memory.close()
