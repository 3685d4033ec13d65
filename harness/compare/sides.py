"""The sides of a comparison, as users name them: a commit, an engine, or a commit of the repository of an engine.

A commit of this repository is measured by its own harness: its measurement server runs its own queries and clock. An
engine, and a program that was built from a commit of its own repository, are measured by this one. Both sides must
measure in the same way: otherwise a ratio would compare the ways of measuring.
"""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Literal, Protocol, TypeVar

from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import DEFAULT
from deltamark.harness.benchmarks.cell import AnyCell, Cell, MotifCell
from deltamark.harness.compare.rule import Sample
from deltamark.harness.compare.trees import DIRECTORY, SideName, Tree, trees
from deltamark.harness.console.console import say
from deltamark.harness.engines.base import PROGRAM
from deltamark.harness.engines.external import named
from deltamark.harness.engines.external.program import split
from deltamark.harness.engines.registry import BUILT_IN, capabilities, known_engine
from deltamark.harness.measure.client import CellRequest, MeasurementClient, Reply, SampleReply
from deltamark.harness.measure.windows import inner_times
from deltamark.harness.results.record import MEASURING, Status
from deltamark.harness.system import machine

ComparedSuite = Literal["tpch", "graph"]


SERVERS: Mapping[ComparedSuite, str] = {
    "tpch": "deltamark.harness.measure.server", "graph": "deltamark.harness.compare.motifs",
}  # fmt: skip
"""The modules of a tree that serve measurements."""


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
        request = CellRequest(cell, 1, self.limit, tuple(rounds), tuple(times))
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
        client = stack.enter_context(closing(MeasurementClient(directory, spec.server, spec.root)))
        return ServedSide(spec, client, limit, benchmark)

    @contextmanager
    def open_sides() -> Iterator[Sides]:
        with ExitStack() as stack:
            both = [served(spec, directory, stack) for spec, directory in data.items()]
            with ThreadPoolExecutor() as pool:
                list(pool.map(ServedSide.open, both))
            yield {side.spec.name: side for side in both}

    return open_sides


@dataclass(frozen=True)
class CellSettings:
    """Settings of a side's cells; those that are empty or 0 are as in the cell."""

    engine: str = ""
    workers: int = 0
    variant: str = ""

    def applied(self, cell: AnyCell) -> AnyCell:
        return cell if isinstance(cell, MotifCell) else self.on_query(cell)

    def on_query(self, cell: Cell) -> Cell:
        return cell.but(
            engine=self.engine or cell.engine,
            workers=self.workers or cell.workers,
            variant=self.variant or cell.variant,
        )

    def __str__(self) -> str:
        workers = f"{self.workers} worker{'s' if self.workers != 1 else ''}" if self.workers else ""
        return ", ".join(filter(None, (workers, self.variant and f"variant {self.variant}")))


@dataclass(frozen=True)
class SideSpec:
    """A side: the source tree that measures it, the module of its server, and settings of its cells."""

    name: SideName
    label: str
    root: Path
    server: str
    settings: CellSettings = field(default_factory=CellSettings)


@dataclass(frozen=True)
class OwnRepository:
    """A repository of an engine: the command of a shell that builds a commit, and the program that is then there."""

    directory: Path
    build: str
    program: str

    def engine(self, tree: Tree) -> str:
        """Build a commit; return the name of the engine."""
        if self.build:
            self._build(tree)
        first, *others = split(self.program)
        own = tree.root / first
        return known_engine(f"{PROGRAM}{shlex.join([str(own) if own.exists() else first, *others])}")

    def _build(self, tree: Tree) -> None:
        """Run the command. Its output is a file, because a process that it leaves behind would keep a pipe open."""
        say(f"building {tree.label}: {self.build}")
        with tempfile.TemporaryFile() as output:
            built = subprocess.run(  # noqa: S602 (the command is the user's own)
                self.build, shell=True, cwd=tree.root, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, check=False,
            )  # fmt: skip
            output.seek(0)
            lines = output.read().decode(errors="replace").strip().splitlines()
        if built.returncode:
            problem = lines[-1] if lines else f"exit code {built.returncode}"
            raise DeltamarkError(f"{tree.label} cannot be built", problem, f"run in {tree.root}: {self.build}")


def is_engine(reference: str) -> bool:
    """Return whether the name of a side is one of an engine; others name commits."""
    return reference in BUILT_IN or named.is_external(reference)


@dataclass(frozen=True)
class SideRequest:
    """A side as a user names it. reference: a commit, an engine, or nothing for the current work tree."""

    reference: str
    settings: CellSettings = field(default_factory=CellSettings)


@contextmanager
def sides(
    repository: Path, base: SideRequest, head: SideRequest, suite: ComparedSuite, own: OwnRepository | None = None
) -> Iterator[tuple[SideSpec, SideSpec]]:
    """Prepare both sides. own: the repository whose commits they are, if that is not this one."""
    requests: dict[SideName, SideRequest] = {"base": base, "head": head}
    commits = {name: each.reference for name, each in requests.items() if not is_engine(each.reference)}
    for name in {*requests} - {*commits}:
        engine = known_engine(requests[name].reference)  # a misspelt one is an error before anything is checked out
        if suite == "graph":
            raise DeltamarkError(
                "motifs are compared between commits", engine, "name commits, or leave out SUITE=graph"
            )
    with trees(repository / DIRECTORY, own.directory if own else repository, commits) as checked_out:
        specs = [_spec(name, each, checked_out.get(name), suite, own) for name, each in requests.items()]
        yield specs[0], specs[1]


def refuse_benchmark(sides: Iterable[SideSpec], benchmark: str) -> None:
    """Raise an error if the tree of a side knows no benchmark but TPC-H."""
    for side in sides:
        if not side.root.joinpath("deltamark", "harness", "benchmarks").exists():
            raise DeltamarkError(
                f"{side.label} knows TPC-H alone", benchmark, "name a later commit, or leave BENCHMARK out"
            )


def _spec(
    name: SideName, request: SideRequest, tree: Tree | None, suite: ComparedSuite, own: OwnRepository | None
) -> SideSpec:
    settings, server = request.settings, SERVERS[suite]
    if tree is not None and own is None:
        if not tree.root.joinpath(*server.split(".")).with_suffix(".py").exists():
            raise DeltamarkError(f"{tree.label} cannot be measured", f"it has no {server}", "name a later commit")
        return SideSpec(name, _label(tree.label, settings), tree.root, server, settings)
    if tree is not None and own is not None:
        label, engine = tree.label, own.engine(tree)
    else:
        label, engine = f"{name} ({request.reference})", known_engine(request.reference)
    return SideSpec(name, _label(label, settings), machine.ROOT, server, replace(settings, engine=engine))


def _label(label: str, settings: CellSettings) -> str:
    return f"{label[:-1]}, {settings})" if str(settings) else label
