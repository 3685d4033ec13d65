"""The summary of a comparison: as text, the headline and the changes; as Markdown for a comment, all numbers too.

The result of a comparison as JSON, with every sample, for programs that judge or plot it themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from deltamark.harness.compare.gate import Judgement, Outcome, Pairs, Unit
from deltamark.harness.compare.rule import QUANTITIES, STATE, Pair, bytes_per_row
from deltamark.harness.console.formatting import NOTHING, TableEntry, brief, count, words
from deltamark.harness.console.table import Entries, Table, markdown, text
from deltamark.harness.measure.stats import percentile

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
