"""Dataflow: maintains the answers of plans while their inputs change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import methodcaller
from types import TracebackType
from typing import Generic, NoReturn, Self, TypeVar, overload

from deltamark.dataflow import explain
from deltamark.dataflow.batch import Batch, EachBatch, Times
from deltamark.dataflow.codegen.compiled import ANSWER
from deltamark.dataflow.kernels.core.memory import Uncopied
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.passes.share import Choice
from deltamark.dataflow.runtime.exclusive import Exclusive
from deltamark.dataflow.runtime.hold import Hold
from deltamark.dataflow.runtime.live_plans import LivePlans
from deltamark.dataflow.runtime.worker_group import WorkerGroup
from deltamark.dataflow.types import Schema
from deltamark.errors import DeltamarkError

ChangesT = TypeVar("ChangesT", Batch, dict[str, Batch])
StateT = TypeVar("StateT")
ReadT = TypeVar("ReadT")


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
        self._only = isinstance(plans, Collection)
        named = {ANSWER: plans} if isinstance(plans, Collection) else _checked(plans)
        self._workers = workers
        self._live = Exclusive("dataflow", LivePlans(named)) if workers == 1 else None
        self._runtime: Exclusive[LivePlans] | Exclusive[WorkerGroup] = (
            self._live if self._live is not None else Exclusive("dataflow", WorkerGroup(named, workers))
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._runtime.is_closed:
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
        return self._runtime.use(lambda runtime: runtime.inputs)

    @property
    def schema(self) -> Schema:
        """The columns of the answer of a dataflow of one plan."""
        if not self._only:
            raise DeltamarkError("a dataflow of named plans", ", ".join(self.schemas), "use schemas[name]")
        return self.schemas[ANSWER]

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """The columns of each answer, by the name of its plan."""
        return self._runtime.use(lambda runtime: dict(runtime.schemas))

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
        changes = self._runtime.use(lambda runtime: runtime.feed(batches))
        return changes[ANSWER] if self._only else changes  # type: ignore[return-value]  # as `__init__` declares

    def push(self, batches: Mapping[str, Batch]) -> int:
        """Apply changes as `feed` does, but return only the number of changes of all answers, without copying them.

        >>> with Dataflow(sales) as dataflow:
        ...     dataflow.push({"sales": Batch([0], [1], {"shop": [7], "price": [900]})})
        1
        """
        return self._runtime.use(lambda runtime: runtime.push(batches))

    def feed_each(self, batches: Mapping[str, Batch], ends: Times) -> tuple[ChangesT, EachBatch]:
        """Apply one batch after another as `feed` does; return all changes, and the figures of each batch.

        `batches` holds the rows of all batches. Batch i ends with the logical time `ends[i]`. Compiled code completes a
        batch before it cuts the next, and measures its time. A small batch takes less than a microsecond; a call from
        Python takes several. It needs one worker. After an error in a batch, the changes of all are lost.

        >>> with Dataflow(sales.count()) as dataflow:
        ...     batch = Batch([0, 1, 1], [1, 1, 1], {"shop": [7, 7, 7], "price": [900, 650, 400]})
        ...     changes, each = dataflow.feed_each({"sales": batch}, ends=[0, 1])
        >>> each.changes
        array([1, 2])
        """
        changes, each = self._alone("feed_each").use(lambda live: live.feed_each(batches, ends))
        return (changes[ANSWER] if self._only else changes), each  # type: ignore[return-value]  # as for `feed`

    def push_each(self, batches: Mapping[str, Batch], ends: Times) -> EachBatch:
        """Apply one batch after another as `feed_each` does, without copying the changes."""
        return self._alone("push_each").use(lambda live: live.push_each(batches, ends))

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
        live = self._alone("attach")
        if self._only:
            raise DeltamarkError("a dataflow of one plan", name, "name the first plan too: Dataflow({'first': plan})")
        if fuel is None:
            held = None if since is None else since.held
            return live.use(lambda live: live.attach(name, plan, history or {}, held))
        if since is not None:
            raise DeltamarkError("since= together with fuel=", name, "give one of them")
        return live.use(lambda live: live.attach_incrementally(name, plan, history or {}, fuel))

    @property
    def pending(self) -> str | None:
        """The name of the plan that is being attached with `fuel`, until it is complete."""
        return self._runtime.use(lambda runtime: runtime.pending)

    def retire(self: Dataflow[dict[str, Batch]], name: str) -> None:
        """Stop maintaining a plan, and free the state that no other plan uses.

        >>> with Dataflow({"all": sales, "count": sales.count()}) as dataflow:
        ...     dataflow.retire("count")
        ...     list(dataflow.schemas)
        ['all']
        """
        self._alone("retire").use(lambda live: live.retire(name))

    def hold(self) -> Hold:
        """Hold the last time that was fed, so that plans can be attached as of that time: see Hold.

        Until the hold is released fed batches are kept, so their arrays must not change, and updates are not compacted.
        """
        live = self._alone("hold")
        return Hold(live, live.use(lambda live: live.hold()))

    def state_rows(self) -> int:
        """Count the rows, groups, keys and texts that are kept between feeds, of all workers."""
        return self._runtime.use(lambda runtime: runtime.state_rows())

    def state_bytes(self) -> int:
        """Count the bytes of the memory that is kept between feeds."""
        return self._alone("state_bytes").use(lambda live: live.worker.state_bytes())

    @overload
    def states(self, kind: type[object]) -> list[int]: ...
    @overload
    def states(self, kind: type[StateT], read: Callable[[StateT], ReadT]) -> list[ReadT]: ...
    def states(self, kind: type[StateT], read: Callable[[StateT], object] | None = None) -> Sequence[object]:
        """Return what a function reads from each operator's state of one type: by default, its number of rows.

        A state is valid only during the call.
        """
        return self._alone("states").use(lambda live: live.worker.states(kind, read or methodcaller("rows")))

    def explain(self) -> str:
        """Describe the running program as a tree for each answer, with estimated rows, and the rows that are kept."""
        return self._runtime.use(lambda runtime: explain.explain(runtime.compiled, runtime.worker.measurements()))

    def profile(self) -> None:
        """Measure each operator from now on; `explain` then shows the changes that it has emitted, and its time.

        Each operator runs over all rows of a feed before the next operator, so feeds of a few thousand rows are the
        fastest.
        """
        self._alone("profile").use(lambda live: live.worker.profile())

    def sharing(self) -> list[tuple[str, list[str], int, int]]:
        """List the arrangements: for each its rows' origin, the plans that read it, its rows and its bytes."""
        return self._runtime.use(lambda runtime: explain.sharing(runtime.compiled))

    def choices(self) -> list[tuple[str, Choice]]:
        """List the decisions about arrangements of the same rows that differ in their filters."""
        return self._runtime.use(lambda runtime: explain.choices(runtime.compiled))

    def close(self) -> None:
        """End the other workers, and release all memory. Closing again does nothing."""
        self._runtime.close()

    def _alone(self, what: str) -> Exclusive[LivePlans]:
        """Return the live plans of the only worker; raise an error if there are several workers."""
        if self._live is None:
            raise DeltamarkError(f"{what} needs one worker", f"workers={self._workers}", "open it with workers=1")
        return self._live


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
