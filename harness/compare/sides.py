"""The sides of a comparison, as users name them: a commit, an engine, or a commit of the repository of an engine.

A commit of this repository is measured by its own harness. An engine, and a program that was built from a commit of its
own repository, are measured by this one.
"""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from deltamark.errors import DeltamarkError
from deltamark.harness.compare.layouts import LAYOUTS, ComparedSuite, Layout
from deltamark.harness.compare.trees import DIRECTORY, SideName, Tree, trees
from deltamark.harness.console.console import say
from deltamark.harness.engines.base import PROGRAM
from deltamark.harness.engines.external import named
from deltamark.harness.engines.external.program import split
from deltamark.harness.engines.registry import BUILT_IN, known_engine
from deltamark.harness.measure.cell import AnyCell, Cell, MotifCell
from deltamark.harness.results import machine


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
    """A side: the source tree whose server measures it, the layout of the tree, and settings of its cells."""

    name: SideName
    label: str
    root: Path
    layout: Layout
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
    settings = request.settings
    if tree is not None and own is None:
        return SideSpec(name, _label(tree.label, settings), tree.root, _layout(tree, suite), settings)
    if tree is not None and own is not None:
        label, engine = tree.label, own.engine(tree)
    else:
        label, engine = f"{name} ({request.reference})", known_engine(request.reference)
    return SideSpec(name, _label(label, settings), machine.ROOT, LAYOUTS[suite][0], replace(settings, engine=engine))


def _label(label: str, settings: CellSettings) -> str:
    return f"{label[:-1]}, {settings})" if str(settings) else label


def _layout(tree: Tree, suite: ComparedSuite) -> Layout:
    """Return the newest known layout that fits a work tree."""
    for layout in LAYOUTS[suite]:
        if layout.fits(tree.root):
            return layout
    modules = " nor ".join(layout.server for layout in LAYOUTS[suite])
    raise DeltamarkError(f"{tree.label} cannot be measured", f"it has neither {modules}", "name a later commit")
