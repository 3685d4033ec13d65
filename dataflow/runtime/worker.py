"""A worker: runs a program, alone or beside other workers, and keeps the state of the keys that it owns.

`builder.program` builds what it runs: a worker binds inputs to batches, lets the interpreter run the operators, and
enlarges the tables that stop them.

A profile measures the time and the emitted changes of each operator by calling the operators one by one. The
interpreter itself measures nothing, so that a normal run pays nothing. A call from Python costs a microsecond or two,
which the time of an operator includes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from deltamark.dataflow.batch import BYTES, Batch, EachBatch, Pointers
from deltamark.dataflow.builder.program import Op, OperatorState, ProgramPart, Schedule
from deltamark.dataflow.builder.texts import read_texts
from deltamark.dataflow.codegen.compiled import Compiled, reachable
from deltamark.dataflow.explain import Measurement, Measurements
from deltamark.dataflow.interpreter.run import run
from deltamark.dataflow.kernels import status
from deltamark.dataflow.kernels.batches import BatchesBlock, take_batch
from deltamark.dataflow.kernels.core.guard import REGISTRY, OutOfBoundsError, lent
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.loops.iterate import ITERATE, IterateBlock
from deltamark.dataflow.kernels.program import CollectBlock, ProgramBlock, cut
from deltamark.dataflow.kernels.unread import skip_unread
from deltamark.dataflow.runtime.inputs import Accepted, InputBinding
from deltamark.dataflow.runtime.loads import Loads
from deltamark.errors import DeltamarkError, unknown

MIN_VIEW_ROWS = 1 << 10
"""Rows of the smallest cached view of collected changes, so that small feeds share one view. Not measured."""

StateT = TypeVar("StateT")
ReadT = TypeVar("ReadT")

UNBOUNDED_ROWS = 1 << 40
"""Rows of a slice that no feed exceeds."""


FAULT = -1
"""The step of an error that comes from no operator."""

OUT_OF_BOUNDS = -3
"""The status of a program that has accessed memory outside its ranges."""


def wait_alone(_worker: Worker) -> None:
    """Refuse to wait: a single worker never has to."""
    raise AssertionError("a single worker waits for no other")


class Worker:
    """Runs a compiled program over the keys that this worker owns, and keeps their state."""

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self.program = self._program = compiled.program
        self.bindings: dict[str, InputBinding] = {}
        self._views: dict[str, list[np.ndarray]] = {}
        self._unchanged: dict[str, Batch] = {}
        """The empty batch of each answer: most feeds of a few rows leave most answers as they are."""
        self._failure = ""
        """The error that stopped a call halfway; from then on all states lie between two times."""
        self.last = -1
        """The last time that was fed. The first feed completes time 0 even if it has no rows."""
        self.run_kernels: Callable[[int, int], int] = run
        """Runs the operators of a program, with the lock of Python or without it."""
        self.wait: Callable[[Worker], None] = wait_alone
        """Called while the wait for another worker cannot end, because one has failed."""
        self.failed_step = FAULT
        """The step at which an operator has failed."""
        self.first_step = 0
        """The number of the first step of the program that runs."""
        self._executed: Schedule | None = None
        self._execute = self.execute
        self._profile: Profile | None = None
        with self._program.memory.or_closed():
            self._schedule = compiled.schedule()
            self._loads = Loads(compiled, self._schedule)
            self.refresh()

    def refresh(self, pending: Mapping[str, Sequence[Op]] = MappingProxyType({})) -> None:
        """Include the operators that were compiled since, except those of pending plans."""
        compiled, without = self.compiled, {op for ops in pending.values() for op in ops}
        self.bindings = {name: self.bindings.get(name) or InputBinding(each) for name, each in compiled.inputs.items()}
        for binding in self.bindings.values():
            binding.refresh()
        self._roots = {name: CollectBlock(root.block).as_words for name, root in compiled.roots.items()}
        self._running = {name: root for name, root in self._roots.items() if name not in pending}
        self._views, self._unchanged = {}, {}
        before, self._schedule = self._schedule, compiled.schedule(without)
        self._program.memory.release(before.block)
        self._loads.close()
        self._loads = Loads(compiled, self._schedule)

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
                if batch.added:
                    accepted[name] = self.bindings[name].counted(trusted, batch.added)
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
            self.fail(error)
            raise

    def fail(self, error: BaseException) -> None:
        """Refuse all later calls that run the program."""
        # the error itself has frames that would keep this worker and the fed batches alive
        self._failure = self._failure or f"{type(error).__name__}: {error}"

    def execute_program(self) -> None:
        """Run the program over the batches that are bound."""
        if self._is_load:
            self._loads.run(self.execute)
        else:
            self._execute(self._schedule)

    @property
    def _is_load(self) -> bool:
        """Whether the batches that are bound load indexes."""
        return self._loads.is_due and self._profile is None

    def begin_program(self) -> int:
        """Prepare a run of the program by compiled code alone; return its address, or 0 if Python has to run it."""
        self._executed = self._schedule
        return 0 if self._profile or self._is_load else self._schedule.block

    def execute(self, schedule: Schedule, start: int = -1) -> None:
        """Run operators from number `start` on, or over all slices of the inputs if it is -1.

        If a table is too small, it is enlarged.
        """
        self._executed = schedule
        self.go_on(self._interpret(schedule, start))

    def go_on(self, stopped: int) -> None:
        """Run the schedule from where it has stopped. stopped: the status of the interpreter."""
        schedule = self._executed
        assert schedule is not None
        while stopped != status.DONE:
            if stopped == OUT_OF_BOUNDS:
                raise self._fault(schedule) from None
            at, reason = divmod(stopped, 4)
            if reason == status.FAILED:
                self.failed_step = self.step
                raise self._problem(schedule.ops[at])
            if reason == status.WAITING:
                self.wait(self)
            else:
                op = schedule.ops[at]
                op.step.make_room(self._program.memory, op.block)
            stopped = self._interpret(schedule, at)

    def _problem(self, op: Op) -> Exception:
        """Return the error of an operator that has failed, with the names of the plans that need it."""
        error = self._program.states[op.block].problem()
        if isinstance(error, DeltamarkError):
            roots = self.compiled.roots.items()
            error.plans = tuple(name for name, root in roots if op.part in reachable([root.part]))
        return error

    def _interpret(self, schedule: Schedule, start: int) -> int:
        try:
            return self.run_kernels(schedule.block, start)
        except OutOfBoundsError:
            return OUT_OF_BOUNDS

    def _fault(self, schedule: Schedule) -> OutOfBoundsError:
        at = ProgramBlock(schedule.block).running
        op, fault = schedule.ops[at], REGISTRY.fault() if REGISTRY else ""
        return OutOfBoundsError(f"operator {at}, {op.step.name} at {op.block:#x}: {fault}")

    @property
    def step(self) -> int:
        """The number of the step that runs: all workers count the operators of all supersteps alike."""
        if self._executed is None:
            return 0
        program = ProgramBlock(self._executed.block)
        return self.first_step + program.supersteps * len(self._executed.ops) + program.running

    @contextmanager
    def bound(self, pointers: Mapping[str, Pointers], *, drop: bool) -> Iterator[None]:
        """Bind the inputs to checked batches, over which the program runs in the context.

        After an error the worker can run nothing more, and the caller must let it `fail`.

        drop: count the changes without collecting them.
        """
        self._program.sweeper.sweep_if_due()
        for root in self._running.values():
            root.drop = drop
        for name, each in pointers.items():
            self.bindings[name].bind(each)
        try:
            yield
        finally:
            for name in pointers:
                self.bindings[name].unbind()

    @contextmanager
    def batched(self, ends: np.ndarray, started: int) -> Iterator[EachBatch]:
        """Divide the rows that are bound into batches, which run one after another as one feed.

        Yields the number of changes up to the end of each batch, and its nanoseconds, which the program fills in.

        ends: the last time of each batch; started: the time at which the first one began, in nanoseconds.
        """
        arrays = {
            "ends": ends,
            "rows": np.zeros(len(self.bindings), np.int64),
            "roots": np.array([self.compiled.roots[name].block for name in self._running], np.int64),
            "collected": np.zeros_like(ends),
            "clock": np.zeros_like(ends),
        }
        program = ProgramBlock(self._schedule.block)
        with lent(*arrays.values()) as at:
            fields = BatchesBlock.words(
                count=len(ends), answers=len(self._running), started=started,
                **dict(zip(arrays, at, strict=True)),
            )  # fmt: skip
            with lent(np.array(fields)) as (block,):
                program.batches = block
                take_batch(program)
                try:
                    yield EachBatch(arrays["collected"], arrays["clock"])
                finally:
                    program.batches = 0

    def take_counts(self) -> dict[str, int]:
        """Return the number of changes of each answer since the last call."""
        return {name: self._take_count(name) for name in self._running}

    def changes(self, name: str, rows: int) -> Batch:
        """Copy the changes of an answer that this worker has collected."""
        if not rows and name in self._unchanged:
            return self._unchanged[name]
        views = self._views.get(name)
        if views is None or len(views[0]) < rows:  # views are kept because making them takes longer than a copy
            vectors = self.compiled.roots[name].vectors
            views = self._views[name] = [view(vector, max(2 * rows, MIN_VIEW_ROWS)) for vector in vectors]
        time, diff, *arrays = [each[:rows].copy() for each in views]
        batch = self._batch(name, time, diff, arrays)
        if not rows:
            self._unchanged[name] = batch
        return batch

    def pending_changes(self, name: str) -> Batch:
        """Copy the changes that the answer of a pending plan has collected."""
        return self.changes(name, self._take_count(name))

    def pending_snapshot(self, name: str, time: int) -> Batch:
        """Return the consolidated sum of the changes that the answer of a pending plan has collected, as of a time."""
        rows = self._take_count(name)
        _, diff, *arrays = (view(vector, rows) for vector in self.compiled.roots[name].vectors)
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
        self._profile = Profile(self)
        self._execute = self._profile.execute
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


class Profile:
    """Runs a program one operator after another, each over a whole superstep, and measures them by their parts."""

    def __init__(self, worker: Worker) -> None:
        self._worker, self._compiled, self._program = worker, worker.compiled, worker.compiled.program
        self._nanoseconds: Counter[ProgramPart] = Counter()
        self._changes: Counter[ProgramPart] = Counter()
        self._divided: Schedule | None = None
        self._slicing: Schedule | None = None
        """Only takes the next slice."""
        self._steps: list[tuple[ProgramPart, Schedule]] = []

    def execute(self, schedule: Schedule, start: int = -1) -> None:
        """Run a schedule as `Worker.execute` does."""
        del start  # each operator is a schedule
        if schedule is not self._divided:
            self._divide(schedule)
        assert self._slicing is not None
        program, is_first = ProgramBlock(self._slicing.block), True
        while is_first or program.more:
            is_first = False
            skip_unread(program)
            cut(program)
            self._run_steps()

    def _run_steps(self) -> None:
        for part, step in self._steps:
            started = time.perf_counter_ns()
            self._worker.first_step += len(step.ops)
            self._worker.execute(step, 0)
            self._nanoseconds[part] += time.perf_counter_ns() - started
        for each in self._compiled.node_parts:
            if each.rows_cell is not None:
                self._changes[each] += self._program.read(each.rows_cell)

    def measurements(self) -> dict[ProgramPart, Measurement]:
        """Return what was measured so far. The operators inside a loop count as one, and emit an unknown number."""
        counted = [each for each in self._compiled.node_parts if each.rows_cell is not None]
        return {each: Measurement(self._changes[each], self._nanoseconds[each] / 1e9) for each in counted}

    def _divide(self, schedule: Schedule) -> None:
        """Make a schedule that only takes the next slice, and one for each operator."""
        for each in (self._slicing, *(step for _, step in self._steps)):
            if each is not None:
                self._program.memory.release(each.block)
        self._slicing = self._program.schedule([each.block for each in self._compiled.inputs.values()], [])
        remaining = list(schedule.ops)
        self._steps = []
        while remaining:
            size = _size_of_step(remaining[0])
            self._steps.append((remaining[0].part, self._program.schedule([], remaining[:size])))
            del remaining[:size]
        self._divided = schedule


def _size_of_step(op: Op) -> int:
    """Return the number of operators that must run together: a loop with its body, or one."""
    return 1 + IterateBlock(op.block).length if op.step is ITERATE else 1
