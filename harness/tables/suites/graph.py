"""Tables of the suite of graphs."""

from __future__ import annotations

from deltamark.harness.console.formatting import TableEntry, brief, megabytes, rate, ratio, short, words
from deltamark.harness.console.table import Row, Table
from deltamark.harness.results.table_record import MeasuredRow
from deltamark.harness.suites.graphs.cells import VERTICES, WORKERS
from deltamark.harness.suites.graphs.counting import MAX_CHANGES
from deltamark.harness.tables.suites import skew
from deltamark.harness.tables.suites.rows import RowsByTable, least, number, rows, share, shown_or_why

ORIENTED = "each edge once, from the vertex of lower degree; every count is checked against another algorithm"
HAND = "by hand: one thread, stamps over a sorted adjacency built before; the fastest of alternating runs"


def graph_tables(by_table: RowsByTable) -> list[Table]:
    return [
        static(by_table), cost(by_table), memory(by_table), rounds(by_table), changing(by_table), vertices(by_table),
        hub(by_table), skew.loads(by_table.get("skew", ())), skew.shares(by_table.get("shares", ())),
    ]  # fmt: skip


def static(by_table: RowsByTable) -> Table:
    lines = rows(
        by_table.get("static", ()), number("found"), least("indexed"), least("seconds_w1"), number("proposals"),
        least("by_hand"), share("seconds_w1", "by_hand", ratio),
    )  # fmt: skip
    headers = ["motif", "found", "indexed", "BiGJoin", "proposals", "by hand", "BiGJoin / by hand"]
    notes = [
        ORIENTED, HAND,
        "BiGJoin, 2018, LiveJournal (69M edges): triangles 6.5 s, 1.9 s for the index; EmptyHeaded 1.2 s and 150.3 s",
        "on 8 machines: triangles 3.4 s, 38M prefixes; 4-cliques 21.8 s, 350M; Arabesque 69.0 s, 1.46G; 273.7 s, 18.7G",
    ]  # fmt: skip
    return Table("static", "Motifs in a static graph", headers, lines, notes)


def cost(by_table: RowsByTable) -> Table:
    """Make the table of numbers of workers that beat one good thread."""
    lines = [_by_workers(f"{each.name}, BiGJoin", each) for each in by_table.get("static", ())]
    lines += [_by_workers(f"{each.name}, all edges at once", each) for each in by_table.get("at once", ())]
    lines += [
        _by_workers(f"triangle, {_size(each.name)} changes at a time", each) for each in by_table.get("changing", ())
    ]
    headers = ["what", "by hand", *(f"-w{workers}" for workers in WORKERS), "gain", "COST"]
    notes = [
        "COST: the fewest workers that beat one hand-written thread; gain: the most workers over one",
        "while edges change: time of a batch; by hand: a full recount, without building the adjacency",
        "in 2018, triangles of Twitter, BiGJoin needed 2 cores, and Delta-BiGJoin 4",
    ]
    return Table("cost", "Against one hand-written thread, and over workers", headers, lines, notes)


def _by_workers(name: str, measured: MeasuredRow) -> Row:
    first, last = (f"seconds_w{WORKERS[at]}" for at in (0, -1))
    batches = (share(f"seconds_w{workers}", "batches", brief) for workers in WORKERS)
    shows = [least("by_hand"), *batches, share(first, last, ratio), _cost]
    return [words(name), *(shown_or_why(measured, show) for show in shows)]


def _cost(measured: MeasuredRow) -> TableEntry:
    """Return the smallest number of workers that is faster than the hand-written thread."""
    hand, batches = measured.least("by_hand"), measured.least("batches")
    enough = [workers for workers in WORKERS if measured.least(f"seconds_w{workers}") / batches <= hand]
    return TableEntry(str(enough[0]), enough[0]) if enough else TableEntry(f"more than {WORKERS[-1]}")


def memory(by_table: RowsByTable) -> Table:
    """Make the table of the sizes of indexes."""
    lines = rows(
        by_table.get("static", ()), least("state_bytes", megabytes), share("state_bytes", "state_rows", _tenths),
        name=lambda motif: f"BiGJoin, {motif}, packed",
    )  # fmt: skip
    for each in by_table.get("changing", ()):
        size = shown_or_why(each, lambda it: _tenths(it.least("state_bytes") / (2 * it.least("edges"))))
        total = shown_or_why(each, least("state_bytes", megabytes))
        lines.append([words(f"delta queries, triangle, after changes by {_size(each.name)}"), total, size])
    headers = ["indexes", "MB", "bytes an edge and direction"]
    notes = [
        "packed: one direction, for triangles and cliques; delta queries have both",
        "Delta-BiGJoin, 2018: just over eight bytes an edge",
    ]
    return Table("memory", "Sizes of indexes of edges", headers, lines, notes)


def rounds(by_table: RowsByTable) -> Table:
    lines = rows(
        by_table.get("rounds", ()), least("seconds"), number("rounds"), number("most"), least("held_bytes", megabytes),
        name=_size,
    )  # fmt: skip
    headers = ["proposals of a round", "4-cliques", "rounds", "most prefixes of a level", "MB beside the indexes"]
    notes = ["BiGJoin, 2018: times are flat from 10K on, and memory is that of the indexes up to 100K"]
    return Table("rounds", "BiGJoin by the size of its rounds", headers, lines, notes)


def changing(by_table: RowsByTable) -> Table:
    of = by_table.get("changing", ())
    lines = rows(
        of, *(share("changes", f"seconds_w{workers}", rate) for workers in WORKERS),
        *(least(f"p99_w{workers}") for workers in WORKERS), share("proposals", "changes", _tenths), name=_size,
    )  # fmt: skip
    names = [f"-w{workers}" for workers in WORKERS]
    headers = ["changes at a time", *names, *(f"p99 {name}" for name in names), "proposals a change"]
    notes = [
        "edge changes per second, with the number of triangles read after each batch; p99: latency of a batch",
        f"90% of the edges are loaded first; then equally many are inserted and deleted, at most {MAX_CHANGES:,}",
        "Delta-BiGJoin, 2018, 16 machines (Common Crawl, 64G edges): 1M changes of edges a second",
    ]
    return Table("changing", "Triangles while edges are inserted and deleted", headers, lines, notes)


def vertices(by_table: RowsByTable) -> Table:
    one, many = VERTICES
    shown = [
        number("found"), number(f"times_{one}"), share(f"seconds_{one}", f"times_{one}", brief),
        *(least(f"{point}_{one}") for point in ("p50", "p99")), share(f"seconds_{many}", f"times_{one}", brief),
    ]  # fmt: skip
    headers = ["motif", "found", "vertices", "a vertex", "p50", "p99", f"a vertex of {short(many)}"]
    notes = [
        "each vertex is inserted with its outgoing edges, and the count of the motif is read",
        "the post on joins in timely dataflow, from a vertex of LiveJournal, its edges known before, one thread:",
        "triangles 20 to 68 us, 10 to 15 us by 1000; 6-cliques 87 to 343 us",
    ]  # fmt: skip
    return Table("vertices", "Vertex by vertex", headers, rows(by_table.get("vertices", ()), *shown), notes)


def hub(by_table: RowsByTable) -> Table:
    shown = (
        least("seconds"),
        number("proposals"),
        share("proposals", "changes", lambda each: TableEntry(f"{each:,.2f}", each)),
    )
    headers = ["who proposes", "vertices, one by one", "proposals", "proposals a change"]
    notes = ["differential-dogs3 at such a vertex (LiveJournal): 172,318,129 proposals and 25.9 s fixed, 56 ms least"]
    return Table("hub", "Insertion of a vertex with many edges", headers, rows(by_table.get("hub", ()), *shown), notes)


def _size(row: str) -> str:
    return short(int(row)) if row.isdecimal() else row


def _tenths(value: float) -> TableEntry:
    return TableEntry(f"{value:.1f}", value)
