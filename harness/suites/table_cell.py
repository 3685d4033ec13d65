"""Cells that yield rows of a table, and the measurer that runs each of them in a child of this process."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs
from msgspec.structs import replace

from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import DEFAULT_ENGINE, Cell
from deltamark.harness.check.answers import unordered_difference
from deltamark.harness.engines.base import TOLERANCE, Row
from deltamark.harness.engines.registry import external_info
from deltamark.harness.measure import child
from deltamark.harness.results.record import Origin, Record, TableRow, key_of
from deltamark.harness.suites.plan import BenchmarkCell, Plan
from deltamark.harness.system import machine
from deltamark.harness.system.clock import control_seconds


class WrongAnswerError(DeltamarkError):
    """Two algorithms disagree about an answer."""


def refuse_difference(mine: Sequence[Row], theirs: Sequence[Row], where: str, tests: str) -> None:
    """Raise an error if an answer differs from DuckDB's. where: names it; tests: a file of tests on small data."""
    if wrong := unordered_difference(mine, theirs, TOLERANCE):
        raise WrongAnswerError(
            "a wrong answer", f"{where}\n{wrong}", f"pytest {tests} tells whether small data is right"
        )


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class TableCell:
    """A cell of a table. part: its name within the table, if there are several."""

    suite: str
    table: str
    dataset: str
    part: str
    data: str
    """The digest of the data."""
    measure: Callable[[], Iterable[TableRow]]
    """Yields rows with figures, or raises an error. Runs in the child."""
    prepare: Callable[[], object] = _nothing
    """Reads and caches the data that several cells share. Runs in the parent."""
    verified: str = ""
    """The check that every answer of `measure` has passed."""
    engine: str = DEFAULT_ENGINE

    def blank(self, origin: Origin) -> Record:
        name = " ".join(filter(None, (self.suite, self.dataset, self.table, self.part)))
        return Record(
            suite=self.suite, params={"dataset": self.dataset, "table": self.table, "row": self.part or self.table},
            cell=name, data=self.data, key=key_of(name, self.data, origin), **structs.asdict(origin),
        )  # fmt: skip


def data_digest(directory: Path, cell: Cell) -> str:
    """Return the digests of the data, of the file of the query and, for an external engine, of its program."""
    external = external_info(cell.engine)
    more = [cell.digest, *([external.name, external.digest] if external else [])]
    return " ".join([machine.data(directory), *filter(None, more)])


@dataclass(frozen=True)
class ForkingMeasurer:
    """Measures each cell in a child, so that a time-out, a crash or a lack of memory becomes the cell's record."""

    plan: Plan

    def measure(self, cell: BenchmarkCell, following: BenchmarkCell | None) -> list[Record]:  # noqa: ARG002
        assert isinstance(cell, TableCell)
        blank = replace(self.plan.blank(cell), control=control_seconds())
        try:
            cell.prepare()
            gc.freeze()  # a collection in the child would copy the parent's pages
            return child.run_in_child(lambda _: _measured(cell, blank), self.plan.effort.limit)
        except child.LimitError as error:
            return [replace(blank, status="timeout", problem=str(error))]
        except (ChildProcessError, DeltamarkError) as error:
            return [replace(blank, status="failed", problem=str(error))]
        finally:
            gc.unfreeze()


@contextmanager
def forking(plan: Plan, warm: Callable[[], None]) -> Iterator[ForkingMeasurer]:
    """Measure in children, which inherit compiled kernels. warm: compiles or loads them."""
    warm()
    yield ForkingMeasurer(plan)


def _measured(cell: TableCell, blank: Record) -> list[Record]:
    done = replace(blank, verified=cell.verified)
    try:
        rows = [
            replace(done, params={**blank.params, "row": name}, figures=figures, note=note)
            for name, figures, note in cell.measure()
        ]
    except WrongAnswerError as error:
        return [replace(blank, status="wrong", problem=str(error))]
    except DeltamarkError as error:
        return [replace(blank, status="failed", problem=str(error))]
    return rows or [done]
