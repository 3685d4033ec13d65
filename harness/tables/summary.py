"""The summary at the end of a run: a line for each engine and batching, for a screen of 80 columns and 30 lines."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from deltamark.harness.console.formatting import TableEntry, words
from deltamark.harness.console.table import Entries, Table
from deltamark.harness.engines.base import short_name
from deltamark.harness.engines.registry import DEFAULT
from deltamark.harness.measure.batch_sizes import COARSE, CROSSOVER, FINE, PHYSICAL, SMALL
from deltamark.harness.measure.stats import geomean
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.tables.lookup import Lookup
from deltamark.harness.tables.marks import marked, with_reasons

MAX_ROWS, MAX_NAME = 12, 26

SHOWN_FIRST = (SMALL[0], PHYSICAL[0], FINE, COARSE, CROSSOVER[0])
"""The batchings that are shown if there are too many for the screen."""


@dataclass(frozen=True)
class Measured:
    """The cells of one engine with one workload, in one batching."""

    engine: str
    workers: int
    workload: str
    logical: int
    physical: int

    @property
    def batching(self) -> str:
        return f"{self.logical} x {self.physical}"


def summary(lookup: Lookup) -> Table:
    """Make the table of means over queries, with the slowest and the fastest query."""
    groups = _groups(lookup)
    shown = _shown(list(groups))
    most = max((len(records) for records in groups.values()), default=0)
    rows = [_row(lookup, group, groups[group], most) for group in shown]
    headers = ["M tuples/s", "L x P", "geomean", "slowest", "fastest"]
    notes = [*_notes(groups, shown, most), *_without_numbers(lookup)]
    table = Table("summary", f"SF {lookup.sf}, {most} queries", headers, rows, notes)
    return with_reasons(table, lookup.records)


def _groups(lookup: Lookup) -> dict[Measured, list[QueryRecord]]:
    found: dict[Measured, list[QueryRecord]] = defaultdict(list)
    for record in lookup.records:
        if record.has_numbers and record.is_default:
            group = Measured(record.engine, record.workers, record.workload, record.logical, record.physical)
            found[group].append(record)
    return {group: found[group] for group in sorted(found, key=_order)}


def _order(group: Measured) -> tuple[object, ...]:
    size = group.logical * group.physical
    of_engine = group.engine != DEFAULT, group.engine, group.workers
    return *of_engine, group.workload != "insert", group.workload, size, group.logical


def _shown(groups: Sequence[Measured]) -> Sequence[Measured]:
    """Return as many groups as the screen has room for: those of the most telling batchings first."""
    if len(groups) <= MAX_ROWS:
        return groups
    first = [group for group in groups if (group.logical, group.physical) in SHOWN_FIRST]
    chosen = {*first[:MAX_ROWS]}
    chosen |= {*[group for group in groups if group not in chosen][: MAX_ROWS - len(chosen)]}
    return [group for group in groups if group in chosen]


def _row(lookup: Lookup, group: Measured, records: Sequence[QueryRecord], most: int) -> Entries:
    slowest, fastest = (choose(records, key=lambda record: record.rate) for choose in (min, max))
    mean = _millions(geomean(record.rate for record in records))
    if len(records) < most:
        mean = TableEntry(f"{mean.text} ({len(records)})", mean.value)
    extremes = [
        marked(TableEntry(f"{each.query} {_millions(each.rate).text}", each.rate), [each])
        for each in (slowest, fastest)
    ]
    return [words(_name(lookup, group)), words(group.batching), marked(mean, records), *extremes]


def _name(lookup: Lookup, group: Measured) -> str:
    name = short_name(group.engine) + ", recomputing" * lookup.capabilities(group.engine).recomputes
    name += f", {group.workers} workers" * (group.workers > 1) + f", {group.workload}" * (group.workload != "insert")
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 3]}..."


def _millions(value: float) -> TableEntry:
    """Format a number per second in millions, with three digits."""
    millions = value / 1e6
    digits = max(3 - len(f"{int(millions)}"), 0) if millions >= 1 else 3
    return TableEntry(f"{millions:.{digits}f}", value)


def _notes(groups: Mapping[Measured, Sequence[QueryRecord]], shown: Sequence[Measured], most: int) -> Iterator[str]:
    if len(shown) < len(groups):
        yield f"{len(groups) - len(shown)} more batchings are in the tables"
    if any(len(groups[group]) < most for group in shown):
        yield "(n): a mean over n queries alone, which is not comparable with the others"


def _without_numbers(lookup: Lookup) -> Iterator[str]:
    """Count the cells that have no number, in this run or before."""
    counts = Counter(record.status for record in lookup.records if record.status != "ok")
    if counts:
        listed = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
        yield f"cells without a number: {listed}; the tables show them"
