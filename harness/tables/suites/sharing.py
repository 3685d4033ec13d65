"""Tables of the suite of sharing."""

from __future__ import annotations

from deltamark.harness.console.formatting import TableEntry, count, rate, ratio, words
from deltamark.harness.console.table import Table
from deltamark.harness.measure.stats import median
from deltamark.harness.results.table_record import MeasuredRow
from deltamark.harness.suites.sharing.attaching import SMALL_BATCH_ROUNDS
from deltamark.harness.tables.suites.rows import RowsByTable, least, number, rows, share, shown_or_why

SIDES = (("together", "together"), ("alone, sum", "alone"))


def shared_tables(by_table: RowsByTable) -> list[Table]:
    return [
        loads(by_table),
        state(by_table),
        arrangements(by_table),
        filters(by_table),
        coming(by_table),
        crowding(by_table),
    ]


def loads(by_table: RowsByTable) -> Table:
    lines = rows(
        by_table.get("loads", ()), least("together_seconds"), share("tuples", "together_seconds", rate),
        least("alone_seconds"), lambda each: ratio(paired(each)),
    )  # fmt: skip
    notes = [
        "whole input: rate by the rows of the relations, each counted once however many queries read it",
        "the ratio is the median over pairs of consecutive runs; all answers were compared with DuckDB's",
    ]
    headers = ["L x P", "together", "whole input", "alone, sum", "together / alone"]
    return Table("loads", "All queries in one dataflow, and each alone", headers, lines, notes)


def paired(measured: MeasuredRow) -> float:
    """Return the median over alternating runs of the time together relative to the sum of the times alone."""
    pairs = zip(measured.figures["together_seconds"], measured.figures["alone_seconds"], strict=True)
    return median([one / other for one, other in pairs])


def state(by_table: RowsByTable) -> Table:
    lines = []
    for each in [each for each in by_table.get("loads", ()) if each.has_numbers][:1]:
        for what, side in SIDES:
            sizes = [count(round(each.least(f"{side}_{name}") / 1e6)) for name in ("bytes", "peak")]
            lines.append([words(what), count(each.least(f"{side}_rows")), *sizes])
    notes = ["the peak is that of the process, with batches and program; alone: that of the largest query"]
    return Table("state", "State at the end", ["", "rows", "MB", "peak MB"], lines, notes)


def arrangements(by_table: RowsByTable) -> Table:
    lines = [
        [
            words(each.name),
            words(each.row.note),
            *(shown_or_why(each, show) for show in (number("rows"), least("bytes", _mb))),
        ]
        for each in sorted(by_table.get("arrangements", ()), key=lambda each: -max(each.figures.get("bytes", [0])))
    ]
    headers = ["arrangement of", "read by", "rows", "MB"]
    return Table("arrangements", "Arrangements that several queries read", headers, lines)


def filters(by_table: RowsByTable) -> Table:
    of = sorted(by_table.get("filters", ()), key=lambda each: -max(each.figures.get("bytes_apart", [0])))
    sizes = (least(name, _mb) for name in ("bytes_apart", "bytes_as_one"))
    lines = rows(of, number("apart"), *sizes, number("in_vain"), number("left"))
    headers = ["arrangements of", "apart", "MB apart", "MB as one", "wasted probes", "filters left to readers"]
    notes = [
        "estimates of the planner, which leaves filters to readers if that saves 1 MB; a wasted probe counts 8 bytes"
    ]
    return Table("filters", "Arrangements that differ in their filters", headers, lines, notes)


def coming(by_table: RowsByTable) -> Table:
    lines = rows(by_table.get("coming", ()), least("there"), least("others"), least("alone"))
    headers = ["query", "with its arrangements", "with those of others", "alone, all rows at once"]
    notes = ["time to the complete answer, with all rows loaded before; includes the compilation of the plan"]
    return Table("coming", "Time to attach a query while the others run", headers, lines, notes)


def crowding(by_table: RowsByTable) -> Table:
    of = by_table.get("crowding", ())
    lines = rows(
        of, least("fuel", count), _batches, least("alone_p50"), least("beside_p50"), least("alone_p99"),
        least("beside_p99"), share("beside_p99", "alone_p99", ratio), least("beside_max"),
    )  # fmt: skip
    headers = [
        "attached", "fuel", "batches", "p50 alone", "p50 beside", "p99 alone", "p99 beside", "p99 ratio",
        "max beside",
    ]  # fmt: skip
    notes = [
        f"each batch of {SMALL_BATCH_ROUNDS} rounds first does `fuel` units of the attachment, each at most 4,096 rows"
    ]
    return Table(
        "crowding", "Batch latencies of the others while a query attaches incrementally", headers, lines, notes
    )


def _batches(measured: MeasuredRow) -> TableEntry:
    entry = count(measured.least("batches"))
    return entry if measured.least("there") else TableEntry(f"more than {entry.text}", entry.value)


def _mb(value: float) -> TableEntry:
    return count(round(value / 1e6))
