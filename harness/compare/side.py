"""A side of a comparison: the measurement server of a source tree, which runs the tree's own queries and clock.

Both sides must measure in the same way: otherwise a ratio would compare the ways of measuring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Protocol, TypeVar

from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import DEFAULT
from deltamark.harness.compare.rule import Sample
from deltamark.harness.compare.sides import SideSpec
from deltamark.harness.compare.trees import SideName
from deltamark.harness.engines.registry import capabilities
from deltamark.harness.measure.cell import AnyCell, Cell, MotifCell
from deltamark.harness.measure.client import MeasurementClient, ServerSpec
from deltamark.harness.measure.messages import CellRequest, Reply, SampleReply
from deltamark.harness.measure.windows import inner_times
from deltamark.harness.results.record import MEASURING, Status

R = TypeVar("R", bound=Reply)


class SideError(Exception):
    """A cell has no figures on a side: it failed, had a wrong answer, or the engine refused it."""

    def __init__(self, side: SideName, status: Status, problem: str) -> None:
        super().__init__(problem)
        self.side, self.status, self.problem = side, status, problem


class Side(Protocol):
    def check(self, cell: AnyCell, rounds: list[int]) -> str:
        """Compare a query's answers with DuckDB's after some numbers of rounds, or a motif's count with the expected
        one; return the digest of the changes, or the counts.
        """
        ...

    def sample(self, cell: AnyCell) -> Sample: ...


Sides = Mapping[SideName, Side]

OpenSides = Callable[[], AbstractContextManager[Sides]]
"""Starts both sides, in new processes."""


@dataclass(frozen=True)
class ServedSide:
    """A side and its server. limit: seconds for a request; benchmark: that of the cells."""

    spec: SideSpec
    client: MeasurementClient
    limit: float
    benchmark: str = DEFAULT

    def open(self) -> None:
        """Warm the server up; refuse one that measures in another way."""
        reply = self._reply(lambda: self.client.warm(self.benchmark))
        if reply.measuring != MEASURING:
            actual = f"its measuring code has the number {reply.measuring}, not {MEASURING}"
            raise DeltamarkError(f"{self.spec.label} does not compare", actual, "name commits that measure alike")

    def check(self, cell: AnyCell, rounds: list[int]) -> str:
        cell = self.spec.settings.applied(cell)
        times = _times_inside(cell, rounds)
        moments = [(cell.logical, time) for time in times] if isinstance(cell, Cell) else []
        self._successful(cell, lambda: self.client.oracle_answers(cell, rounds, self.limit, moments))
        request = CellRequest(cell, 0, 1, self.limit, tuple(rounds), tuple(times))
        return self._successful(cell, lambda: self.client.cell(request)).digest

    def sample(self, cell: AnyCell) -> Sample:
        own = self.spec.settings.applied(cell)
        reply: SampleReply = self._successful(own, lambda: self.client.sample(own, self.limit))
        return {"time": reply.time, "state": reply.state, "rows": reply.rows, "peak": reply.peak}

    def _successful(self, cell: AnyCell, request: Callable[[], R]) -> R:
        """Return a reply about a cell; raise a SideError if it has no figures."""
        reply = self._reply(request)
        if reply.status != "ok":
            problem = f"{reply.status}: {reply.problem}"
            again = "" if self.spec.settings.engine else f"\n{cell.again}"
            raise SideError(self.spec.name, reply.status, f"{problem}{again}")
        return reply

    def _reply(self, request: Callable[[], R]) -> R:
        """Return a reply; name the side in an error."""
        try:
            return request()
        except DeltamarkError as error:
            raise DeltamarkError(f"{self.spec.label}: {error.cause}", error.actual, error.remedy) from error


def _times_inside(cell: AnyCell, rounds: list[int]) -> list[int]:
    """Draw logical times inside batches, if the cell has a change stream. rounds: the last one is the end."""
    if isinstance(cell, MotifCell) or not capabilities(cell.engine).has_stream:
        return []
    return inner_times(cell, range(rounds[-1]), Random())  # noqa: S311 (no secret)


def opener(data: Mapping[SideSpec, Path], limit: float, benchmark: str = DEFAULT) -> OpenSides:
    """Return a function that starts each side's server over the directory of its data."""

    def served(spec: SideSpec, directory: Path, stack: ExitStack) -> ServedSide:
        server = ServerSpec(directory, spec.layout.server)
        return ServedSide(spec, stack.enter_context(closing(MeasurementClient(server, spec.root))), limit, benchmark)

    @contextmanager
    def open_sides() -> Iterator[Sides]:
        with ExitStack() as stack:
            both = [served(spec, directory, stack) for spec, directory in data.items()]
            with ThreadPoolExecutor() as pool:
                list(pool.map(ServedSide.open, both))
            yield {side.spec.name: side for side in both}

    return open_sides
