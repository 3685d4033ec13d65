"""A finding: what a suite has measured of one row of one of its tables, or why it could not. One JSON object a line.

A cell is what is measured in one go, and may have several rows; one that has failed has a single one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace

from deltamark.errors import DeltamarkError
from deltamark.harness.results.record import Origin, Result, key_of

Figures = dict[str, list[float]]
"""Seconds, bytes and numbers by name; each is a list with an entry a timed run."""


class AbsentError(KeyError):
    """An older version has measured something else."""


@dataclass(frozen=True)
class Finding(Result):
    row: str
    figures: Figures = field(default_factory=dict)
    said: str = ""
    """What is no number."""
    of: str = ""
    """What was measured: a graph, TPC-H at a scale factor."""
    table: str = ""

    def check(self) -> None:
        for name, values in self.figures.items():
            if not values:
                raise ValueError(f"figures.{name} has no values")

    def least(self, figure: str) -> float:
        if figure not in self.figures:
            raise AbsentError(figure)
        return min(self.figures[figure])

    @property
    def shown(self) -> bool:
        """May its numbers be shown?"""
        return self.status == "ok"


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Task:
    """A cell to be measured, in a process of its own. part: what it is of its table; data: the digest of what it reads;
    measure: yields rows with figures, or raises an error; prepare: reads what cells have in common, and keeps it.
    """

    table: str
    of: str
    part: str
    data: str
    measure: Callable[[], Iterable[Finding]]
    prepare: Callable[[], object] = _nothing

    def blank(self, suite: str, origin: Origin) -> Finding:
        """Return its finding before it is measured."""
        cell = " ".join(filter(None, (suite, self.of, self.table, self.part)))
        by = replace(origin, data=self.data)
        return Finding(
            self.part or self.table, suite=suite, of=self.of, table=self.table, cell=cell, key=key_of(cell, by),
            **asdict(by),
        )  # fmt: skip


@contextmanager
def readable(suite: str) -> Iterator[None]:
    """Turn what goes wrong while findings of a suite are shown into an error: each was read, but they do not fit."""
    try:
        yield
    except (ArithmeticError, LookupError, ValueError) as error:
        remedy = "move findings.jsonl away and measure again; --debug shows more"
        raise DeltamarkError(f"findings of the suite {suite} do not fit together", repr(error), remedy) from error


def latest(findings: Iterable[Finding]) -> list[Finding]:
    """Return what was found last of each cell, in the order in which cells were first measured."""
    found: dict[str, list[Finding]] = {}
    for each in findings:
        of_cell = found.setdefault(each.cell, [])
        if of_cell and of_cell[-1].at != each.at:
            of_cell.clear()
        of_cell.append(each)
    return [each for of_cell in found.values() for each in of_cell]
