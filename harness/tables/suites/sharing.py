"""Tables of the suite of sharing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from deltamark.harness.console.formatting import TableEntry, count, megabytes, rate, ratio, words
from deltamark.harness.console.table import Table
from deltamark.harness.measure.stats import median
from deltamark.harness.results.table_record import MeasuredRow
from deltamark.harness.suites.sharing.attaching import SMALL_BATCH_ROUNDS
from deltamark.harness.tables.entry import row_bytes
from deltamark.harness.tables.suites.rows import FigureColumns, RowsByTable, entries, least, number, rows, share

SIDES = (("together", "together"), ("alone, sum", "alone"))
"""The labels of both sides of a comparison, and the prefixes of their figures."""


def shared_tables(by_table: RowsByTable) -> list[Table]:
    makers: dict[str, Callable[[Sequence[MeasuredRow]], Table]] = {
        "arrangements": arrangements, "filters": filters, "coming": attachment, "crowding": interference,
    }  # fmt: skip
    measured = by_table.get("loads", ())
    return [loads(measured), state(measured), *(make(by_table.get(name, ())) for name, make in makers.items())]


def loads(measured: Sequence[MeasuredRow]) -> Table:
    columns: FigureColumns = {
        "together": least("together_seconds"), "whole input": share("tuples", "together_seconds", rate),
        "alone, sum": least("alone_seconds"), "together / alone": lambda row: ratio(paired(row)),
    }  # fmt: skip
    notes = [
        "whole input: rate by the rows of the relations, each counted once however many queries read it",
        "the ratio is the median over pairs of consecutive runs; all answers were compared with DuckDB's",
    ]
    title = "All queries in one dataflow, and each alone"
    return Table("loads", title, ["L x P", *columns], rows(measured, columns), notes)


def paired(measured: MeasuredRow) -> float:
    """Return the median over alternating runs of the time together relative to the sum of the times alone."""
    pairs = zip(measured.figures["together_seconds"], measured.figures["alone_seconds"], strict=True)
    return median([together / alone for together, alone in pairs])


def state(measured: Sequence[MeasuredRow]) -> Table:
    lines = []
    for row in [row for row in measured if row.has_numbers][:1]:
        for label, side in SIDES:
            state_rows, size, peak = (row.least(f"{side}_{name}") for name in ("rows", "bytes", "peak"))
            lines.append([words(label), count(state_rows), _mb(size), row_bytes(size, state_rows), _mb(peak)])
    notes = ["the peak is that of the process, with batches and program; alone: that of the largest query"]
    return Table("state", "State at the end", ["", "rows", "MB", "bytes per row", "peak MB"], lines, notes)


def arrangements(measured: Sequence[MeasuredRow]) -> Table:
    columns: FigureColumns = {
        "rows": number("rows"), "MB": least("bytes", _mb),
        "bytes per row": lambda row: row_bytes(row.least("bytes"), row.least("rows")),
    }  # fmt: skip
    lines = [
        [words(row.name), words(row.row.note), *entries(row, columns.values())]
        for row in _largest_first(measured, "bytes")
    ]
    title = "Arrangements that several queries read"
    return Table("arrangements", title, ["arrangement of", "read by", *columns], lines)


def filters(measured: Sequence[MeasuredRow]) -> Table:
    columns = {
        "separate": number("apart"), "MB separate": least("bytes_apart", _mb), "MB merged": least("bytes_as_one", _mb),
        "wasted probes": number("in_vain"), "filters left to readers": number("left"),
    }  # fmt: skip
    lines = rows(_largest_first(measured, "bytes_apart"), columns)
    notes = ["estimates of the planner, which merges arrangements if that saves 1 MB; a wasted probe counts 8 bytes"]
    return Table("filters", "Arrangements that differ in their filters", ["arrangements of", *columns], lines, notes)


def _largest_first(measured: Sequence[MeasuredRow], figure: str) -> list[MeasuredRow]:
    return sorted(measured, key=lambda row: -max(row.figures.get(figure, [0])))


def attachment(measured: Sequence[MeasuredRow]) -> Table:
    columns = {
        "with its arrangements": least("there"), "with the others' arrangements": least("others"),
        "alone, all rows at once": least("alone"),
    }  # fmt: skip
    notes = ["time to the complete answer, with all rows loaded before; includes the compilation of the plan"]
    if any("peak_bytes" in row.figures for row in measured):  # older versions did not measure it
        columns |= {"MB kept": least("kept_bytes", megabytes), "MB at peak": least("peak_bytes", megabytes)}
        notes.append("MB: the state that is added to the others' arrangements, and the growth of the process meanwhile")
    title = "Time to attach a query while the others run"
    return Table("attachment", title, ["query", *columns], rows(measured, columns), notes)


def interference(measured: Sequence[MeasuredRow]) -> Table:
    columns = {
        "fuel": least("fuel", count), "batches": _batches, "p50 alone": least("alone_p50"),
        "p50 beside": least("beside_p50"), "p99 alone": least("alone_p99"), "p99 beside": least("beside_p99"),
        "p99 ratio": share("beside_p99", "alone_p99", ratio), "max beside": least("beside_max"),
    }  # fmt: skip
    notes = [
        f"each batch of {SMALL_BATCH_ROUNDS} rounds first does `fuel` units of the attachment, each at most 4,096 rows"
    ]
    title = "Batch latencies of the others while a query attaches incrementally"
    return Table("interference", title, ["attached", *columns], rows(measured, columns), notes)


def _batches(measured: MeasuredRow) -> TableEntry:
    entry = count(measured.least("batches"))
    return entry if measured.least("there") else TableEntry(f"more than {entry.text}", entry.value)


def _mb(value: float) -> TableEntry:
    return count(round(value / 1e6))
