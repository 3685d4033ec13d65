"""Several dataflows maintained as one, which come and go while they run."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from dataflow.attach import History, arranged_rows
from dataflow.collection import Collection
from dataflow.compile import Added, compile_into
from dataflow.compiled import Kept
from dataflow.explain import sharing
from dataflow.plan import walk
from dataflow.worker import Batch, Maintained
from deltamark import DeltamarkError, unknown


class Together(Maintained):
    """What the plans have in common is computed once, and kept once."""

    def __init__(self, collections: Mapping[str, Collection]) -> None:
        super().__init__({name: each.node for name, each in collections.items()})
        self.schemas = {name: each.schema for name, each in collections.items()}

    def feed_all(self, batches: Mapping[str, Batch]) -> dict[str, Batch]:
        """Apply whole logical times, later than all before; return what changed in each answer, in order of time."""
        changes = self._run(batches, drop=False)
        return {name: self._shard.answer(0, rows, name) for name, rows in changes.items()}

    def push_all(self, batches: Mapping[str, Batch]) -> dict[str, int]:
        """Do as `feed_all` does, but only count the changes of the answers."""
        return self._run(batches, drop=True)

    def attach(self, name: str, collection: Collection, history: Mapping[str, Iterable[Batch]] | None = None) -> Batch:
        """Maintain one more dataflow from now on; return its answer at the last time that was fed.

        It shares the arrangements that are there. Where it needs rows that none of them has, `history` gives those of
        an input that are live. From now on feeds must have the columns that `inputs` names.
        """
        if name in self.schemas:
            raise DeltamarkError(
                "a dataflow of this name is there", name, "retire it first, or name this one otherwise"
            )
        known, kept = set(self._shard.inputs), list(self._shard.compiled.kept)
        added = compile_into(self._shard.compiled, {name: collection.node})
        self.schemas[name] = collection.schema
        try:
            self._shard.refresh()
            self._catch_up(collection, added, self._slices(added, history or {}, known, kept))
        except BaseException:
            self.retire(name)
            raise
        return self._shard.settled(name, self._last)

    def retire(self, name: str) -> None:
        """Maintain a dataflow no more, and give back what only it needed."""
        if name not in self.schemas:
            raise unknown("dataflow", name, self.schemas)
        del self.schemas[name]
        self._shard.compiled.retire(name)
        self._shard.refresh()

    def sharing(self) -> list[tuple[str, list[str], int, int]]:
        """List the arrangements: what each is of, which dataflows read it, its rows and its bytes."""
        return sharing(self._shard.compiled)

    def _catch_up(self, collection: Collection, added: Added, inputs: Iterable[Iterator[None]]) -> None:
        """Bring what was added to the last time that was fed."""
        if self._last >= 0:
            subtracts = any(each.op == "negate" for each in walk(collection.node))
            history = History(self._shard.compiled.program, added.ops, subtracts=subtracts)
            for _ in history.steps(inputs, self._last):
                pass

    def _slices(
        self, added: Added, history: Mapping[str, Iterable[Batch]], known: Container[str], kept: Sequence[Kept]
    ) -> Iterator[Iterator[None]]:
        """Have the inputs aimed at the rows that are live: those that are given, or those of an arrangement."""
        for name, columns in added.read.items():
            batches: Iterable[Batch] = history[name] if name in history else self._held(name, columns, kept)
            if name not in known:
                batches = self._begun(name, batches)
            yield self._shard.inputs[name].slices(batches, columns, self._last)

    def _begun(self, name: str, batches: Iterable[Batch]) -> Iterator[Batch]:
        for batch in batches:
            self._shard.inputs[name].begin(int(batch.diff.sum()))
            yield batch

    def _held(self, name: str, columns: Sequence[str], kept: Sequence[Kept]) -> Iterator[Batch]:
        """Read an input's rows from an arrangement."""
        aim, node = self._shard.inputs[name], self._shard.compiled.inputs[name].node
        found = None if set(columns) & set(aim.texts) else arranged_rows(kept, node, columns)
        if found is None:
            actual = f"{name}: {', '.join(columns) or 'its rows'}"
            raise DeltamarkError("no arrangement has these rows", actual, "give the live ones as history")
        return (Batch(rows[""], rows.pop(""), rows) for rows in found)
