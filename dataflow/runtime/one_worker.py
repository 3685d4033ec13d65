"""Plans on one worker. Between feeds plans are attached and retired, and times are held.

A plan that is attached is compiled into the program that runs, and brought to the present: see `backfill`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from typing import TypeVar

from deltamark.dataflow.batch import Batch, EachBatch, Pointers, Times, concatenated
from deltamark.dataflow.builder.program import Op
from deltamark.dataflow.codegen.compiled import SharedArrangement
from deltamark.dataflow.codegen.compiler import Added, compile_into
from deltamark.dataflow.explain import StateSizes, state_sizes
from deltamark.dataflow.kernels.core.memory import Scratch
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.runtime.backfill import Backfill, PendingPlan, arranged, rows_of
from deltamark.dataflow.runtime.inputs import accept_ends
from deltamark.dataflow.runtime.live_plans import Counts, HeldTime, History, LivePlans, ReadT, StateT
from deltamark.dataflow.runtime.read_holds import FedBatches, ReadHolds
from deltamark.errors import DeltamarkError

ResultT = TypeVar("ResultT")

MIN_FUEL = 2
"""The least fuel, in pieces of work: a replayed batch costs half of the fuel, which must be at least one piece."""

Rows = SharedArrangement | Iterable[Batch]
"""The rows of an input: in an arrangement that has them, or in batches that are given."""


class OneWorker(LivePlans):
    """The plans of a dataflow that this process runs alone."""

    def __init__(self, plans: Mapping[str, Collection]) -> None:
        super().__init__(plans, 1)
        self._holds = ReadHolds(self.compiled)
        self._pending: PendingPlan | None = None

    def feed(self, batches: Mapping[str, Batch]) -> dict[str, Batch]:
        changes = super().feed(batches)
        if (finished := self._finished()) is not None:
            changes[finished.name] = concatenated([finished.answer, changes[finished.name]])
        return changes

    def push(self, batches: Mapping[str, Batch]) -> int:
        changes = super().push(batches)
        return changes if (finished := self._finished()) is None else changes + len(finished.answer.time)

    def _run(self, batches: Mapping[str, Batch], *, drop: bool) -> Counts:
        pending = self._pending
        if pending is not None and not pending.is_complete:
            self.worker.refuse_after_failure()
            self._or_drop(pending.backfill.name, lambda: self._advance_backfill(pending))
        return {name: (rows,) for name, rows in self.worker.run(self._checked(batches), drop=drop).items()}

    def _run_each(
        self, batches: Mapping[str, Batch], ends: Times, *, started: int, drop: bool
    ) -> tuple[Counts, EachBatch]:
        self.worker.refuse_after_failure()
        self.worker.refuse_after_profile()
        self._refuse_pending()
        times = accept_ends(ends, self.worker.last)
        pointers = self._checked(batches, int(times[-1]))
        counts, each = self.worker.run_each(pointers, times, started=started, drop=drop)
        return {name: (rows,) for name, rows in counts.items()}, each

    def _collected(self, name: str, counts: Sequence[int]) -> Batch:
        (rows,) = counts
        return self.worker.changes(name, rows)

    def _checked(self, batches: Mapping[str, Batch], end: int | None = None) -> dict[str, Pointers]:
        pointers = self.worker.checked(batches, end)
        if self._holds.active:
            self._holds.fed.append(FedBatches(self.worker.last, pointers, self.worker.inputs))
        return pointers

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
        self.worker.refresh()
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
        self._pending = PendingPlan(backfill, self._hold(backfill.arrangements), fuel)
        self._holds.is_pinned = True
        self.compiled.lent = {each.part for each in backfill.arrangements}
        return self.worker.changes(name, 0)

    @property
    def pending(self) -> str | None:
        """The name of the plan that is being attached over several feeds."""
        return None if self._pending is None else self._pending.backfill.name

    def hold(self) -> HeldTime:
        """Hold the last time that was fed."""
        self.worker.refuse_after_failure()
        self._refuse_pending()
        if self.worker.last < 0:
            raise DeltamarkError("no time to hold", "nothing was fed", "feed something first")
        return self._hold(self.compiled.arrangements)

    def _hold(self, arrangements: Iterable[SharedArrangement]) -> HeldTime:
        logs = self._holds.logs(arrangements, self.worker.last)
        with self.worker.failing():
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
        return self.worker.state_rows()

    def state_bytes(self) -> int:
        return self.worker.state_bytes()

    def state_sizes(self) -> StateSizes:
        return state_sizes(self.compiled)

    def states(self, kind: type[StateT], read: Callable[[StateT], ReadT]) -> list[ReadT]:
        return self.worker.states(kind, read)

    def profile(self) -> None:
        self.worker.profile()

    def close(self) -> None:
        if self._pending is not None:
            self._pending.backfill.close()
        self.worker.close()

    def _refuse_to_begin(self, name: str, history: History, time: int) -> None:
        self.worker.refuse_after_failure()
        self._refuse_pending()
        if name in self.schemas:
            raise DeltamarkError("a plan of this name is attached", name, "retire it first, or choose another name")
        if time < 0:
            _refuse_rows(history)

    def _begin(self, name: str, plan: Collection, history: History, time: int) -> Backfill:
        """Compile a plan, and prepare its backfill from a time on."""
        known, shared = set(self.worker.bindings), list(self.compiled.arrangements)
        added = compile_into(self.compiled, {name: plan.node})
        self.schemas[name] = plan.schema
        self.worker.refresh({name: added.ops})
        self._refuse_unread(added, time)
        inputs = self._inputs(added, history, shared) if time >= 0 else {}
        read = [*added.existing, *(each for each in inputs.values() if isinstance(each, SharedArrangement))]
        if time < self.worker.last:
            for each in read:
                self._holds.log_of(each, time)
        slices, scratch = [], Scratch(self.compiled.program.memory)
        for input_, where in inputs.items():
            columns = added.read[input_]
            rows = self._rows(where, columns, time, scratch)
            slices.append(self.worker.bindings[input_].slices(rows, columns, time, counted=input_ in known))
        return Backfill(
            name, plan, added, worker=self.worker, holds=self._holds, time=time, inputs=slices, arrangements=read,
            scratch=scratch,
        )  # fmt: skip

    def _advance_backfill(self, pending: PendingPlan) -> None:
        """Continue the pending backfill; if that completes it, let the plan run with the others."""
        if pending.backfill.work(pending.fuel):
            self._end_backfill(pending)
            self.worker.refresh()
            pending.is_complete = True

    def _end_backfill(self, pending: PendingPlan) -> None:
        pending.backfill.close()
        self._holds.is_pinned = False
        self.release(pending.held)
        self.compiled.lent = set()
        self.compiled.drop_unused()

    def _finished(self) -> Backfill | None:
        """Return the backfill that is complete, after a feed; its plan is pending no more."""
        if self._pending is None or not self._pending.is_complete:
            return None
        finished, self._pending = self._pending.backfill, None
        return finished

    def _compact(self) -> None:
        """Compact the updates that no hold needs, unless an earlier error has left them at different times."""
        if not self.worker.has_failed:
            with self.worker.failing():
                self._holds.compact()

    def _pending_ops(self) -> dict[str, Sequence[Op]]:
        if self._pending is None or self._pending.is_complete:
            return {}
        return {self._pending.backfill.name: self._pending.backfill.ops}

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
        with self.worker.failing():
            self.schemas.pop(name, None)
            if self._pending is not None and self._pending.backfill.name == name:
                pending, self._pending = self._pending, None
                self._end_backfill(pending)
            self.compiled.retire(name)
            self.worker.refresh(self._pending_ops())

    def _refuse_unread(self, added: Added, time: int) -> None:
        """Refuse a plan that needs an input or a column that no plan read in some feed after a held time."""
        for fed in self._holds.fed:
            for name, columns in added.read.items():
                lost = [column for column in columns if column not in fed.inputs.get(name, ())]
                if fed.last > time and (lost or name not in fed.inputs):
                    actual = f"{name}: {', '.join(lost) or 'its rows'}, in the feed up to time {fed.last}"
                    remedy = "keep a plan that reads them from the held time on, or attach without since="
                    raise DeltamarkError("changes that no plan read since then", actual, remedy)

    def _rows(self, source: Rows, columns: Sequence[str], time: int, scratch: Scratch) -> Iterable[Batch]:
        """Return the rows of an input as batches."""
        if isinstance(source, SharedArrangement):
            return rows_of(scratch, source, columns, time)
        return source

    def _inputs(self, added: Added, history: History, shared: Sequence[SharedArrangement]) -> dict[str, Rows]:
        """Return for each input an arrangement that has its rows, or the batches that are given."""
        sources: dict[str, Rows] = {}
        for name, columns in added.read.items():
            texts, node = set(self.worker.bindings[name].texts), self.compiled.inputs[name].node
            arrangement = None if texts & set(columns) else arranged(shared, node, columns)
            if name in history:
                sources[name] = history[name]
            elif arrangement is not None:
                sources[name] = arrangement
            else:
                actual = f"{name}: {', '.join(columns) or 'its rows'}"
                remedy = "give the live rows: history={" + repr(name) + ": [Batch(...)]}"
                raise DeltamarkError("no arrangement has these rows", actual, remedy)
        return sources


def _refuse_rows(history: History) -> None:
    """Refuse rows of history before the first feed."""
    for name, batches in history.items():
        rows = sum(len(each.diff) for each in batches)
        if rows:
            remedy = "feed these rows: the dataflow has missed nothing"
            raise DeltamarkError("a history before the first feed", f"{name}: {rows} rows", remedy)
