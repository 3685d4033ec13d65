"""A finding: what a suite has measured of one row of one of its tables, or why it could not. One JSON object a line.

A cell is what is measured in one go, and may have several rows. `cell` compares across time; `key` also says by what
it was measured (data, code, versions), and decides what is already done.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

from harness.record import Origin, key_of

VERSION = 1

Figures = dict[str, list[float]]
"""Seconds, bytes and numbers by name; each is a list with an entry a timed run."""

Status = Literal["ok", "wrong", "failed"]


@dataclass(frozen=True)
class Finding:
    row: str
    figures: Figures = field(default_factory=dict)
    said: str = ""
    """What is no number."""
    verified: str = ""
    """Who gave the same answers."""
    suite: str = ""
    of: str = ""
    """What was measured: a graph, TPC-H at a scale factor."""
    table: str = ""
    status: Status = "ok"
    problem: str = ""
    asked: int = 0
    """How many timed runs were asked for."""
    control: float = 0.0
    """What the fixed work of harness/control.py took, just before."""
    took: float = 0.0
    """What the cell took in all."""
    data: str = ""
    code: str = ""
    versions: str = ""
    commit: str = ""
    session: str = ""
    at: str = ""
    version: int = VERSION
    cell: str = ""
    key: str = ""

    def least(self, figure: str) -> float:
        return min(self.figures[figure])

    @property
    def is_bad(self) -> bool:
        return self.status != "ok"


@dataclass(frozen=True)
class Task:
    """A cell to be measured. part: what it is of its table; measure: yields rows with figures, or raises an error."""

    table: str
    of: str
    part: str
    data: str
    measure: Callable[[], Iterable[Finding]]

    def blank(self, suite: str, origin: Origin) -> Finding:
        """Return its finding before it is measured."""
        cell = " ".join(filter(None, (suite, self.of, self.table, self.part)))
        by = replace(origin, data=self.data)
        return Finding(
            self.part or self.table,
            suite=suite,
            of=self.of,
            table=self.table,
            cell=cell,
            key=key_of(cell, by),
            **asdict(by),
        )


def to_line(finding: Finding) -> str:
    return json.dumps(asdict(finding), separators=(",", ":")) + "\n"


def from_json(raw: Mapping[str, Any]) -> Finding | None:
    """Read a finding; None where it is of another version."""
    if raw.get("version") != VERSION:
        return None
    return Finding(**{each.name: raw[each.name] for each in fields(Finding) if each.name in raw})


def latest(findings: Iterable[Finding]) -> list[Finding]:
    """Return what was found last of each cell, in the order in which cells were first measured."""
    found: dict[str, list[Finding]] = {}
    for each in findings:
        of_cell = found.setdefault(each.cell, [])
        if of_cell and of_cell[-1].at != each.at:
            of_cell.clear()
        of_cell.append(each)
    return [each for of_cell in found.values() for each in of_cell]
