"""A side: the warm parent of a work tree (harness/measure/server.py), which measures with its own code and runs its own
queries.

Both must measure alike, or their numbers would say something of the measuring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from deltamark.errors import DeltamarkError
from deltamark.harness.compare.rule import Sample
from deltamark.harness.compare.trees import Name, Tree
from deltamark.harness.measure.cell import AnyCell
from deltamark.harness.measure.client import CellRequest, Measuring, Warm
from deltamark.harness.results.record import MEASURING


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
    warm: Warm
    limit: float

    def open(self) -> None:
        reply = self._said(self.warm.warm)
        if reply.get("measuring") != MEASURING:
            actual = f"its measuring code has the number {reply.get('measuring')}, not {MEASURING}"
            raise DeltamarkError(f"{self.tree.label} does not compare", actual, "name commits that measure alike")

    def check(self, cell: AnyCell, rounds: list[int]) -> str:
        self._done(lambda: self.warm.ask(cell, rounds, self.limit))
        request = CellRequest(cell, sample=0, runs=1, limit=self.limit, compare=tuple(rounds))
        found = self._done(lambda: self.warm.cell(request))
        return str(found["digest"])

    def sample(self, cell: AnyCell) -> Sample:
        return self._done(lambda: self.warm.sample(cell, self.limit))

    def _done(self, request: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        reply = self._said(request)
        if reply["status"] != "ok":
            raise SideError(self.tree.name, f"{reply['status']}: {reply['problem']}")
        return reply

    def _said(self, request: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        try:
            return request()
        except DeltamarkError as error:
            raise DeltamarkError(f"{self.tree.label}: {error.cause}", error.actual, error.remedy) from error


def opener(data: Mapping[Tree, Path], limit: float) -> Opened:
    """Return a function that opens each tree over the directory of its data."""

    def side(tree: Tree, directory: Path, stack: ExitStack) -> TreeSide:
        return TreeSide(tree, stack.enter_context(Warm(Measuring(directory, tree.layout.server), tree.root)), limit)

    @contextmanager
    def opened() -> Iterator[Sides]:
        with ExitStack() as stack:
            sides = [side(tree, directory, stack) for tree, directory in data.items()]
            with ThreadPoolExecutor() as both:
                list(both.map(TreeSide.open, sides))
            yield {side.tree.name: side for side in sides}

    return opened
