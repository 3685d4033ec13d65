"""The table of the suite of Nexmark."""

from __future__ import annotations

from collections.abc import Sequence

from deltamark.harness.console.formatting import megabytes, rate, ratio, short, words
from deltamark.harness.console.table import Entries, Table
from deltamark.harness.results.table_record import MeasuredRow
from deltamark.harness.tables.suites.rows import RowsByTable, entries, least, number, share


def nexmark_tables(by_table: RowsByTable) -> list[Table]:
    return [auctions(by_table.get("nexmark", ()))]


def auctions(measured: Sequence[MeasuredRow]) -> Table:
    """Make the table of queries, with a row for each batch size and number of workers."""
    columns = {
        "tuples": share("tuples", "seconds", rate), "p50": least("p50"), "p99": least("p99"),
        "state MB": least("state_bytes", megabytes), "DuckDB once": least("oracle_seconds"),
        "DuckDB / p50": share("oracle_seconds", "p50", ratio), "compared": number("compared"),
    }  # fmt: skip
    return Table(
        "nexmark", "Nexmark: tuples per second, and latency of batches",
        ["query", "batch", "workers", *columns], [[*_cell(row), *entries(row, columns.values())] for row in measured],
        [
            "batch: logical batches, each of L events, that are fed at once; p50, p99: latencies of these batches",
            "tuples: rows that the query reads, inserted or retracted; state: at the end of the stream, on one worker",
            "DuckDB once: one run of the query over the rows that are live at the end, on one thread",
            "compared: answers that were compared with DuckDB's over the live rows",
        ],
    )  # fmt: skip


def _cell(measured: MeasuredRow) -> Entries:
    """Return the query, the batch size and the number of workers."""
    query, physical, workers = measured.name.split()
    return [words(query), words(short(int(physical))), words(workers)]
