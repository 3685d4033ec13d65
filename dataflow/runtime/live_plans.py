"""Live plans: several plans that one worker maintains as one program; they are attached and retired between feeds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from deltamark.dataflow.batch import Batch, EachBatch, Pointers, Times, concatenated
from deltamark.dataflow.builder.program import Op, wait_alone
from deltamark.dataflow.codegen.compiled import Compiled, SharedArrangement
from deltamark.dataflow.codegen.compiler import Added, compile_into, compile_plans
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.runtime.backfill import Backfill
from deltamark.dataflow.runtime.batch_checks import accept_ends
from deltamark.dataflow.runtime.history import arranged, rows_of
from deltamark.dataflow.runtime.read_holds import FedBatches, Hold, ReadHolds
from deltamark.dataflow.runtime.worker import Worker
from deltamark.errors import DeltamarkError, unknown

MIN_FUEL = 2
"""The least fuel, in pieces of work: a replayed batch costs half of the fuel, which must be at least one piece."""

History = Mapping[str, Iterable[Batch]]
"""The live rows of inputs as of a time."""

Rows = SharedArrangement | Iterable[Batch]
"""The rows of an input: in an arrangement that has them, or in batches that are given."""


class LivePlans:
    """The plans of a dataflow on one worker. Equal parts of plans are computed once, and kept once."""

    def __init__(self, plans: Mapping[str, Collection]) -> None:
        self.worker = Worker(compile_plans({name: each.node for name, each in plans.items()}))
        self.schemas = {name: each.schema for name, each in plans.items()}
        self._holds = ReadHolds(self.worker.compiled)
        self._backfill: Backfill | None = None
        self._fuel = 0

    @property
    def compiled(self) -> Compiled:
        return self.worker.compiled

    @property
    def inputs(self) -> dict[str, tuple[str, ...]]:
        return self.worker.inputs

    def feed(self, batches: Mapping[str, Batch]) -> dict[str, Batch]:
        finished = None if self._backfill is None else self._advance_backfill()
        changes = {name: self.worker.changes(name, rows) for name, rows in self._run(batches, drop=False).items()}
        if finished is not None:
            changes[finished.name] = concatenated([finished.answer, changes[finished.name]])
        return changes

    def push(self, batches: Mapping[str, Batch]) -> int:
        finished = None if self._backfill is None else self._advance_backfill()
        changes = sum(self._run(batches, drop=True).values())
        return changes if finished is None else changes + len(finished.answer.time)

    def feed_each(self, batches: Mapping[str, Batch], ends: Times) -> tuple[dict[str, Batch], EachBatch]:
        counts, each = self._run_each(batches, ends, drop=False)
        return {name: self.worker.changes(name, rows) for name, rows in counts.items()}, each

    def push_each(self, batches: Mapping[str, Batch], ends: Times) -> EachBatch:
        return self._run_each(batches, ends, drop=True)[1]

    def _run_each(self, batches: Mapping[str, Batch], ends: Times, *, drop: bool) -> tuple[dict[str, int], EachBatch]:
        started = time.perf_counter_ns()  # the checks of all batches count for the first
        self.worker.refuse_after_failure()
        self._refuse_pending()
        times = accept_ends(ends, self.worker.last)
        return self.worker.run_each(self._checked(batches, int(times[-1])), times, started=started, drop=drop)

    def _run(self, batches: Mapping[str, Batch], *, drop: bool) -> dict[str, int]:
        return self.worker.run(self._checked(batches), wait_alone, drop=drop)

    def _checked(self, batches: Mapping[str, Batch], end: int | None = None) -> dict[str, Pointers]:
        pointers = self.worker.checked(batches, end)
        if self._holds.active:
            self._holds.fed.append(FedBatches(self.worker.last, pointers, self.worker.inputs))
        return pointers

    def attach(self, name: str, plan: Collection, history: History, since: Hold | None) -> Batch:
        """Attach a plan at once; return its answer as of the last fed time, or as of a hold with its changes since."""
        backfill = self._begin(name, plan, history, self.worker.last if since is None else since.time)
        with self._or_retire(name):
            while not backfill.work():
                pass
        self.worker.refresh()
        return backfill.answer

    def attach_incrementally(self, name: str, plan: Collection, history: History, fuel: int) -> None:
        """Attach a plan over the next feeds, each of which does `fuel` pieces of the work first."""
        if fuel < MIN_FUEL:
            raise DeltamarkError("too little fuel", fuel, f"give at least {MIN_FUEL}")
        if self.worker.last < 0:
            self.attach(name, plan, history, None)
            return
        self._backfill = self._begin(name, plan, history, self.worker.last)
        self._hold, self._fuel = self._holds.hold(self.worker.last, self._backfill.shared), fuel
        self._holds.is_pinned = True
        self.compiled.lent = {each.part for each in self._backfill.shared}

    @property
    def pending(self) -> str | None:
        """The name of the plan that is being attached over several feeds."""
        return None if self._backfill is None else self._backfill.name

    def hold(self) -> Hold:
        """Hold the last time that was fed."""
        self._refuse_pending()
        if self.worker.last < 0:
            raise DeltamarkError("no time to hold", "nothing was fed", "feed something first")
        return self._holds.hold(self.worker.last, self.compiled.arrangements)

    def retire(self, name: str) -> None:
        """Remove a plan, and free the state that no other plan uses."""
        if name not in self.schemas:
            raise unknown("plan", name, self.schemas)
        del self.schemas[name]
        if self.pending == name:
            self._finish_backfill()
        self.compiled.retire(name)
        self.worker.refresh(self._pending_ops())

    def state_rows(self) -> int:
        return self.worker.state_rows()

    def close(self) -> None:
        self.worker.close()

    def _begin(self, name: str, plan: Collection, history: History, time: int) -> Backfill:
        """Compile a plan, and prepare its backfill from a time on."""
        self._refuse_pending()
        if name in self.schemas:
            raise DeltamarkError("a plan of this name is attached", name, "retire it first, or choose another name")
        if time < 0:
            _refuse_rows(history)
        known, kept = set(self.worker.bindings), list(self.compiled.arrangements)
        added = compile_into(self.compiled, {name: plan.node})
        self.schemas[name] = plan.schema
        with self._or_retire(name):
            self.worker.refresh({name: added.ops})
            self._refuse_unread(added, time)
            inputs = self._inputs(added, history, kept) if time >= 0 else {}
            shared = [*added.existing, *(each for each in inputs.values() if isinstance(each, SharedArrangement))]
            if time < self.worker.last:
                for each in shared:
                    self._holds.log_of(each, time)
            slices = []
            for read, where in inputs.items():
                columns = added.read[read]
                rows = self._rows(where, columns, time)
                slices.append(self.worker.bindings[read].slices(rows, columns, time, counted=read in known))
            return Backfill(
                name, plan, added, worker=self.worker, holds=self._holds, time=time, inputs=slices, shared=shared
            )

    def _advance_backfill(self) -> Backfill | None:
        """Continue the pending backfill; return it if that completes it."""
        backfill = self._backfill
        assert backfill is not None
        with self._or_retire(backfill.name):
            if not backfill.work(self._fuel):
                return None
        self._finish_backfill()
        self.worker.refresh()
        return backfill

    def _finish_backfill(self) -> None:
        self._backfill, self._holds.is_pinned = None, False
        self._hold.release()
        self.compiled.lent = set()
        self.compiled.drop_unused()

    def _pending_ops(self) -> dict[str, Sequence[Op]]:
        return {} if self._backfill is None else {self._backfill.name: self._backfill.ops}

    def _refuse_pending(self) -> None:
        if self._backfill is not None:
            remedy = "feed until `pending` is None, or retire that plan"
            raise DeltamarkError("another plan is being attached", self._backfill.name, remedy)

    @contextmanager
    def _or_retire(self, name: str) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.retire(name)
            raise

    def _refuse_unread(self, added: Added, time: int) -> None:
        """Refuse a plan that needs an input or a column that no plan read in some feed after a held time."""
        for fed in self._holds.fed:
            for name, columns in added.read.items():
                lost = [column for column in columns if column not in fed.inputs.get(name, ())]
                if fed.last > time and (lost or name not in fed.inputs):
                    actual = f"{name}: {', '.join(lost) or 'its rows'}, in the feed up to time {fed.last}"
                    remedy = "keep a plan that reads them from the held time on, or attach without since="
                    raise DeltamarkError("changes that no plan read since then", actual, remedy)

    def _rows(self, source: Rows, columns: Sequence[str], time: int) -> Iterable[Batch]:
        """Return the rows of an input as batches."""
        if isinstance(source, SharedArrangement):
            return rows_of(self.compiled.program.memory, source, columns, time)
        return source

    def _inputs(self, added: Added, history: History, kept: Sequence[SharedArrangement]) -> dict[str, Rows]:
        """Return for each input an arrangement that has its rows, or the batches that are given."""
        sources: dict[str, Rows] = {}
        for name, columns in added.read.items():
            texts, node = set(self.worker.bindings[name].texts), self.compiled.inputs[name].node
            arrangement = None if texts & set(columns) else arranged(kept, node, columns)
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
