"""The speed-up of several workers, one strip for each cell, with the engines side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from deltamark.harness.console.formatting import ratio
from deltamark.harness.report.charts.marks import (
    LOOKS,
    EngineThreads,
    LegendEntry,
    Linear,
    Look,
    in_order,
    keys_of,
    legend,
    look,
    runner,
    runner_words,
    series,
)
from deltamark.harness.report.charts.panel import Strip, dot, strips
from deltamark.harness.report.document import Section, lists
from deltamark.harness.report.findings import over, side_by_side
from deltamark.harness.report.tooltip import tooltip
from deltamark.harness.results.record import Record
from deltamark.harness.tables.lookup import Lookup


@dataclass(frozen=True)
class Gain:
    """The speed of several workers, relative to that of one worker for the same cell."""

    record: Record
    speed: float

    @property
    def cell(self) -> str:
        """The name of the cell without its engine."""
        record = self.record
        work = "" if record.is_plain else f", {record.workload}"
        return f"{record.query} {record.logical} x {record.physical}{work}"


def workers(lookup: Lookup) -> Section | None:
    gains = list(_gains(lookup))
    if not gains:
        return None
    numbers = sorted({gain.record.workers for gain in gains})
    highest = max(numbers[-1], ceil(max(gain.speed for gain in gains)))
    scale = Linear(0, 0.5, 2 * highest) if highest <= 4 else Linear(0, ceil(highest / 8), 8)
    looks = {runner(gain.record): _look(lookup, numbers, gain.record) for gain in gains}
    entries = [LegendEntry(each, "solid", runner_words(lookup, *key)) for key, each in looks.items()]
    by_cell: dict[str, list[Gain]] = defaultdict(list)
    for gain in sorted(gains, key=_order):
        by_cell[gain.cell].append(gain)
    rows = [_strip(cell, of_cell, looks, scale) for cell, of_cell in by_cell.items()]
    chart = strips(scale, lambda value: f"{value:g}x", rows, label="speed relative to one worker")
    return Section(
        "workers", "Speed-up by workers", _finding(lookup, gains),
        "The speed of the same cell relative to one worker; below 1x it is slower. The number is the best speed of the "
        "first engine.",
        [legend(entries), lists([chart])],
    )  # fmt: skip


def _gains(lookup: Lookup) -> Iterable[Gain]:
    records = [record for record in lookup.records if record.has_numbers and record.is_default]
    for record in in_order(lookup, records):
        one = lookup.find(record.query, record.logical, record.physical, engine=record.engine, workload=record.workload)
        if record.workers > 1 and one is not None and one.has_numbers:
            yield Gain(record, record.rate / one.rate)


def _order(gain: Gain) -> tuple[str, str, int, int]:
    return gain.record.query, gain.record.workload, gain.record.logical, gain.record.physical


def _look(lookup: Lookup, numbers: Sequence[int], record: Record) -> Look:
    """Return the color of the engine, with an outline for the number of workers."""
    own = look(lookup.engines.index(record.engine))
    return Look(own.color, (own.outline + numbers.index(record.workers)) % LOOKS)


def _strip(cell: str, gains: Sequence[Gain], looks: dict[EngineThreads, Look], scale: Linear) -> Strip:
    marks = []
    for gain in gains:
        style = looks[runner(gain.record)]
        marks.append(series(style, "solid", keys_of(gain.record), dot(style, scale, gain.speed, tooltip(gain.record))))
    best = max(gain.speed for gain in gains if gain.record.engine == gains[0].record.engine)
    return Strip(cell, marks, ratio(best).text, {"query": gains[0].record.query})


def _finding(lookup: Lookup, gains: Iterable[Gain]) -> str:
    found: dict[EngineThreads, dict[str, float]] = defaultdict(dict)
    for gain in gains:
        found[runner(gain.record)][gain.cell] = gain.speed
    return f"Relative to one worker, the speed is {side_by_side(lookup, found, ratio)}, {over(found, 'cells')}."
