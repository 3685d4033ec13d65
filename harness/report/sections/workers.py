"""The speed-up of several workers, one strip for each cell."""

from __future__ import annotations

from collections import defaultdict
from math import ceil

from deltamark.harness.console.formatting import ratio
from deltamark.harness.report.charts.marks import LegendEntry, keys_of, legend, look, series
from deltamark.harness.report.charts.markup import Markup
from deltamark.harness.report.charts.scale import Linear
from deltamark.harness.report.charts.strips import Strip, dot, strips
from deltamark.harness.report.section import Section, lists
from deltamark.harness.report.tooltip import tooltip
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.tables.lookup import Lookup

CellKey = tuple[str, str, str, int, int]
"""Query, engine, workload, L and P."""


def workers(lookup: Lookup) -> Section | None:
    speedups = {key: gains for key, records in _groups(lookup).items() if (gains := _gains(records))}
    if not speedups:
        return None
    numbers = sorted({record.workers for gains in speedups.values() for record, _ in gains})
    highest = max(numbers[-1], ceil(max(gain for gains in speedups.values() for _, gain in gains)))
    scale = Linear(0, 0.5, 2 * highest) if highest <= 4 else Linear(0, ceil(highest / 8), 8)
    rows = [_strip(key, gains, numbers, scale) for key, gains in sorted(speedups.items())]
    entries = [LegendEntry(look(color), "solid", f"{number} workers") for color, number in enumerate(numbers)]
    chart = strips(scale, lambda value: f"{value:g}x", rows, label="speed relative to one worker")
    return Section(
        "workers", "Speed-up by workers",
        "The speed of the same cell relative to one worker; below 1x it is slower. The number is the best speed.",
        [legend(entries), lists([chart])],
    )  # fmt: skip


def _groups(lookup: Lookup) -> dict[CellKey, dict[int, QueryRecord]]:
    groups: dict[CellKey, dict[int, QueryRecord]] = defaultdict(dict)
    for record in lookup.records:
        if record.has_numbers and record.is_default:
            key = (record.query, record.engine, record.workload, record.logical, record.physical)
            groups[key][record.workers] = record
    return groups


def _gains(records: dict[int, QueryRecord]) -> list[tuple[QueryRecord, float]]:
    """Return the records of several workers, and their speed relative to one worker."""
    one = records.get(1)
    return [(record, record.rate / one.rate) for number, record in sorted(records.items()) if one and number > 1]


def _strip(key: CellKey, gains: list[tuple[QueryRecord, float]], numbers: list[int], scale: Linear) -> Strip:
    query, _, _, logical, physical = key
    marks: list[Markup] = []
    for record, gain in gains:
        style = look(numbers.index(record.workers))
        marks.append(series(style, "solid", {}, dot(style, scale, gain, tooltip(record))))
    best = max(gain for _, gain in gains)
    return Strip(f"{query} {logical} x {physical}", marks, ratio(best).text, keys_of(gains[0][0]))
