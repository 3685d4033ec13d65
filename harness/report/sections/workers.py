"""What several workers gain over one, a strip a query."""

from __future__ import annotations

from collections import defaultdict
from math import ceil

from deltamark.harness.console.formatting import ratio
from deltamark.harness.report.about import about
from deltamark.harness.report.charts.marks import Explained, keys_of, legend, look, series
from deltamark.harness.report.charts.markup import Markup
from deltamark.harness.report.charts.scale import Linear
from deltamark.harness.report.charts.strips import Strip, dot, strips
from deltamark.harness.report.section import Section, lists
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.tables.lookup import Lookup

Compared = tuple[str, str, str, int, int]


def workers(known: Lookup) -> Section | None:
    found = {key: gained for key, records in _groups(known).items() if (gained := _gains(records))}
    if not found:
        return None
    numbers = sorted({record.workers for gained in found.values() for record, _ in gained})
    most = max(numbers[-1], ceil(max(gain for gained in found.values() for _, gain in gained)))
    scale = Linear(0, 0.5, 2 * most) if most <= 4 else Linear(0, ceil(most / 8), 8)
    rows = [_strip(key, gained, numbers, scale) for key, gained in sorted(found.items())]
    explained = [Explained(look(at), "solid", f"{number} workers") for at, number in enumerate(numbers)]
    drawn = strips(scale, lambda value: f"{value:g}x", rows, label="speed against one worker")
    return Section(
        "workers", "What more workers gain",
        "How many times as fast as one worker, for the same cell; left of 1x they lose. The number is the best.",
        [legend(explained), lists([drawn])],
    )  # fmt: skip


def _groups(known: Lookup) -> dict[Compared, dict[int, QueryRecord]]:
    groups: dict[Compared, dict[int, QueryRecord]] = defaultdict(dict)
    for record in known.records:
        if record.has_numbers and record.is_default:
            of = (record.query, record.engine, record.workload, record.logical, record.physical)
            groups[of][record.workers] = record
    return groups


def _gains(records: dict[int, QueryRecord]) -> list[tuple[QueryRecord, float]]:
    """Return the records of several workers, and how much faster they are than one."""
    one = records.get(1)
    return [(record, record.rate / one.rate) for number, record in sorted(records.items()) if one and number > 1]


def _strip(of: Compared, gained: list[tuple[QueryRecord, float]], numbers: list[int], scale: Linear) -> Strip:
    query, _, _, logical, physical = of
    drawn: list[Markup] = []
    for record, gain in gained:
        own = look(numbers.index(record.workers))
        drawn.append(series(own, "solid", {}, dot(own, scale, gain, about(record))))
    best = max(gain for _, gain in gained)
    return Strip(f"{query} {logical} x {physical}", drawn, ratio(best).text, keys_of(gained[0][0]))
