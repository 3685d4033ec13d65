"""Several dataflows maintained as one, which come and go while they run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from deltamark.dataflow.batch import Batch, joined
from deltamark.dataflow.codegen.compiled import SharedArrangement
from deltamark.dataflow.codegen.compiler import Added, compile_into
from deltamark.dataflow.codegen.program import Op, nobody
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.plan.explain import choices, sharing
from deltamark.dataflow.plan.sharing import Choice
from deltamark.dataflow.runtime.attach import arranged, rows_of
from deltamark.dataflow.runtime.backfill import CatchUp
from deltamark.dataflow.runtime.read_holds import Fed, Hold, Past
from deltamark.dataflow.runtime.worker import Maintained
from deltamark.errors import DeltamarkError, unknown

LEAST_FUEL = 2

History = Mapping[str, Iterable[Batch]]
"""The rows of inputs that are live as of a time."""


class Together(Maintained):
    """What the plans have in common is computed once, and kept once."""

    def __init__(self, collections: Mapping[str, Collection]) -> None:
        super().__init__({name: each.node for name, each in collections.items()})
        self.schemas = {name: each.schema for name, each in collections.items()}
        self._past = Past(self._shard.compiled)
        self._coming: CatchUp | None = None

    def feed_all(self, batches: Mapping[str, Batch]) -> dict[str, Batch]:
        """Apply whole logical times, later than all before; return what changed in each answer, in order of time."""
        arrived = self._come()
        changes = self._run(batches, drop=False)
        found = {name: self._shard.answer(0, rows, name) for name, rows in changes.items()}
        return found | {name: joined([*answers, found[name]]) for name, answers in arrived.items()}

    def push_all(self, batches: Mapping[str, Batch]) -> dict[str, int]:
        """Do as `feed_all` does, but only count the changes of the answers."""
        arrived = self._come()
        found = self._run(batches, drop=True)
        changes = {name: sum(len(each.time) for each in answers) for name, answers in arrived.items()}
        return found | {name: found[name] + count for name, count in changes.items()}

    def _run(self, batches: Mapping[str, Batch], *, drop: bool) -> dict[str, int]:
        pointers = self._shard.checked(batches)
        if self._past.is_held:
            self._past.keep(Fed(self._shard.last, pointers, self.inputs))
        return self._shard.run(pointers, nobody, drop=drop)

    def attach(
        self, name: str, collection: Collection, history: History | None = None, since: Hold | None = None
    ) -> Batch:
        """Maintain one more dataflow from now on; return its answer at the last time that was fed.

        It shares the arrangements that are there. Where it needs rows that none of them has, `history` gives those of
        an input that are live. From now on feeds must have the columns that `inputs` names. Since a time that is held:
        return the answer as of then, and what has changed in it; `history` is as of then, too.
        """
        coming = self._begin(name, collection, history or {}, self._shard.last if since is None else since.time)
        with self._or_retire(name):
            while not coming.work():
                pass
        self._shard.refresh()
        return joined(coming.answers)

    def approach(self, name: str, collection: Collection, history: History | None = None, *, fuel: int) -> None:
        """Attach a dataflow bit by bit: each feed first does `fuel` pieces of the work, of a slice of rows each.

        When history is done, two feeds of those since then are seen again instead. Once all is done, the feed returns
        the answer as of now, and what has changed in it since. Until then the arrays of batches must not change.
        """
        if fuel < LEAST_FUEL:
            raise DeltamarkError("too little fuel", fuel, f"give at least {LEAST_FUEL}")
        if self._shard.last < 0:
            self.attach(name, collection, history)
            return
        self._coming = self._begin(name, collection, history or {}, self._shard.last)
        self._hold, self._fuel = self._past.hold(self._shard.last, self._coming.shared), fuel
        self._past.pinned = True

    @property
    def coming(self) -> str | None:
        """The dataflow that comes bit by bit, until it is there."""
        return None if self._coming is None else self._coming.name

    def hold(self) -> Hold:
        """Hold the last time that was fed: until it is let go, dataflows can be attached as of then.

        Until then batches are kept, so their arrays must not change.
        """
        self._alone()
        if self._shard.last < 0:
            raise DeltamarkError("there is no past", "nothing was fed", "hold a time once something was")
        return self._past.hold(self._shard.last, self._shard.compiled.arrangements)

    def retire(self, name: str) -> None:
        """Maintain a dataflow no more, and give back what only it needed."""
        if name not in self.schemas:
            raise unknown("dataflow", name, self.schemas)
        del self.schemas[name]
        if self._coming is not None and self._coming.name == name:
            self._arrive()
        self._shard.compiled.retire(name)
        self._shard.refresh(self._behind())

    def sharing(self) -> list[tuple[str, list[str], int, int]]:
        """List the arrangements: what each is of, which dataflows read it, its rows and its bytes."""
        return sharing(self._shard.compiled)

    def choices(self) -> list[tuple[str, Choice]]:
        """List what was weighed of arrangements that differ in their filters, by what they are of."""
        return choices(self._shard.compiled)

    def _begin(self, name: str, collection: Collection, history: History, time: int) -> CatchUp:
        """Compile a dataflow, and be ready to bring it from a time to where the others are."""
        self._alone()
        if name in self.schemas:
            raise DeltamarkError(
                "a dataflow of this name is there", name, "retire it first, or name this one otherwise"
            )
        if time < 0:
            _refuse_rows(history)
        known, kept = set(self._shard.inputs), list(self._shard.compiled.arrangements)
        added = compile_into(self._shard.compiled, {name: collection.node})
        self.schemas[name] = collection.schema
        with self._or_retire(name):
            self._shard.refresh({name: added.ops})
            self._refuse_unread(added, time)
            inputs = self._inputs(added, history, kept) if time >= 0 else {}
            shared = [*added.existing, *(each for each in inputs.values() if isinstance(each, SharedArrangement))]
            if time < self._shard.last:
                for each in shared:
                    self._past.log(each, time)
            memory = self._shard.compiled.program.memory
            slices = []
            for read, where in inputs.items():
                rows = rows_of(memory, where, added.read[read], time) if isinstance(where, SharedArrangement) else where
                aim = self._shard.inputs[read]
                slices.append(aim.slices(rows, added.read[read], time, counted=read in known))
            return CatchUp(self._shard, self._past, name, collection, added, time, slices, shared)

    def _come(self) -> dict[str, Sequence[Batch]]:
        """Go on with a dataflow that comes bit by bit; return the parts of its answer once it is there."""
        coming = self._coming
        if coming is None:
            return {}
        with self._or_retire(coming.name):
            if not coming.work(self._fuel):
                return {}
        self._arrive()
        self._shard.refresh()
        return {coming.name: coming.answers}

    def _arrive(self) -> None:
        self._coming, self._past.pinned = None, False
        self._hold.release()

    def _behind(self) -> dict[str, Sequence[Op]]:
        return {} if self._coming is None else {self._coming.name: self._coming.ops}

    def _alone(self) -> None:
        if self._coming is not None:
            raise DeltamarkError("a dataflow is coming", self._coming.name, "feed until it is there, or retire it")

    @contextmanager
    def _or_retire(self, name: str) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.retire(name)
            raise

    def _refuse_unread(self, added: Added, time: int) -> None:
        """Refuse a dataflow that reads what could not be fed at some time since the one it begins with."""
        for fed in self._past.fed:
            for name, columns in added.read.items():
                lost = [column for column in columns if column not in fed.inputs.get(name, ())]
                if fed.last > time and (lost or name not in fed.inputs):
                    actual = f"{name}: {', '.join(lost) or 'its rows'}, in the feed up to time {fed.last}"
                    remedy = "keep a dataflow that reads them from the held time on, or attach as of now"
                    raise DeltamarkError("changes that nobody read since then", actual, remedy)

    def _inputs(
        self, added: Added, history: History, kept: Sequence[SharedArrangement]
    ) -> dict[str, SharedArrangement | Iterable[Batch]]:
        """Return where the rows of inputs are: in batches that are given, or in an arrangement."""
        found: dict[str, SharedArrangement | Iterable[Batch]] = {}
        for name, columns in added.read.items():
            texts, node = set(self._shard.inputs[name].texts), self._shard.compiled.inputs[name].node
            there = None if texts & set(columns) else arranged(kept, node, columns)
            if name not in history and there is None:
                actual = f"{name}: {', '.join(columns) or 'its rows'}"
                raise DeltamarkError("no arrangement has these rows", actual, "give the live ones as history")
            found[name] = history[name] if name in history or there is None else there
        return found


def _refuse_rows(history: History) -> None:
    """Refuse rows of a time before all times."""
    for name, batches in history.items():
        rows = sum(len(each.diff) for each in batches)
        if rows:
            remedy = "feed these rows: the dataflow has missed nothing"
            raise DeltamarkError("a history before the first feed", f"{name}: {rows} rows", remedy)
