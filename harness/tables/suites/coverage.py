"""Tables of the suite of coverage: the matrix of queries and engines, and the grade of each engine."""

from __future__ import annotations

from collections.abc import Sequence

from deltamark.harness.console.formatting import NOTHING, TableEntry, count, words
from deltamark.harness.console.table import Table
from deltamark.harness.peers.manifest import PEERS, peer
from deltamark.harness.results.table_record import MeasuredRow
from deltamark.harness.suites.coverage.grading import GRADES
from deltamark.harness.tables.entry import why
from deltamark.harness.tables.suites.rows import RowsByTable

REFUSED = "refused: "
"""The beginning of the note of a refused query."""

GRADE_WORDS = {
    "times": "at every logical time", "batches": "at the end of every batch", "end": "only at the end of the stream",
    "wrong": "WRONG",
}  # fmt: skip
"""The moments at which the answers of an engine are right."""


def coverage_tables(by_table: RowsByTable) -> list[Table]:
    measured = by_table.get("coverage", ())
    refused = refusals(measured)
    return [coverage(measured), consistency(measured), *([refused] if refused.rows else [])]


def coverage(measured: Sequence[MeasuredRow]) -> Table:
    """Make the matrix: a row for each query, and a column for each engine."""
    by_cell = {_cell(row): row for row in measured}
    engines = list(dict.fromkeys(engine for _, engine in by_cell))
    queries = sorted({query for query, _ in by_cell})
    rows = [[words(query), *(_entry(by_cell.get((query, engine))) for engine in engines)] for query in queries]
    notes = [
        "maintained: the answer is updated; recomputed: the query runs again after each batch",
        "refused: the engine or its adapter does not support the query; WRONG: an answer differs from DuckDB's",
    ]
    return Table("coverage", "Coverage: how each engine answers each query", ["query", *engines], rows, notes)


def consistency(measured: Sequence[MeasuredRow]) -> Table:
    """Make the table of engines: how many queries each answers, and when its answers are right."""
    rows = []
    for engine in dict.fromkeys(_cell(row)[1] for row in measured):
        own = [row for row in measured if _cell(row)[1] == engine]
        graded = [row for row in own if row.has_numbers and row.figures]
        grade = GRADES[min((int(row.least("grade")) for row in graded), default=0)]
        compared = sum(int(row.least("compared")) for row in graded)
        failed = sum(not row.has_numbers for row in own)
        shown = [count(number) for number in (len(graded), len(own) - len(graded) - failed, failed, compared)]
        rows.append([words(engine), words(GRADE_WORDS[grade]) if graded else NOTHING, *shown])
    return Table(
        "consistency", "Consistency: when the answers of an engine are right",
        ["engine", "right", "queries", "refused", "failed", "compared answers"], rows,
        ["workloads insert, window:500 and refresh:5; the grade of an engine is that of its worst query"],
    )  # fmt: skip


def refusals(measured: Sequence[MeasuredRow]) -> Table:
    """Make the table of refused queries: the reason that the engine gives, and that of the manifest of a peer."""
    rows = []
    for row in measured:
        query, engine = _cell(row)
        expected = peer(engine).manifest.refuses.get(query, "") if engine in PEERS else ""
        refused = row.has_numbers and not row.figures
        if refused or expected:
            said = row.row.note.removeprefix(REFUSED) if refused else "not refused"
            rows.append([words(engine), words(query), words(said), words(expected) if expected else NOTHING])
    return Table(
        "refusals", "Refusals: queries that engines do not support", ["engine", "query", "reason", "manifest"], rows,
        ["reason: what the engine said; manifest: what the manifest of the peer expects"],
    )  # fmt: skip


def _cell(measured: MeasuredRow) -> tuple[str, str]:
    query, _, engine = measured.name.partition(" ")
    return query, engine


def _entry(measured: MeasuredRow | None) -> TableEntry:
    if measured is None:
        return NOTHING
    if not measured.has_numbers:
        return why(measured.record)
    if not measured.figures:
        return words("refused")
    if GRADES[int(measured.least("grade"))] == "wrong":
        return words("WRONG")
    return words("recomputed" if measured.least("recomputed") else "maintained")
