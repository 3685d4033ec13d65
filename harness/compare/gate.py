"""The gate: checks, screens and confirms (harness/compare/__init__.py), whatever the sides are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Literal

from deltamark.harness.compare import rule
from deltamark.harness.compare.rule import QUANTITIES, SCREEN, TIME, Finding, Pair, Quantity
from deltamark.harness.compare.side import Opened, SideError, Sides
from deltamark.harness.compare.trees import Name
from deltamark.harness.measure.cell import AnyCell
from deltamark.harness.measure.stats import median

Report = Callable[[str, int, int], None]
Unit = tuple[AnyCell, ...]
"""What is judged as one: a cell, or the cells of a row."""

ORDERS: tuple[tuple[Name, Name], ...] = (("base", "head"), ("head", "base"))
"""Of the sides, by turns."""


Verdict = Literal["wrong", "interrupted", "regression", "undecided", "improvement", "unchanged"]
EXIT_CODES: Mapping[Verdict, int] = {
    "wrong": 2, "interrupted": 130, "regression": 1, "undecided": 0, "improvement": 0, "unchanged": 0,
}  # fmt: skip


@dataclass(frozen=True)
class Judged:
    cells: Unit
    finding: Finding


@dataclass
class Outcome:
    judged: list[Judged] = field(default_factory=list)
    broken: dict[AnyCell, str] = field(default_factory=dict)
    """What head does wrong."""
    skipped: dict[AnyCell, str] = field(default_factory=dict)
    """What base cannot do, so that there is nothing to compare with."""
    controls: list[float] = field(default_factory=list)
    interrupted: bool = False

    def of(self, verdict: rule.Verdict) -> list[Judged]:
        return [each for each in self.judged if each.finding.verdict == verdict]

    @property
    def undecided(self) -> bool:
        """Is there a cell of which it is not known whether it changed?

        Memory below the least that is judged is small in both commits, and is not counted here; a short time may
        still have doubled.
        """
        short = any(each.finding.quantity == TIME and len(each.cells) == 1 for each in self.of("too small"))
        return bool(short or not self.judged or self.skipped or self.of("inconclusive"))

    @property
    def verdict(self) -> Verdict:
        """The worst of what was found. `unchanged` says that every cell was judged, and that none has changed."""
        found: dict[Verdict, bool] = {
            "wrong": bool(self.broken), "interrupted": self.interrupted, "regression": bool(self.of("regression")),
            "undecided": self.undecided, "improvement": bool(self.of("improvement")), "unchanged": True,
        }  # fmt: skip
        return next(verdict for verdict, holds in found.items() if holds)

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict]


@dataclass
class Gate:
    cells: Mapping[AnyCell, list[int]]
    """With the numbers of rounds after which answers of each are compared with DuckDB's."""
    opened: Opened
    control: Callable[[], float]
    """Does fixed work, and returns its seconds."""
    report: Report
    _screen: dict[AnyCell, list[Pair]] = field(default_factory=dict)
    _fresh: dict[AnyCell, list[Pair]] = field(default_factory=dict)
    _took: dict[AnyCell, list[float]] = field(default_factory=dict)
    _found: Outcome = field(default_factory=Outcome)

    def run(self) -> Outcome:
        try:
            self._check()
            self._pairs("screening", self._screen, dict.fromkeys(self._left(self.cells), SCREEN))
            self._pairs("confirming", self._fresh, self._doubtful())
        except KeyboardInterrupt:
            self._found.interrupted = True
        self._found.judged = [Judged(unit, self._judge(unit, each)) for unit in self._units() for each in QUANTITIES]
        return self._found

    def _check(self) -> None:
        with self.opened() as sides, ThreadPoolExecutor() as both:
            for done, (cell, rounds) in enumerate(self.cells.items()):
                self.report("checking", done, len(self.cells))
                digests = {name: both.submit(side.check, cell, rounds) for name, side in sides.items()}
                wait(digests.values())
                try:
                    head, base = digests["head"].result(), digests["base"].result()
                except SideError as error:
                    self._drop(cell, error)
                    continue
                if base != head:
                    self._found.broken[cell] = f"another stream than base's: {head}, not {base}"
        self.report("checking", len(self.cells), len(self.cells))

    def _pairs(self, what: str, kept: dict[AnyCell, list[Pair]], wanted: Mapping[AnyCell, int]) -> None:
        """Take so many pairs of each cell, a turn after another."""
        total, done = sum(wanted.values()), 0
        for turn in range(max(wanted.values(), default=0)):
            with self.opened() as sides:
                for cell in self._left(cell for cell, turns in wanted.items() if turn < turns):
                    self._pair(cell, {name: sides[name] for name in ORDERS[turn % 2]}, kept)
                    self.report(what, done := done + 1, total)

    def _pair(self, cell: AnyCell, sides: Sides, kept: dict[AnyCell, list[Pair]]) -> None:
        self._found.controls.append(self.control())
        started = time.monotonic()
        try:
            samples = {name: side.sample(cell) for name, side in sides.items()}
        except SideError as error:
            self._drop(cell, error)
            return
        kept.setdefault(cell, []).append(Pair(**samples))
        self._took.setdefault(cell, []).append(time.monotonic() - started)

    def _drop(self, cell: AnyCell, error: SideError) -> None:
        (self._found.broken if error.side == "head" else self._found.skipped)[cell] = error.problem

    def _left(self, cells: Iterable[AnyCell]) -> list[AnyCell]:
        return [cell for cell in cells if cell not in self._found.broken and cell not in self._found.skipped]

    def _units(self) -> list[Unit]:
        """List all that is judged: rows of several cells, each followed by those."""
        rows: dict[str, list[AnyCell]] = {}
        for cell in self._left(self._screen):
            rows.setdefault(cell.row, []).append(cell)
        units: list[Unit] = []
        for cells in rows.values():
            units += [tuple(cells)] if len(cells) > 1 else []
            units += [(cell,) for cell in cells]
        return units

    def _doubtful(self) -> dict[AnyCell, int]:
        """Return which cells are to be confirmed, and by how many pairs."""
        doubtful = {
            cell
            for unit in self._units()
            if any(self._screened(unit, each).verdict == "inconclusive" for each in QUANTITIES)
            for cell in unit
        }
        chosen = [cell for cell in self.cells if cell in doubtful]
        return {cell: rule.confirming_pairs(median(self._took[cell])) for cell in chosen}

    def _screened(self, unit: Unit, quantity: Quantity) -> Finding:
        return rule.screen([self._screen[cell] for cell in unit], quantity)

    def _judge(self, unit: Unit, quantity: Quantity) -> Finding:
        first = self._screened(unit, quantity)
        if first.verdict != "inconclusive" or any(cell not in self._fresh for cell in unit):
            return first
        return rule.confirm([self._fresh[cell] for cell in unit], quantity)
