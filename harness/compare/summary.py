"""What the gate says: as text a headline and what changed; as Markdown, for a comment, all numbers too."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from deltamark.harness.compare.gate import Judged, Outcome, Unit
from deltamark.harness.compare.rule import QUANTITIES
from deltamark.harness.console.formatting import NOTHING, TableEntry, brief, words
from deltamark.harness.console.table import Row, Table, markdown, text
from deltamark.harness.measure.cell import AnyCell
from deltamark.harness.measure.stats import percentile

DRIFTING = 1.1
"""From this ratio of the control's quartiles on, the machine is said to drift."""

GROW = "SF or SCALE"
"""The settings that give a cell more to do."""

HEADERS = ["cell", "quantity", "base", "head", "change", "95% interval", "pairs", "verdict"]


@dataclass(frozen=True)
class Said:
    """What was asked for, in words."""

    base: str
    head: str
    machine: str
    command: str


def headline(found: Outcome) -> str:
    """Count the judgements in one line. `no change` says that all of them were made, and are `unchanged`."""
    counts = {
        "cells broken": len(found.broken), "regressions": len(found.of("regression")),
        "improvements": len(found.of("improvement")), "unchanged": len(found.of("unchanged")),
        "inconclusive": len(found.of("inconclusive")), "too small to be judged": len(found.of("too small")),
        "not compared": len(found.skipped),
    }  # fmt: skip
    counted = {what: number for what, number in counts.items() if number}
    said = "no change" if [*counted] == ["unchanged"] else ", ".join(f"{each} {what}" for what, each in counted.items())
    return ("interrupted; " if found.interrupted else "") + (said or "nothing was compared")


def verdict_line(found: Outcome, file: Path) -> str:
    """Say the verdict, and where to read it: make ends with 2 whatever the exit code."""
    return f"verdict: {found.verdict} (exit code {found.exit_code}; make turns 1 into 2, {file} has the word)"


def as_text(found: Outcome) -> str:
    table = [text(_table("What changed", changed))] if (changed := _changed(found)) else []
    problems = [f"{name}: {why}" for name, why in _problems(found)]
    return "\n".join([*table, *_remarks(found), *problems, headline(found)]) + "\n"


def as_markdown(found: Outcome, said: Said) -> str:
    changed = _changed(found)
    problems = [f"{name}\n```\n{why}\n```\n" for name, why in _problems(found)]
    return "\n".join([
        f"### deltamark compare: {found.verdict}: {headline(found)}\n",
        f"{said.base}; {said.head}\n",
        *problems,
        *([markdown(_table("What changed", changed))] if changed else []),
        f"<details><summary>All {len(found.judged)} judgements</summary>\n\n{markdown(_table('All', found.judged))}\n",
        f"{said.machine}. {' '.join(_remarks(found))} Again: `{said.command}`\n\n</details>\n",
    ])  # fmt: skip


def _changed(found: Outcome) -> list[Judged]:
    return [each for each in found.judged if each.finding.verdict not in ("unchanged", "too small")]


def _table(title: str, judged: Iterable[Judged]) -> Table:
    return Table("compare", title, HEADERS, [_row(each) for each in judged])


def _row(judged: Judged) -> Row:
    found = judged.finding
    write = found.quantity.write
    bounds = " to ".join(_percent(each).text for each in found.bounds) if found.bounds else "-"
    return [
        words(unit_name(judged.cells)), words(found.quantity.name), write(found.base), write(found.head),
        _percent(found.change), words(bounds), words(str(found.pairs)),
        words(found.verdict.upper() if found.verdict in ("regression", "inconclusive") else found.verdict),
    ]  # fmt: skip


def unit_name(cells: Unit) -> str:
    """Name a cell, or a row by what its cells share."""
    return f"{cells[0].row} {cells[0].place if len(cells) == 1 else 'row'}"


def _percent(change: float) -> TableEntry:
    if math.isnan(change):
        return NOTHING
    return TableEntry(f"{100 * math.expm1(change):+.1f}%", change)


def _problems(found: Outcome) -> list[tuple[str, str]]:
    """Return what could not be compared, and why, with a command that repeats it."""
    broken = [(f"BROKEN {unit_name((cell,))}", _why(cell, problem)) for cell, problem in found.broken.items()]
    skipped = [(f"not compared: {unit_name((cell,))}", _why(cell, problem)) for cell, problem in found.skipped.items()]
    return broken + skipped


def _why(cell: AnyCell, problem: str) -> str:
    return f"{problem}\n{cell.again}"


def _remarks(found: Outcome) -> list[str]:
    return [*_machine(found.controls), *_small(found)]


def _machine(controls: Sequence[float]) -> list[str]:
    """Say how steady the machine was."""
    if not controls:
        return []
    low, middle, high = (percentile(sorted(controls), each) for each in (25, 50, 75))
    said = f"Control of fixed work: {brief(middle).text}, half of the time {brief(low).text} to {brief(high).text}."
    return [said] if high < DRIFTING * low else [said, "The machine drifted: read the changes, not the times."]


def _small(found: Outcome) -> Iterator[str]:
    """Name the cells that are too small to be judged by a quantity."""
    for quantity in QUANTITIES:
        small = [each.cells for each in found.of("too small") if each.finding.quantity == quantity]
        names = ", ".join(unit_name(cells) for cells in small if len(cells) == 1)
        if names:
            least = quantity.write(quantity.least).text
            yield f"Not judged by {quantity.name}, since both sides are below {least}: {names}; a larger {GROW} helps."
