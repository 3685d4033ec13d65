"""The gate: checks, screens and confirms cells (harness/compare/__init__.py) on any two sides."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from deltamark.harness.benchmarks.cell import AnyCell
from deltamark.harness.compare import rule
from deltamark.harness.compare.rule import QUANTITIES, SCREEN_PAIRS, TIME, Change, Pair, Quantity
from deltamark.harness.compare.sides import OpenSides, SideError, Sides
from deltamark.harness.compare.trees import SideName

PhaseReport = Callable[[str, int, int], None]
"""Receives a phase, and how many of its steps are done and planned."""

Unit = tuple[AnyCell, ...]
"""A unit of judgement: a cell, or the cells of a row."""

Pairs = dict[AnyCell, list[Pair]]

ORDERS: tuple[tuple[SideName, SideName], ...] = (("base", "head"), ("head", "base"))
"""The order of the sides in even and in odd repetitions."""


Verdict = Literal["wrong", "interrupted", "regression", "undecided", "improvement", "unchanged"]
EXIT_CODES: Mapping[Verdict, int] = {
    "wrong": 2, "interrupted": 130, "regression": 1, "undecided": 0, "improvement": 0, "unchanged": 0,
}  # fmt: skip


@dataclass(frozen=True)
class Judgement:
    """The change of one quantity of a unit."""

    cells: Unit
    change: Change


@dataclass
class Outcome:
    """The result of a comparison."""

    judgements: list[Judgement] = field(default_factory=list)
    broken: dict[AnyCell, str] = field(default_factory=dict)
    """Cells that head cannot run or gets wrong, with the problem."""
    skipped: dict[AnyCell, str] = field(default_factory=dict)
    """Cells that base cannot run or gets wrong, or that a side refuses, which leaves nothing to compare."""
    controls: list[float] = field(default_factory=list)
    """Seconds of the fixed work before each pair."""
    interrupted: bool = False
    screening: Pairs = field(default_factory=dict)
    confirming: Pairs = field(default_factory=dict)
    """The samples of each phase, by cell."""

    def judged(self, verdict: rule.ChangeVerdict) -> list[Judgement]:
        """Return the judgements with a verdict."""
        return [judgement for judgement in self.judgements if judgement.change.verdict == verdict]

    @property
    def undecided(self) -> bool:
        """Whether some cell may have changed without a judgement.

        A quantity of memory that is too small to be judged is small in both commits, and does not count here; a time
        that is too short may still have doubled.
        """
        too_short = any(
            judgement.change.quantity == TIME and len(judgement.cells) == 1 for judgement in self.judged("too small")
        )
        return bool(too_short or not self.judgements or self.skipped or self.judged("inconclusive"))

    @property
    def verdict(self) -> Verdict:
        """The worst verdict that holds. `unchanged` means that every cell was judged and none has changed."""
        verdicts: dict[Verdict, bool] = {
            "wrong": bool(self.broken), "interrupted": self.interrupted, "regression": bool(self.judged("regression")),
            "undecided": self.undecided, "improvement": bool(self.judged("improvement")), "unchanged": True,
        }  # fmt: skip
        return next(verdict for verdict, holds in verdicts.items() if holds)

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict]


@dataclass
class Gate:
    """One comparison. control: does fixed work and returns its seconds."""

    cells: Mapping[AnyCell, list[int]]
    """The cells, each with the rounds after which its answers are compared with DuckDB's."""
    open_sides: OpenSides
    control: Callable[[], float]
    report: PhaseReport
    _pair_seconds: dict[AnyCell, list[float]] = field(default_factory=dict)
    _outcome: Outcome = field(default_factory=Outcome)

    def run(self) -> Outcome:
        """Check, screen and confirm; judge the pairs taken so far if interrupted."""
        try:
            self._check()
            screening, confirming = self._outcome.screening, self._outcome.confirming
            self._take_pairs("screening", screening, dict.fromkeys(self._remaining(self.cells), SCREEN_PAIRS))
            self._take_pairs("confirming", confirming, self._to_confirm())
        except KeyboardInterrupt:
            self._outcome.interrupted = True
        self._outcome.judgements = [
            Judgement(unit, self._judge(unit, quantity)) for unit in self._units() for quantity in QUANTITIES
        ]
        return self._outcome

    def _check(self) -> None:
        """Drop the cells with a wrong answer, and those whose change streams differ.

        An engine without a stream has no digest: its answers alone are compared.
        """
        with self.open_sides() as sides, ThreadPoolExecutor() as pool:
            for done, (cell, rounds) in enumerate(self.cells.items()):
                self.report("checking", done, len(self.cells))
                digests = {name: pool.submit(side.check, cell, rounds) for name, side in sides.items()}
                wait(digests.values())
                try:
                    head, base = digests["head"].result(), digests["base"].result()
                except SideError as error:
                    self._drop(cell, error)
                    continue
                if base and head and base != head:
                    self._outcome.broken[cell] = f"another stream than base's: {head}, not {base}\n{cell.again}"
        self.report("checking", len(self.cells), len(self.cells))

    def _take_pairs(self, phase: str, pairs: Pairs, counts: Mapping[AnyCell, int]) -> None:
        """Take a number of pairs of each cell, one of every cell in each repetition."""
        total, done = sum(counts.values()), 0
        for repetition in range(max(counts.values(), default=0)):
            with self.open_sides() as sides:
                for cell in self._remaining(cell for cell, count in counts.items() if repetition < count):
                    self._take_pair(cell, {name: sides[name] for name in ORDERS[repetition % 2]}, pairs)
                    self.report(phase, done := done + 1, total)

    def _take_pair(self, cell: AnyCell, sides: Sides, pairs: Pairs) -> None:
        self._outcome.controls.append(self.control())
        started = time.monotonic()
        try:
            samples = {name: side.sample(cell) for name, side in sides.items()}
        except SideError as error:
            self._drop(cell, error)
            return
        pairs.setdefault(cell, []).append(Pair(**samples))
        self._pair_seconds.setdefault(cell, []).append(time.monotonic() - started)

    def _drop(self, cell: AnyCell, error: SideError) -> None:
        if error.side == "head" and error.status != "refused":
            self._outcome.broken[cell] = error.problem
        else:
            self._outcome.skipped[cell] = f"{error.side}: {error.problem}"

    def _remaining(self, cells: Iterable[AnyCell]) -> list[AnyCell]:
        return [cell for cell in cells if cell not in self._outcome.broken and cell not in self._outcome.skipped]

    def _units(self) -> list[Unit]:
        """List all units: each row of several cells, followed by its cells."""
        rows: dict[str, list[AnyCell]] = {}
        for cell in self._remaining(self._outcome.screening):
            rows.setdefault(cell.row, []).append(cell)
        units: list[Unit] = []
        for cells in rows.values():
            units += [tuple(cells)] if len(cells) > 1 else []
            units += [(cell,) for cell in cells]
        return units

    def _to_confirm(self) -> dict[AnyCell, int]:
        """Return the cells to confirm, and the number of pairs of each."""
        inconclusive = {
            cell
            for unit in self._units()
            if any(self._screen(unit, quantity).verdict == "inconclusive" for quantity in QUANTITIES)
            for cell in unit
        }
        return {
            cell: rule.confirming_pairs(median(self._pair_seconds[cell])) for cell in self.cells if cell in inconclusive
        }

    def _screen(self, unit: Unit, quantity: Quantity) -> Change:
        return rule.screen([self._outcome.screening[cell] for cell in unit], quantity)

    def _judge(self, unit: Unit, quantity: Quantity) -> Change:
        screened = self._screen(unit, quantity)
        if screened.verdict != "inconclusive" or any(cell not in self._outcome.confirming for cell in unit):
            return screened
        return rule.confirm([self._outcome.confirming[cell] for cell in unit], quantity)
