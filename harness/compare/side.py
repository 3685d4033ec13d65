"""A side: the measurement server of a work tree (harness/measure/server.py), which measures with its own code and runs
its own queries.

Both must measure alike, or their numbers would say something of the measuring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from deltamark.errors import DeltamarkError
from deltamark.harness.compare.rule import Sample
from deltamark.harness.compare.trees import Name, Tree
from deltamark.harness.measure.cell import AnyCell
from deltamark.harness.measure.client import MeasurementClient, ServerSpec
from deltamark.harness.measure.messages import CellRequest, Reply, SampleReply
from deltamark.harness.results.record import MEASURING

R = TypeVar("R", bound=Reply)


class SideError(Exception):
    """A cell that a side could not do, or did wrong."""

    def __init__(self, side: Name, problem: str) -> None:
        super().__init__(problem)
        self.side, self.problem = side, problem


class Side(Protocol):
    def check(self, cell: AnyCell, rounds: list[int]) -> str:
        """Compare a cell's answers with DuckDB's after some numbers of rounds, or its counts with those by hand; return
        the digest of its changes, or the counts.
        """
        ...

    def sample(self, cell: AnyCell) -> Sample: ...


Sides = Mapping[Name, Side]

Opened = Callable[[], AbstractContextManager[Sides]]
"""Opens both anew."""


@dataclass(frozen=True)
class TreeSide:
    """A side that is measured in its work tree."""

    tree: Tree
    client: MeasurementClient
    limit: float

    def open(self) -> None:
        reply = self._named(self.client.warm)
        if reply.measuring != MEASURING:
            actual = f"its measuring code has the number {reply.measuring}, not {MEASURING}"
            raise DeltamarkError(f"{self.tree.label} does not compare", actual, "name commits that measure alike")

    def check(self, cell: AnyCell, rounds: list[int]) -> str:
        self._done(lambda: self.client.ask(cell, rounds, self.limit))
        request = CellRequest(cell, sample=0, runs=1, limit=self.limit, compare=tuple(rounds))
        return self._done(lambda: self.client.cell(request)).digest

    def sample(self, cell: AnyCell) -> Sample:
        reply: SampleReply = self._done(lambda: self.client.sample(cell, self.limit))
        return {"time": reply.time, "state": reply.state, "peak": reply.peak}

    def _done(self, request: Callable[[], R]) -> R:
        """Return a reply; raise a SideError if it has no figures."""
        reply = self._named(request)
        if reply.status != "ok":
            raise SideError(self.tree.name, f"{reply.status}: {reply.problem}")
        return reply

    def _named(self, request: Callable[[], R]) -> R:
        """Return a reply; name the side in an error."""
        try:
            return request()
        except DeltamarkError as error:
            raise DeltamarkError(f"{self.tree.label}: {error.cause}", error.actual, error.remedy) from error


def opener(trees: tuple[Tree, Tree], spec: ServerSpec, limit: float) -> Opened:
    """Return what opens both sides over the same data."""

    @contextmanager
    def opened() -> Iterator[Sides]:
        with ExitStack() as stack:
            sides = [TreeSide(tree, stack.enter_context(MeasurementClient(spec, tree.root)), limit) for tree in trees]
            with ThreadPoolExecutor() as both:
                list(both.map(TreeSide.open, sides))
            yield {side.tree.name: side for side in sides}

    return opened
