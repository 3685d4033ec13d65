"""Live plans: several plans that are maintained as one program, on one worker or several.

A Dataflow makes every call exclusive, and this is all that lies between it and the workers that run the program. Each
worker has a program of its own, compiled from the same plans, and keeps the state of the keys that it owns. All workers
read the arrays of a fed batch.

Between feeds plans are attached and retired, and times are held. A plan that is attached is compiled into the programs
that run, and brought to the present: see `backfill`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from time import perf_counter_ns
from typing import TypeVar

import numpy as np

from deltamark.dataflow.answer import Answer
from deltamark.dataflow.batch import Batch, EachBatch, Pointers, Times, concatenated, merged
from deltamark.dataflow.builder.images import Images
from deltamark.dataflow.builder.program import Op
from deltamark.dataflow.codegen.compiled import Compiled, SharedArrangement, link
from deltamark.dataflow.codegen.compiler import Added, compile_into, compile_plans
from deltamark.dataflow.explain import Measurement, Measurements, StateSizes, state_sizes
from deltamark.dataflow.kernels.core.memory import Scratch
from deltamark.dataflow.kernels.parallel.key_partition import MAX_WORKERS
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.operators.distribution import WHOLE
from deltamark.dataflow.runtime.backfill import Backfill, NewOperators, PendingPlan, arranged, rows_of
from deltamark.dataflow.runtime.inputs import accept_ends, slices
from deltamark.dataflow.runtime.read_holds import FedBatches, HeldTime, ReadHolds
from deltamark.dataflow.runtime.threads import WorkerThreads
from deltamark.dataflow.runtime.worker import Worker
from deltamark.errors import DeltamarkError, unknown

StateT = TypeVar("StateT")
ReadT = TypeVar("ReadT")
ResultT = TypeVar("ResultT")

History = Mapping[str, Iterable[Batch]]
"""The live rows of inputs as of a time."""

MIN_FUEL = 2
"""The least fuel, in pieces of work: a replayed batch costs half of the fuel, which must be at least one piece."""

RETIRED, RETIRED_BYTES = 20, 4 << 20
"""The number of retired plans with which any state is saved, and the bytes of a state for each further one. Restoring
compiles a plan again in 13 to 50 ms (measured), and loading 4 MB of state takes 30 ms."""

Counts = Sequence[Mapping[str, int]]
"""The number of changes of each answer that each worker has collected."""


Step = Mapping[str, str]
"""A change of the programs: the digests of compiled plans by name, or "" for a retired one; if empty, all parts that no
plan uses were dropped."""


class NoHistoryError(DeltamarkError):
    """The lack of the rows of some inputs, which a plan needs to be attached."""

    def __init__(self, lacking: Mapping[str, Sequence[str]]) -> None:
        name, columns = next(iter(lacking.items()))
        remedy = "give the live rows: history={" + repr(name) + ": [Batch(...)]}"
        super().__init__("no arrangement has these rows", f"{name}: {', '.join(columns) or 'its rows'}", remedy)
        self.inputs = tuple(lacking)


@dataclass(frozen=True)
class ArrangedRows:
    """The rows of an input in an arrangement, which each worker has."""

    workers: Sequence[SharedArrangement]


Rows = ArrangedRows | Iterable[Batch]
"""The rows of an input: in an arrangement that has them, or in batches that are given."""


class LivePlans:
    """The plans of a dataflow. Equal parts of plans are computed once, and kept once. See Dataflow for the methods.

    >>> with closing(LivePlans({"answer": sales.count()})) as plans:
    ...     plans.feed({"sales": batch})["answer"]
    Batch of 1 change
     time  diff  count
        0     1      1
    """

    def __init__(self, plans: Mapping[str, Collection], workers: int = 1) -> None:
        if not 1 <= workers <= MAX_WORKERS:
            raise DeltamarkError("no such number of workers", workers, f"give from 1 to {MAX_WORKERS}")
        self.schemas = {name: each.schema for name, each in plans.items()}
        self.workers: list[Worker] = []
        try:
            nodes = {name: each.node for name, each in plans.items()}
            for number in range(workers):
                self.workers.append(Worker(compile_plans(nodes, workers, number)))
            link(self._compiled())
            self.images = Images([each.program for each in self.workers])
            self._threads = WorkerThreads(self.workers)
        except BaseException:
            for each in self.workers:
                each.close()
            raise
        self.steps: list[Step] | None = [digests_of(plans)]
        """The compilations and retirements so far; None if an error has stopped one halfway."""
        self._holds = ReadHolds(self._compiled())
        self._pending: PendingPlan | None = None
        self.kept: dict[str, Answer] = {}
        """The present answers of some plans."""

    @property
    def worker(self) -> Worker:
        """The first worker, which checks batches."""
        return self.workers[0]

    @property
    def compiled(self) -> Compiled:
        """The program of the first worker."""
        return self.worker.compiled

    def _compiled(self) -> list[Compiled]:
        return [each.compiled for each in self.workers]

    @property
    def inputs(self) -> dict[str, tuple[str, ...]]:
        return self.worker.inputs

    def feed(self, batches: Mapping[str, Batch]) -> dict[str, Batch]:
        changes = self._collected(self._run(batches, drop=False))
        if (finished := self._finished()) is not None:
            changes[finished.name] = concatenated([finished.answer, changes[finished.name]])
        return self._summed(changes)

    def push(self, batches: Mapping[str, Batch]) -> int:
        if self.kept:
            return sum(len(each.time) for each in self.feed(batches).values())
        changes = sum(sum(each.values()) for each in self._run(batches, drop=True))
        return changes if (finished := self._finished()) is None else changes + len(finished.answer.time)

    def feed_each(self, batches: Mapping[str, Batch], ends: Times) -> tuple[dict[str, Batch], EachBatch]:
        started = perf_counter_ns()  # the checks of all batches count for the first
        counts, each = self._run_each(batches, ends, started=started, drop=False)
        return self._summed(self._collected(counts)), each

    def push_each(self, batches: Mapping[str, Batch], ends: Times) -> EachBatch:
        if self.kept:
            return self.feed_each(batches, ends)[1]
        started = perf_counter_ns()
        return self._run_each(batches, ends, started=started, drop=True)[1]

    def _run(self, batches: Mapping[str, Batch], *, drop: bool) -> Counts:
        """Check batches, and run the program over them. drop: count the changes without collecting them."""
        pending = self._pending
        if pending is not None and not pending.is_complete:
            self.worker.refuse_after_failure()
            self._or_drop(pending.backfill.name, lambda: self._advance_backfill(pending))
        pointers = self._checked(batches)
        with self._bound(pointers, drop=drop):
            self._threads.execute()
        return self._take_counts()

    def _run_each(
        self, batches: Mapping[str, Batch], ends: Times, *, started: int, drop: bool
    ) -> tuple[Counts, EachBatch]:
        """Run the program over one batch after another. started: when the call began, in nanoseconds.

        Workers do not wait between two batches. A batch ends with its last worker.
        """
        self.worker.refuse_after_failure()
        self.worker.refuse_after_profile()
        self._refuse_pending()
        times = accept_ends(ends, self.worker.last)
        pointers = self._checked(batches, int(times[-1]))
        with self._bound(pointers, drop=drop) as bound:
            found = [bound.enter_context(each.batched(times, started)) for each in self.workers]
            self._threads.execute()
        ended = np.max([np.cumsum(each.nanoseconds) for each in found], axis=0)
        changes = np.sum([each.changes for each in found], axis=0)
        return self._take_counts(), EachBatch(np.diff(changes, prepend=0), np.diff(ended, prepend=0))

    @contextmanager
    def _bound(self, pointers: Mapping[str, Pointers], *, drop: bool) -> Iterator[ExitStack]:
        """Bind the inputs of all workers to checked batches."""
        with self._failing(), ExitStack() as bound:
            for each in self.workers:
                bound.enter_context(each.bound(pointers, drop=drop))
            yield bound

    def _take_counts(self) -> Counts:
        return [each.take_counts() for each in self.workers]

    def _collected(self, counts: Counts) -> dict[str, Batch]:
        """Return the changes of each answer that all workers have collected."""
        changes = {}
        for name in counts[0]:
            pieces = [each.changes(name, of[name]) for each, of in zip(self.workers, counts, strict=True) if of[name]]
            changes[name] = merged(pieces) if pieces else self.worker.changes(name, 0)
        return changes

    def _summed(self, changes: dict[str, Batch]) -> dict[str, Batch]:
        """Add changes to the answers that are kept."""
        for name, answer in self.kept.items():
            if name in changes:  # else it is being attached
                answer.add(changes[name])
        return changes

    def keep(self, name: str, answer: Batch | None) -> None:
        """Keep the answer of a plan from now on. answer: the present one, if something was fed before."""
        if name not in self.schemas:
            raise unknown("plan", name, self.schemas)
        if answer is None and self.worker.last >= 0 and name != self.pending:
            remedy = "keep it before the first feed, or give the answer that attach has returned"
            raise DeltamarkError("an answer whose first changes were not kept", name, remedy)
        kept = Answer(self.schemas[name])
        if answer is not None:
            kept.add(answer)
        self.kept[name] = kept

    def answer(self, name: str) -> Answer:
        """Return the answer of a plan that is kept."""
        if name not in self.schemas:
            raise unknown("plan", name, self.schemas)
        if name not in self.kept:
            raise DeltamarkError("an answer that is not kept", name, "call keep before the first feed")
        return self.kept[name]

    def _checked(self, batches: Mapping[str, Batch], end: int | None = None) -> dict[str, Pointers]:
        pointers = self.worker.checked(batches, end)
        if self._holds.active:
            self._holds.fed.append(FedBatches(self.worker.last, pointers, self.worker.inputs))
        return pointers

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Let an error fail all workers for good: operators may be left at different times, or freed in part."""
        try:
            yield
        except BaseException as error:
            for each in self.workers:
                each.fail(error)
            raise

    def attach(
        self, name: str, plan: Collection, history: History, *, since: HeldTime | None, fuel: int | None
    ) -> Batch:
        """Attach a plan; return its answer as of the last fed time, or as of a hold with its changes since.

        fuel: the pieces of the work that each of the next feeds does first; with fuel, no changes are returned.
        """
        if fuel is not None:
            return self._attach_later(name, plan, history, fuel)
        if since is not None:
            self._holds.refuse_inactive(since)
        time = self.worker.last if since is None else since.time
        self._refuse_to_begin(name, history, time)
        return self._or_drop(name, lambda: self._attached(name, plan, history, time))

    def _attached(self, name: str, plan: Collection, history: History, time: int) -> Batch:
        with closing(self._begin(name, plan, history, time)) as backfill:
            while not backfill.work():
                pass
        self._refresh()
        return backfill.answer

    def _attach_later(self, name: str, plan: Collection, history: History, fuel: int) -> Batch:
        if fuel < MIN_FUEL:
            raise DeltamarkError("too little fuel", fuel, f"give at least {MIN_FUEL}")
        if self.worker.last < 0:
            return self.attach(name, plan, history, since=None, fuel=None)
        self._refuse_to_begin(name, history, self.worker.last)
        return self._or_drop(name, lambda: self._begun(name, plan, history, fuel))

    def _begun(self, name: str, plan: Collection, history: History, fuel: int) -> Batch:
        backfill = self._begin(name, plan, history, self.worker.last)
        self._pending = PendingPlan(backfill, self._hold([new.arrangements for new in backfill.new]), fuel)
        self._holds.is_pinned = True
        for new in backfill.new:
            new.worker.compiled.lent = {each.part for each in new.arrangements}
        return self.worker.changes(name, 0)

    @property
    def pending(self) -> str | None:
        """The name of the plan that is being attached over several feeds."""
        return None if self._pending is None else self._pending.backfill.name

    def retire(self, name: str) -> None:
        if name not in self.schemas:
            raise unknown("plan", name, self.schemas)
        self._drop(name)

    def hold(self) -> HeldTime:
        """Hold the last time that was fed."""
        self.worker.refuse_after_failure()
        self._refuse_pending()
        if self.worker.last < 0:
            raise DeltamarkError("no time to hold", "nothing was fed", "feed something first")
        return self._hold([each.arrangements for each in self._compiled()])

    def _hold(self, arrangements: Sequence[Iterable[SharedArrangement]]) -> HeldTime:
        logs = self._holds.logs(arrangements, self.worker.last)
        with self._failing():
            return self._holds.hold(self.worker.last, logs)

    def advance(self, held: HeldTime, time: int) -> None:
        """Hold a later time instead."""
        self.worker.refuse_after_failure()
        self._holds.refuse_inactive(held)
        if time < held.time:
            actual = f"{time}, held {held.time}"
            raise DeltamarkError("a hold cannot move back", actual, "take another hold before feeding on")
        if time > self.worker.last:
            raise DeltamarkError("a time that was not fed yet", f"{time} after {self.worker.last}", "feed it first")
        held.time = time
        self._compact()

    def release(self, held: HeldTime) -> None:
        """End a hold. Ending it again does nothing."""
        if held in self._holds.active:
            self._holds.active.remove(held)
            self._compact()

    def state_rows(self) -> int:
        return sum(each.state_rows() for each in self.workers)

    def state_bytes(self) -> int:
        return sum(each.state_bytes() for each in self.workers)

    def state_sizes(self) -> StateSizes:
        """Return the rows and bytes that each part of the program keeps, at all workers."""
        sizes = [state_sizes(each) for each in self._compiled()]
        sums = np.array([list(each.values()) for each in sizes], np.int64).reshape(len(sizes), -1, 2).sum(axis=0)
        return {part: (int(rows), int(size)) for part, (rows, size) in zip(sizes[0], sums, strict=True)}

    def states(self, kind: type[StateT], read: Callable[[StateT], ReadT]) -> list[ReadT]:
        """Return what a function reads from each state of one type, worker by worker."""
        return [each for worker in self.workers for each in worker.states(kind, read)]

    def profile(self) -> None:
        """Measure each operator from now on; that of an exchange includes the wait for other workers."""
        for each in self.workers:
            each.profile()

    def measurements(self) -> Measurements | None:
        """Return the measurements since `profile`, summed over the workers, or None without one."""
        found = [each.measurements() for each in self.workers]
        if found[0] is None:
            return None
        each_worker = zip(*(each.values() for each in found if each is not None), strict=True)
        sums = [Measurement(sum(one.changes for one in of), sum(one.seconds for one in of)) for of in each_worker]
        return dict(zip(found[0], sums, strict=True))

    def close(self) -> None:
        if self._pending is not None:
            self._pending.backfill.close()
        self._threads.close()
        for each in self.workers:
            each.close()

    def _refresh(self, pending: Sequence[Mapping[str, Sequence[Op]]] = ()) -> None:
        """Include the operators that were compiled since, except those of a pending plan, which each worker has."""
        for number, each in enumerate(self.workers):
            each.refresh(pending[number] if pending else {})

    def _compile(self, plans: Mapping[str, Collection]) -> list[Added]:
        """Compile more plans into the programs of all workers."""
        with self._recorded(digests_of(plans)):
            nodes = {name: each.node for name, each in plans.items()}
            added = [compile_into(each, nodes) for each in self._compiled()]
            link(self._compiled())
        self.schemas |= {name: each.schema for name, each in plans.items()}
        return added

    @contextmanager
    def _recorded(self, step: Step) -> Iterator[None]:
        """Record a change of the programs, by which a saved state can be restored."""
        steps, self.steps = self.steps, None
        before = [] if steps is None else self.images.words()
        yield
        if steps is not None:
            self.images.update(before)
            steps.append(step)
            self.steps = steps

    def replay(self, steps: Iterable[Step], plans: Mapping[str, Collection]) -> None:
        """Change the programs as those of a saved state were changed. plans: by their digests."""
        for step in steps:
            if all(step.values()):
                self._compile({name: plans[digest] for name, digest in step.items()}) if step else self._drop_unused()
            else:
                self._retire(*step)
        self._refresh()

    def _retire(self, name: str) -> None:
        """Remove a plan from the programs, and all parts that no other plan uses."""
        self.schemas.pop(name, None)
        with self._recorded({name: ""}):
            for each in self._compiled():
                each.retire(name)

    def _drop_unused(self) -> None:
        with self._recorded({}):
            for each in self._compiled():
                each.drop_unused()

    def refuse_unsettled(self) -> None:
        """Refuse to save a state that lies between two times, or whose program was changed halfway or very often."""
        self.worker.refuse_after_failure()
        self._refuse_pending()
        if self._holds.active:
            raise DeltamarkError("a time is held", self._holds.active[0].time, "release the hold first")
        actual = "an error has stopped a compilation" if self.steps is None else ""
        dropped = sum("" in step.values() for step in self.steps or ())
        spare = RETIRED + len(self.schemas)  # some of the present plans had to be attached twice
        if dropped > spare and dropped > spare + self.state_bytes() // RETIRED_BYTES:
            actual = f"plans were retired {dropped} times, and restoring compiles each again"
        if actual:
            raise DeltamarkError("a state that cannot be saved", actual, "begin anew with the present plans")

    def _refuse_to_begin(self, name: str, history: History, time: int) -> None:
        self.worker.refuse_after_failure()
        self._refuse_pending()
        if name in self.schemas:
            raise DeltamarkError("a plan of this name is attached", name, "retire it first, or choose another name")
        if time < 0:
            _refuse_rows(history)

    def _begin(self, name: str, plan: Collection, history: History, time: int) -> Backfill:
        """Compile a plan, and prepare its backfill from a time on."""
        known, shared = set(self.worker.bindings), [list(each.arrangements) for each in self._compiled()]
        added = self._compile({name: plan})
        self._refresh([{name: each.ops} for each in added])
        self._refuse_unread(added[0], time)
        inputs = self._inputs(added[0], history, shared) if time >= 0 else {}
        new = []
        for number, (worker, each) in enumerate(zip(self.workers, added, strict=True)):
            of_inputs = [rows.workers[number] for rows in inputs.values() if isinstance(rows, ArrangedRows)]
            read = [*each.existing, *of_inputs]
            if time < self.worker.last:
                for of in read:
                    self._holds[number].log_of(of, time)
            new.append(NewOperators(worker, self._holds[number], each, read, Scratch(worker.program.memory)))
        bound = [self._slices(new, input_, rows, time, counted=input_ in known) for input_, rows in inputs.items()]
        return Backfill(name, plan, new, threads=self._threads, holds=self._holds, time=time, inputs=bound)

    def _advance_backfill(self, pending: PendingPlan) -> None:
        """Continue the pending backfill; if that completes it, let the plan run with the others."""
        if pending.backfill.work(pending.fuel):
            self._end_backfill(pending)
            self._refresh()
            pending.is_complete = True

    def _end_backfill(self, pending: PendingPlan) -> None:
        pending.backfill.close()
        self._holds.is_pinned = False
        self.release(pending.held)
        for each in self._compiled():
            each.lent = set()
        self._drop_unused()

    def _finished(self) -> Backfill | None:
        """Return the backfill that is complete, after a feed; its plan is pending no more."""
        if self._pending is None or not self._pending.is_complete:
            return None
        finished, self._pending = self._pending.backfill, None
        return finished

    def _compact(self) -> None:
        """Compact the updates that no hold needs, unless an earlier error has left them at different times."""
        if not self.worker.has_failed:
            with self._failing():
                self._holds.compact()

    def _pending_ops(self) -> list[Mapping[str, Sequence[Op]]]:
        if self._pending is None or self._pending.is_complete:
            return []
        return [{self._pending.backfill.name: new.added.ops} for new in self._pending.backfill.new]

    def _refuse_pending(self) -> None:
        if self._pending is not None:
            remedy = "feed until `pending` is None, or retire that plan"
            raise DeltamarkError("another plan is being attached", self._pending.backfill.name, remedy)

    def _or_drop(self, name: str, do: Callable[[], ResultT]) -> ResultT:
        """Compile a plan or continue its backfill; drop the plan if an error, such as Ctrl-C, stops that."""
        try:
            return do()
        except BaseException:
            self._drop(name)
            raise

    def _drop(self, name: str) -> None:
        """Remove a plan, which may be incomplete, and free the state that no other plan uses."""
        with self._failing():
            self.kept.pop(name, None)
            if self._pending is not None and self._pending.backfill.name == name:
                pending, self._pending = self._pending, None
                self._end_backfill(pending)
            self._retire(name)
            self._refresh(self._pending_ops())

    def _refuse_unread(self, added: Added, time: int) -> None:
        """Refuse a plan that needs an input or a column that no plan read in some feed after a held time."""
        for fed in self._holds.fed:
            for name, columns in added.read.items():
                lost = [column for column in columns if column not in fed.inputs.get(name, ())]
                if fed.last > time and (lost or name not in fed.inputs):
                    actual = f"{name}: {', '.join(lost) or 'its rows'}, in the feed up to time {fed.last}"
                    remedy = "keep a plan that reads them from the held time on, or attach without since="
                    raise DeltamarkError("changes that no plan read since then", actual, remedy)

    def _slices(
        self, new: Sequence[NewOperators], input_: str, rows: Rows, time: int, *, counted: bool
    ) -> Generator[None]:
        """Bind an input to one slice of its history after another."""
        columns = new[0].added.read[input_]
        if isinstance(rows, ArrangedRows):
            pieces = [rows_of(each.scratch, of, columns, time) for each, of in zip(new, rows.workers, strict=True)]
            rows = pieces[0] if rows.workers[0].key.place == WHOLE else chain.from_iterable(pieces)
        return slices([each.worker.bindings[input_] for each in new], rows, columns, time, counted=counted)

    def _inputs(self, added: Added, history: History, shared: Sequence[Sequence[SharedArrangement]]) -> dict[str, Rows]:
        """Return for each input the arrangement of each worker that has its rows, or the batches that are given."""
        sources: dict[str, Rows] = {}
        lacking: dict[str, Sequence[str]] = {}
        for name, columns in added.read.items():
            texts, node = set(self.worker.bindings[name].texts), self.compiled.inputs[name].node
            found = [None if texts & set(columns) else arranged(each, node, columns) for each in shared]
            if name in history:
                sources[name] = history[name]
            elif found[0] is not None:
                sources[name] = ArrangedRows([each for each in found if each is not None])
            else:
                lacking[name] = columns
        if lacking:
            raise NoHistoryError(lacking)
        return sources


def _refuse_rows(history: History) -> None:
    """Refuse rows of history before the first feed."""
    for name, batches in history.items():
        rows = sum(len(each.diff) for each in batches)
        if rows:
            remedy = "feed these rows: the dataflow has missed nothing"
            raise DeltamarkError("a history before the first feed", f"{name}: {rows} rows", remedy)


def digests_of(plans: Mapping[str, Collection]) -> Step:
    """Return the digests of plans, by name."""
    return {name: each.node.digest.hex() for name, each in plans.items()}


def present_plans(steps: Iterable[Step]) -> Step:
    """Return the digests of the plans that are compiled and not retired, by name."""
    found = dict[str, str]()
    for step in steps:
        found |= step
    return {name: digest for name, digest in found.items() if digest}
