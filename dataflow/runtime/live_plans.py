"""Live plans: several plans that are maintained as one program, on one worker or several.

A Dataflow makes every call exclusive, and this is all that lies between it and the worker that runs the program.
`one_worker` and `worker_group` say how a feed is run. What only one worker can do is refused here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import NoReturn, TypeVar

from deltamark.dataflow.batch import Batch, EachBatch, Times
from deltamark.dataflow.codegen.compiled import Compiled
from deltamark.dataflow.codegen.compiler import compile_plans
from deltamark.dataflow.explain import StateSizes
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.runtime.worker import Worker
from deltamark.errors import DeltamarkError, unknown

StateT = TypeVar("StateT")
ReadT = TypeVar("ReadT")

History = Mapping[str, Iterable[Batch]]
"""The live rows of inputs as of a time."""

Counts = dict[str, Sequence[int]]
"""The number of changes of each answer that each worker has collected."""


@dataclass(eq=False)
class HeldTime:
    """A logical time that is held."""

    time: int


class LivePlans(ABC):
    """The plans of a dataflow. Equal parts of plans are computed once, and kept once. See Dataflow for the methods.

    >>> with closing(OneWorker({"answer": sales.count()})) as plans:
    ...     plans.feed({"sales": batch})["answer"]
    Batch of 1 change
     time  diff  count
        0     1      1
    """

    def __init__(self, plans: Mapping[str, Collection], workers: int) -> None:
        self.worker = Worker(compile_plans({name: each.node for name, each in plans.items()}, workers))
        """The worker of this process, which is the first one."""
        self.schemas = {name: each.schema for name, each in plans.items()}

    @property
    def compiled(self) -> Compiled:
        return self.worker.compiled

    @property
    def inputs(self) -> dict[str, tuple[str, ...]]:
        return self.worker.inputs

    def feed(self, batches: Mapping[str, Batch]) -> dict[str, Batch]:
        return {name: self._collected(name, each) for name, each in self._run(batches, drop=False).items()}

    def push(self, batches: Mapping[str, Batch]) -> int:
        return sum(map(sum, self._run(batches, drop=True).values()))

    def feed_each(self, batches: Mapping[str, Batch], ends: Times) -> tuple[dict[str, Batch], EachBatch]:
        started = perf_counter_ns()  # the checks of all batches count for the first
        counts, each = self._run_each(batches, ends, started=started, drop=False)
        return {name: self._collected(name, rows) for name, rows in counts.items()}, each

    def push_each(self, batches: Mapping[str, Batch], ends: Times) -> EachBatch:
        started = perf_counter_ns()
        return self._run_each(batches, ends, started=started, drop=True)[1]

    def retire(self, name: str) -> None:
        if name not in self.schemas:
            raise unknown("plan", name, self.schemas)
        self._drop(name)

    @property
    def pending(self) -> str | None:
        """The name of the plan that is being attached over several feeds."""
        return None

    @abstractmethod
    def _run(self, batches: Mapping[str, Batch], *, drop: bool) -> Counts:
        """Check batches, and run the program over them. drop: count the changes without collecting them."""

    @abstractmethod
    def _run_each(
        self, batches: Mapping[str, Batch], ends: Times, *, started: int, drop: bool
    ) -> tuple[Counts, EachBatch]:
        """Run the program over one batch after another. started: when the call began, in nanoseconds."""

    @abstractmethod
    def _collected(self, name: str, counts: Sequence[int]) -> Batch:
        """Return the changes of an answer that all workers have collected."""

    @abstractmethod
    def _drop(self, name: str) -> None:
        """Remove a plan, and free the state that no other plan uses."""

    @abstractmethod
    def state_rows(self) -> int: ...

    @abstractmethod
    def state_bytes(self) -> int: ...

    @abstractmethod
    def state_sizes(self) -> StateSizes:
        """Return the rows and bytes that each part of the program keeps, at all workers."""

    @abstractmethod
    def close(self) -> None: ...

    def attach(
        self, name: str, plan: Collection, history: History, *, since: HeldTime | None, fuel: int | None
    ) -> Batch:
        """Attach a plan at once or, with fuel, over the next feeds: see Dataflow.

        Several workers refuse it: a plan has memory that workers share, which must exist before they are forked.
        """
        del plan, history, since, fuel
        self._refuse("attach", name)

    def hold(self) -> HeldTime:
        """Hold the last time that was fed. Several workers refuse it, because they attach no plans."""
        self._refuse("hold")

    def advance(self, held: HeldTime, time: int) -> None:
        """Hold a later time instead."""
        self._refuse("advance", held, time)

    def release(self, held: HeldTime) -> None:
        """End a hold. Ending it again does nothing."""
        self._refuse("release", held)

    def profile(self) -> None:
        """Measure each operator. Several workers refuse it: an operator that runs alone would measure their waits."""
        self._refuse("profile")

    def states(self, kind: type[StateT], read: Callable[[StateT], ReadT]) -> list[ReadT]:
        """Return what a function reads from each state of one type. The states of other workers are out of reach."""
        self._refuse("states", kind, read)

    def _refuse(self, method: str, *_arguments: object) -> NoReturn:
        actual = f"workers={self.compiled.program.workers}"
        raise DeltamarkError(f"{method} needs one worker", actual, "open it with workers=1")
