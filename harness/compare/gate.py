"""The gate: checks, screens and confirms cells (harness/compare/__init__.py) on any two sides, and sums up the outcome.

A summary is text with the headline and the changes, Markdown for a comment with all numbers, or JSON with every sample
for programs that judge or plot it themselves.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Literal

import msgspec

from deltamark.harness.benchmarks.cell import AnyCell
from deltamark.harness.compare import rule
from deltamark.harness.compare.rule import QUANTITIES, SCREEN_PAIRS, STATE, TIME, Change, Pair, Quantity, bytes_per_row
from deltamark.harness.compare.sides import OpenSides, SideError, Sides
from deltamark.harness.compare.trees import SideName
from deltamark.harness.console.table import NOTHING, Entries, Table, TableEntry, brief, count, markdown, text, words
from deltamark.harness.measure.stats import percentile

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


VERSION = 1
"""The version of the format. Fields may be added without a new one."""


def as_json(outcome: Outcome, header: ComparisonHeader) -> bytes:
    """Return the verdict, the judgements, and the samples that they rest on. Times are seconds, sizes bytes."""
    found = {
        "version": VERSION, "verdict": outcome.verdict, "exit_code": outcome.exit_code, "headline": headline(outcome),
        "base": header.base, "head": header.head, "machine": header.machine, "command": header.command,
        "quantities": [each.name for each in QUANTITIES],
        "judgements": [_judgement(each) for each in outcome.judgements],
        "broken": {unit_name((cell,)): problem for cell, problem in outcome.broken.items()},
        "not_compared": {unit_name((cell,)): problem for cell, problem in outcome.skipped.items()},
        "bytes_per_row": {unit_name((cell,)): _row_bytes(pairs) for cell, pairs in outcome.screening.items()},
        "screening": _samples(outcome.screening), "confirming": _samples(outcome.confirming),
        "control_seconds": outcome.controls,
    }  # fmt: skip
    return msgspec.json.format(msgspec.json.encode(found), indent=1)


def _judgement(judgement: Judgement) -> dict[str, Any]:
    change = judgement.change
    return {
        "name": unit_name(judgement.cells), "cells": [unit_name((cell,)) for cell in judgement.cells],
        "quantity": change.quantity.name, "verdict": change.verdict, "base": change.base, "head": change.head,
        "phase": change.phase, "pairs": change.pairs, "ratio": _ratio(change.log_ratio),
        "interval": [_ratio(bound) for bound in change.bounds] if change.bounds else None,
    }  # fmt: skip


def _ratio(log_ratio: float) -> float | None:
    """Return head / base; None if it is not known."""
    return None if math.isnan(log_ratio) else math.exp(log_ratio)


def _row_bytes(pairs: Sequence[Pair]) -> dict[str, float] | None:
    found = bytes_per_row(pairs)
    return dict(zip(("base", "head"), found, strict=True)) if found else None


def _samples(pairs: Pairs) -> dict[str, list[dict[str, Any]]]:
    return {
        unit_name((cell,)): [{"base": dict(pair.base), "head": dict(pair.head)} for pair in each]
        for cell, each in pairs.items()
    }


DRIFT_RATIO = 1.1
"""The ratio of the control's quartiles from which on the summary warns of a drifting machine; not measured."""

SIZE_SETTINGS = "SF or SCALE"
"""The settings that give a cell more work."""

HEADERS = ["cell", "quantity", "base", "head", "median change", "95% interval", "pairs", "verdict"]
NOTES = [
    "base, head: the medians of the sides; median change: of the pairs, which need not be the change of the medians",
    "unchanged: the interval lies within 5%, 5 ms or 1 MB (twice that for 10 pairs); inconclusive: it is too wide",
]


@dataclass(frozen=True)
class ComparisonHeader:
    """The description of a comparison: both sides, the machine, and the command that repeats it."""

    base: str
    head: str
    machine: str
    command: str


def headline(outcome: Outcome) -> str:
    """Count the judgements in one line. `no change` means that every judgement is `unchanged`."""
    counts = {
        "broken": len(outcome.broken), "regressions": len(outcome.judged("regression")),
        "improvements": len(outcome.judged("improvement")), "unchanged": len(outcome.judged("unchanged")),
        "inconclusive": len(outcome.judged("inconclusive")), "too small to be judged": len(outcome.judged("too small")),
        "not compared": len(outcome.skipped),
    }  # fmt: skip
    positive = {name: count for name, count in counts.items() if count}
    listed = ", ".join(f"{count} {name}" for name, count in positive.items()) or "nothing was compared"
    line = "no change" if [*positive] == ["unchanged"] else listed
    return f"interrupted; {line}" if outcome.interrupted else line


def verdict_line(outcome: Outcome, file: Path) -> str:
    """State the verdict and the file that has it: make ends with 2 for every exit code except 0."""
    return f"verdict: {outcome.verdict} (exit code {outcome.exit_code}; make turns 1 into 2, {file} has the word)"


def as_text(outcome: Outcome) -> str:
    changed = _changed(outcome)
    table = [text(_table("What changed", changed))] if changed else []
    problems = [f"{name}: {problem}" for name, problem in _problems(outcome)]
    return "\n".join([*table, *_remarks(outcome), *problems, headline(outcome)]) + "\n"


def as_markdown(outcome: Outcome, header: ComparisonHeader) -> str:
    changed, everything = _changed(outcome), outcome.judgements
    problems = [f"{name}\n```\n{problem}\n```\n" for name, problem in _problems(outcome)]
    return "\n".join([
        f"### deltamark compare: {outcome.verdict}: {headline(outcome)}\n",
        f"{header.base}; {header.head}\n",
        *problems,
        *([markdown(_table("What changed", changed))] if changed else []),
        f"<details><summary>All {len(everything)} judgements</summary>\n\n{markdown(_table('All', everything))}\n",
        f"{header.machine}. {' '.join(_remarks(outcome))} Again: `{header.command}`\n\n</details>\n",
    ])  # fmt: skip


def _changed(outcome: Outcome) -> list[Judgement]:
    return [one for one in outcome.judgements if one.change.verdict not in ("unchanged", "too small")]


def _table(title: str, judgements: Iterable[Judgement]) -> Table:
    return Table("compare", title, HEADERS, [_row(judgement) for judgement in judgements], NOTES)


def _row(judgement: Judgement) -> Entries:
    change = judgement.change
    entry = change.quantity.format
    bounds = " to ".join(_percent(bound).text for bound in change.bounds) if change.bounds else "-"
    loud = change.verdict in ("regression", "inconclusive")
    return [
        words(unit_name(judgement.cells)), words(change.quantity.name), entry(change.base), entry(change.head),
        _percent(change.log_ratio), words(bounds), words(str(change.pairs)),
        words(change.verdict.upper() if loud else change.verdict),
    ]  # fmt: skip


def unit_name(cells: Unit) -> str:
    """Name a cell, or a row by the parts that its cells share."""
    return f"{cells[0].row} {cells[0].place if len(cells) == 1 else 'row'}"


def _percent(log_ratio: float) -> TableEntry:
    return NOTHING if math.isnan(log_ratio) else TableEntry(f"{100 * math.expm1(log_ratio):+.1f}%", log_ratio)


def _problems(outcome: Outcome) -> list[tuple[str, str]]:
    """Return the cells that could not be compared, each with its problem."""
    broken = [(f"BROKEN {unit_name((cell,))}", why) for cell, why in outcome.broken.items()]
    skipped = [(f"not compared: {unit_name((cell,))}", why) for cell, why in outcome.skipped.items()]
    return broken + skipped


def _remarks(outcome: Outcome) -> list[str]:
    return [*_control(outcome.controls), *_bytes_per_row(outcome), *_too_small(outcome)]


def _control(seconds: Sequence[float]) -> list[str]:
    """Describe the steadiness of the machine."""
    if not seconds:
        return []
    low, middle, high = (percentile(sorted(seconds), percent) for percent in (25, 50, 75))
    line = f"Control of fixed work: {brief(middle).text}, half of the time {brief(low).text} to {brief(high).text}."
    return [line] if high < DRIFT_RATIO * low else [line, "The machine drifted: read the changes, not the times."]


def _bytes_per_row(outcome: Outcome) -> Iterator[str]:
    """Tell, for each cell whose state has changed, whether its rows have become larger."""
    for judgement in _changed(outcome):
        pairs = outcome.screening.get(judgement.cells[0], []) if len(judgement.cells) == 1 else []
        if judgement.change.quantity == STATE and pairs and (sizes := bytes_per_row(pairs)):
            base, head = (count(size).text for size in sizes)
            yield f"{unit_name(judgement.cells)}: a row of state has {base} bytes in base, {head} in head."


def _too_small(outcome: Outcome) -> Iterator[str]:
    """Name, for each quantity, the cells that are too small to be judged."""
    for quantity in QUANTITIES:
        cells = [one.cells for one in outcome.judged("too small") if one.change.quantity == quantity]
        names = ", ".join(unit_name(unit) for unit in cells if len(unit) == 1)
        if names:
            limit = f"both sides are below {quantity.format(quantity.minimum).text}"
            yield f"Not judged by {quantity.name}, since {limit}: {names}; a larger {SIZE_SETTINGS} helps."
