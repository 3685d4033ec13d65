"""The handles of users: a Dataflow maintains the answers of plans while their inputs change; a Hold is a held time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import methodcaller
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, NoReturn, Self, TypeVar, overload

import pyarrow as pa

from deltamark.dataflow import explain
from deltamark.dataflow.batch import Batch, EachBatch, Times
from deltamark.dataflow.codegen.compiled import ANSWER
from deltamark.dataflow.kernels.core.memory import Uncopied
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.passes.share import Choice
from deltamark.dataflow.runtime.exclusive import Exclusive
from deltamark.dataflow.runtime.live_plans import LivePlans
from deltamark.dataflow.runtime.read_holds import HeldTime
from deltamark.dataflow.runtime.saved_state import restored, save
from deltamark.dataflow.types import Schema
from deltamark.errors import DeltamarkError, naming, unknown

ChangesT = TypeVar("ChangesT", Batch, dict[str, Batch])
StateT = TypeVar("StateT")
ReadT = TypeVar("ReadT")


class Hold(Uncopied):
    """A held logical time: plans can be attached as of this time, or of any later one.

    >>> with Dataflow({"sales": sales.join(shops, on="shop")}) as dataflow:
    ...     dataflow.push({"sales": batch})
    ...     hold = dataflow.hold()
    ...     hold.time
    ...     hold.release()
    0
    0
    """

    def __init__(self, plans: Exclusive[LivePlans], held: HeldTime) -> None:
        self._plans, self.held = plans, held

    @property
    def time(self) -> int:
        """The held time, or the last one that was held."""
        return self.held.time

    def advance(self, time: int) -> None:
        """Hold a later time instead, at most the last one that was fed."""
        self._plans.use(lambda plans: plans.advance(self.held, time))

    def release(self) -> None:
        """End the hold. Releasing again does nothing."""
        self._plans.use(lambda plans: plans.release(self.held))


class Dataflow(Uncopied, Generic[ChangesT]):
    """Maintains one plan, or several plans by name, on one or several workers of this machine.

    `feed` returns the changes of the answer: a Batch for one plan, {name: Batch} for several. Several plans are
    maintained as one: equal parts are computed once, and joins of the same rows by the same key share an arrangement.

    Once it is closed, every other method raises an error, as do those of its holds. Calls of several threads run one
    after another.

    >>> with Dataflow(sales.aggregate(by="shop", revenue=col.price.sum())) as dataflow:
    ...     dataflow.feed({"sales": Batch([0, 0], [1, 1], {"shop": [7, 7], "price": [900, 250]})})
    ...     dataflow.feed({"sales": Batch([1], [-1], {"shop": [7], "price": [250]})})
    Batch of 1 change
     time  diff  shop  revenue
        0     1     7     1150
    Batch of 2 changes
     time  diff  shop  revenue
        1    -1     7     1150
        1     1     7      900
    """

    @overload
    def __init__(self: Dataflow[Batch], plans: Collection, *, workers: int = 1) -> None: ...
    @overload
    def __init__(self: Dataflow[dict[str, Batch]], plans: Mapping[str, Collection], *, workers: int = 1) -> None: ...
    def __init__(self, plans: Collection | Mapping[str, Collection], *, workers: int = 1) -> None:
        self._begin(plans, workers, LivePlans)

    def _begin(
        self, plans: Collection | Mapping[str, Collection], workers: int,
        make: Callable[[Mapping[str, Collection], int], LivePlans],
    ) -> None:  # fmt: skip
        self._only = isinstance(plans, Collection)
        named = {ANSWER: plans} if isinstance(plans, Collection) else _checked(plans)
        self._workers = workers
        self._plans: Exclusive[LivePlans] = Exclusive("dataflow", make(named, workers))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._plans.is_closed:
            return "Dataflow, closed"
        plans = "1 plan" if self._only else f"{len(self.schemas)} plans: {', '.join(self.schemas) or 'none'}"
        workers = f"{self._workers} worker{'s' * (self._workers > 1)}"
        return f"Dataflow of {plans}; inputs: {', '.join(self.inputs) or 'none'}; {workers}"

    @property
    def inputs(self) -> dict[str, tuple[str, ...]]:
        """The inputs that must be fed, and the columns that are read of each.

        >>> Dataflow(sales.count(by="shop")).inputs
        {'sales': ('shop',)}
        """
        return self._plans.use(lambda plans: plans.inputs)

    @property
    def schema(self) -> Schema:
        """The columns of the answer of a dataflow of one plan."""
        if not self._only:
            raise DeltamarkError("a dataflow of named plans", ", ".join(self.schemas), "use schemas[name]")
        return self.schemas[ANSWER]

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """The columns of each answer, by the name of its plan."""
        return self._plans.use(lambda plans: dict(plans.schemas))

    def feed(self, batches: Mapping[str, Batch]) -> ChangesT:
        """Apply changes of inputs; return the changes of the answer, ordered by time.

        A feed completes its logical times: the next one must begin later. The first feed completes time 0 even if it
        has no rows. A batch is checked in full before anything changes.

        >>> with Dataflow({"all": sales, "dear": sales.where(col.price > 5)}) as dataflow:
        ...     dataflow.feed({"sales": Batch([0], [1], {"shop": [7], "price": [400]})})
        {'all': Batch of 1 change
         time  diff  shop  price
            0     1     7    400, 'dear': Batch of 0 changes}
        """
        changes = self._plans.use(lambda plans: plans.feed(batches))
        return changes[ANSWER] if self._only else changes  # type: ignore[return-value]  # as `__init__` declares

    def push(self, batches: Mapping[str, Batch]) -> int:
        """Apply changes as `feed` does, but return only the number of changes of all answers, without copying them.

        >>> with Dataflow(sales) as dataflow:
        ...     dataflow.push({"sales": Batch([0], [1], {"shop": [7], "price": [900]})})
        1
        """
        return self._plans.use(lambda plans: plans.push(batches))

    def feed_each(self, batches: Mapping[str, Batch], ends: Times) -> tuple[ChangesT, EachBatch]:
        """Apply one batch after another as `feed` does; return all changes, and the figures of each batch.

        `batches` holds the rows of all batches. Batch i ends with the logical time `ends[i]`. Compiled code completes a
        batch before it cuts the next, and measures its time. A small batch takes less than a microsecond; a call from
        Python takes several. Of several workers, the last one ends a batch. After an error in a batch, the changes of
        all are lost.

        >>> with Dataflow(sales.count()) as dataflow:
        ...     batch = Batch([0, 1, 1], [1, 1, 1], {"shop": [7, 7, 7], "price": [900, 650, 400]})
        ...     changes, each = dataflow.feed_each({"sales": batch}, ends=[0, 1])
        >>> each.changes
        array([1, 2])
        """
        changes, each = self._plans.use(lambda plans: plans.feed_each(batches, ends))
        return (changes[ANSWER] if self._only else changes), each  # type: ignore[return-value]  # as for `feed`

    def push_each(self, batches: Mapping[str, Batch], ends: Times) -> EachBatch:
        """Apply one batch after another as `feed_each` does, without copying the changes."""
        return self._plans.use(lambda plans: plans.push_each(batches, ends))

    def attach(
        self: Dataflow[dict[str, Batch]], name: str, plan: Collection, *,
        history: Mapping[str, Iterable[Batch]] | None = None, since: Hold | None = None, fuel: int | None = None,
    ) -> Batch:  # fmt: skip
        """Maintain one more plan from now on; return its answer as of the last time that was fed.

        The plan reads existing arrangements. If none contains the rows of an input, `history` must give those that are
        live. Later feeds must have the columns that `inputs` lists after the call.

        since: a hold; return the answer as of its time, and the changes since. `history` is as of that time, too.
        fuel: attach over the next feeds, and return an empty batch. Each feed first does `fuel` pieces of the work, of
        at most 4,096 rows each; the feed that completes it returns the answer and its changes since this call. Until
        then `pending` is the name of the plan, and the arrays of fed batches must not change.

        >>> with Dataflow({"all": sales.join(shops, on="shop")}) as dataflow:
        ...     dataflow.push({"sales": batch, "shops": cities})
        ...     dataflow.attach("cities", sales.join(shops, on="shop").count(by="city"))
        1
        Batch of 1 change
         time  diff  city  count
            0     1     2      1
        """
        if self._only:
            raise DeltamarkError("a dataflow of one plan", name, "name the first plan too: Dataflow({'first': plan})")
        if since is not None and fuel is not None:
            raise DeltamarkError("since= together with fuel=", name, "give one of them")
        held = None if since is None else since.held
        return self._plans.use(lambda plans: plans.attach(name, plan, history or {}, since=held, fuel=fuel))

    @property
    def pending(self) -> str | None:
        """The name of the plan that is being attached with `fuel`, until it is complete."""
        return self._plans.use(lambda plans: plans.pending)

    def retire(self: Dataflow[dict[str, Batch]], name: str) -> None:
        """Stop maintaining a plan, and free the state that no other plan uses.

        >>> with Dataflow({"all": sales, "count": sales.count()}) as dataflow:
        ...     dataflow.retire("count")
        ...     list(dataflow.schemas)
        ['all']
        """
        self._plans.use(lambda plans: plans.retire(name))

    def keep(self, name: str = ANSWER, answer: Batch | None = None) -> None:
        """Keep the present answer of a plan from now on, so that `answer` returns it.

        The changes of each feed are stored until they are summed, when the answer is read or many have come. answer:
        what `attach` has returned for the plan; without it, call this before the first feed.
        """
        self._plans.use(lambda plans: plans.keep(name, answer))

    def answer(self, name: str = ANSWER) -> pa.Table:
        """Return the present answer of a plan that is kept, as a table of Arrow with decimals, dates, texts and NULL.

        Each row occurs as often as its weight. An exact quotient is one column of doubles.

        >>> dataflow = Dataflow(sales.aggregate(by="shop", mean=col.price.mean()))
        >>> dataflow.keep()
        >>> dataflow.push({"sales": Batch([0, 0], [1, 1], {"shop": [7, 7], "price": [900, 250]})})
        1
        >>> dataflow.answer().to_pylist()
        [{'shop': 7, 'mean': 5.75}]
        """
        return self._plans.use(lambda plans: plans.answer(name).values())

    @property
    def has_failed(self) -> bool:
        """Whether an error within a feed has ended this dataflow: it refuses all later feeds."""
        return self._plans.use(lambda plans: plans.worker.has_failed)

    @property
    def last(self) -> int:
        """The last logical time that was fed, -1 before the first."""
        return self._plans.use(lambda plans: plans.worker.last)

    def hold(self) -> Hold:
        """Hold the last time that was fed, so that plans can be attached as of that time: see Hold.

        Until the hold is released fed batches are kept, so their arrays must not change, and updates are not compacted.
        """
        return Hold(self._plans, self._plans.use(lambda plans: plans.hold()))

    def state_rows(self) -> int:
        """Count the rows, groups, keys and texts that are kept between feeds, of all workers."""
        return self._plans.use(lambda plans: plans.state_rows())

    def state_bytes(self) -> int:
        """Count the bytes of the memory that is kept between feeds, of all workers."""
        return self._plans.use(lambda plans: plans.state_bytes())

    @overload
    def states(self, kind: type[object]) -> list[int]: ...
    @overload
    def states(self, kind: type[StateT], read: Callable[[StateT], ReadT]) -> list[ReadT]: ...
    def states(self, kind: type[StateT], read: Callable[[StateT], object] | None = None) -> Sequence[object]:
        """Return what a function reads from each operator's state of one type: by default, its number of rows.

        A state is valid only during the call. Of several workers, each has states of its own.
        """
        return self._plans.use(lambda plans: plans.states(kind, read or methodcaller("rows")))

    def explain(self, name: str | None = None) -> str:
        """Describe the running program as a tree for each answer, with estimated rows, and the rows that are kept.

        These are the rows of all workers. name: the plan whose tree is shown; by default all of them.
        """
        return self._plans.use(lambda plans: _explained(plans, name))

    def profile(self) -> None:
        """Measure each operator from now on; `explain` then shows the changes that it has emitted, and its time.

        Each operator runs over all rows of a feed before the next operator, so feeds of a few thousand rows are the
        fastest. Of several workers the times are added up, and that of an exchange includes the waits for others.
        """
        self._plans.use(lambda plans: plans.profile())

    def sharing(self) -> list[tuple[str, list[str], int, int]]:
        """List the arrangements: for each its rows' origin, the plans that read it, its rows and its bytes."""
        return self._plans.use(lambda plans: explain.sharing(plans.compiled, plans.state_sizes()))

    def choices(self) -> list[tuple[str, Choice]]:
        """List the decisions about arrangements of the same rows that differ in their filters."""
        return self._plans.use(lambda plans: explain.choices(plans.compiled))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file, in place of an earlier one, so that `restore` continues from it.

        The file is as large as the memory that the state takes. A state cannot be saved while a time is held or a plan
        is being attached, nor after plans were retired more often than twenty times and once for each 4 MB of state.
        """
        new = Path(f"{os.fspath(path)}.new")
        with naming(path):
            try:
                with new.open("wb") as file:
                    self._plans.use(lambda plans: save(plans, file))
                new.replace(path)
            finally:
                new.unlink(missing_ok=True)

    @overload
    @classmethod
    def restore(
        cls, path: str | os.PathLike[str], plans: Collection, *, workers: int = 1, retired: Iterable[Collection] = ()
    ) -> Dataflow[Batch]: ...
    @overload
    @classmethod
    def restore(
        cls, path: str | os.PathLike[str], plans: Mapping[str, Collection], *, workers: int = 1,
        retired: Iterable[Collection] = (),
    ) -> Dataflow[dict[str, Batch]]: ...  # fmt: skip
    @classmethod
    def restore(
        cls, path: str | os.PathLike[str], plans: Collection | Mapping[str, Collection], *, workers: int = 1,
        retired: Iterable[Collection] = (),
    ) -> Dataflow[Any]:  # fmt: skip
        """Return a dataflow that continues from a saved state: inputs are not fed again. Answers that were kept are.

        plans, workers: those of the dataflow that was saved. retired: the plans that it had retired before, in any
        order. Another version of the engine, another machine and other plans are refused, and so is a file that is
        damaged. Restore only files that you trust.

        >>> with Dataflow(sales.count()) as dataflow:
        ...     dataflow.push({"sales": Batch([0, 0], [1, 1], {"shop": [7, 7], "price": [900, 250]})})
        ...     dataflow.save("sales.state")
        1
        >>> with Dataflow.restore("sales.state", sales.count()) as dataflow:
        ...     dataflow.feed({"sales": Batch([1], [-1], {"shop": [7], "price": [250]})})
        Batch of 2 changes
         time  diff  count
            1    -1      2
            1     1      1
        """
        dataflow: Dataflow[Any] = cls.__new__(cls)
        with naming(path), Path(path).open("rb") as file:
            dataflow._begin(plans, workers, lambda named, workers: restored(named, retired, workers, file))
        return dataflow

    def close(self) -> None:
        """End the threads of the workers, and release all memory. Closing again does nothing."""
        self._plans.close()


def _explained(plans: LivePlans, name: str | None) -> str:
    if name is not None and name not in plans.schemas:
        raise unknown("plan", name, plans.schemas)
    return explain.explain(plans.compiled, plans.state_sizes(), plans.measurements(), name)


def _checked(plans: object) -> dict[str, Collection]:
    """Return plans by name; refuse any other value."""
    if not isinstance(plans, Mapping):
        _refuse(plans)
    for each in plans.values():
        if not isinstance(each, Collection):
            _refuse(each)
    return dict(plans)


def _refuse(plan: object) -> NoReturn:
    raise DeltamarkError("not a plan", type(plan).__name__, "give a Collection, or {name: Collection, ...}")
