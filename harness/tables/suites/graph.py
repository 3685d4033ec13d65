"""Tables of the suite of graphs."""

from __future__ import annotations

from deltamark.harness.console.formatting import TableEntry, brief, megabytes, rate, ratio, short, words
from deltamark.harness.console.table import Entries, Table
from deltamark.harness.results.table_record import MeasuredRow
from deltamark.harness.suites.graphs.cells import VERTICES, WORKERS
from deltamark.harness.suites.graphs.counting import MAX_CHANGES
from deltamark.harness.tables.suites import skew
from deltamark.harness.tables.suites.rows import (
    RowsByTable,
    entry_of,
    least,
    number,
    rows,
    share,
    short_name,
    tenths,
)

ORIENTED = "each edge once, from the vertex of lower degree; every count is checked against another algorithm"
HAND = "by hand: one thread, stamps over a sorted adjacency built before; the fastest of alternating runs"


def graph_tables(by_table: RowsByTable) -> list[Table]:
    return [
        static(by_table), cost(by_table), memory(by_table), rounds(by_table), changing(by_table), vertices(by_table),
        hub(by_table), skew.loads(by_table.get("skew", ())), skew.shares(by_table.get("shares", ())),
    ]  # fmt: skip


def static(by_table: RowsByTable) -> Table:
    columns = {
        "found": number("found"), "indexed": least("indexed"), "BiGJoin": least("seconds_w1"),
        "proposals": number("proposals"), "by hand": least("by_hand"),
        "BiGJoin / by hand": share("seconds_w1", "by_hand", ratio),
    }  # fmt: skip
    notes = [
        ORIENTED, HAND,
        "BiGJoin, 2018, LiveJournal (69M edges): triangles 6.5 s, 1.9 s for the index; EmptyHeaded 1.2 s and 150.3 s",
        "on 8 machines: triangles 3.4 s, 38M prefixes; 4-cliques 21.8 s, 350M; Arabesque 69.0 s, 1.46G; 273.7 s, 18.7G",
    ]  # fmt: skip
    of_motifs = rows(by_table.get("static", ()), columns)
    return Table("static", "Motifs in a static graph", ["motif", *columns], of_motifs, notes)


def cost(by_table: RowsByTable) -> Table:
    """Make the table of numbers of workers that beat one hand-written thread."""
    names = {
        "static": "{}, BiGJoin".format, "at once": "{}, all edges at once".format,
        "changing": lambda size: f"triangle, batches of {short_name(size)} changes",
    }  # fmt: skip
    of_workers = {f"-w{workers}": share(f"seconds_w{workers}", "batches", brief) for workers in WORKERS}
    gain = share(f"seconds_w{WORKERS[0]}", f"seconds_w{WORKERS[-1]}", ratio)
    columns = {"by hand": least("by_hand"), **of_workers, "gain": gain, "COST": _cost}
    lines = [line for table, name in names.items() for line in rows(by_table.get(table, ()), columns, name)]
    notes = [
        "COST: the fewest workers that beat one hand-written thread; gain: the most workers over one",
        "while edges change: time of a batch; by hand: a full recount, without building the adjacency",
        "in 2018, triangles of Twitter, BiGJoin needed 2 cores, and Delta-BiGJoin 4",
    ]
    return Table("cost", "Workers against one hand-written thread", ["work", *columns], lines, notes)


def _cost(measured: MeasuredRow) -> TableEntry:
    """Return the smallest number of workers that is faster than the hand-written thread."""
    hand, batches = measured.least("by_hand"), measured.least("batches")
    enough = [workers for workers in WORKERS if measured.least(f"seconds_w{workers}") / batches <= hand]
    return TableEntry(str(enough[0]), enough[0]) if enough else TableEntry(f"more than {WORKERS[-1]}")


def memory(by_table: RowsByTable) -> Table:
    """Make the table of the sizes of indexes."""
    packed = {
        "MB": least("state_bytes", megabytes),
        "bytes per edge and direction": share("state_bytes", "state_rows", tenths),
    }
    lines = rows(by_table.get("static", ()), packed, "BiGJoin, {}, packed".format)
    lines += [_delta_indexes(row) for row in by_table.get("changing", ())]
    notes = [
        "packed: one direction, for triangles and cliques; delta queries have both",
        "Delta-BiGJoin, 2018: just over eight bytes per edge",
    ]
    return Table("memory", "Sizes of indexes of edges", ["indexes", *packed], lines, notes)


def _delta_indexes(measured: MeasuredRow) -> Entries:
    name = words(f"delta queries, triangle, after batches of {short_name(measured.name)}")
    size = entry_of(measured, lambda row: tenths(row.least("state_bytes") / (2 * row.least("edges"))))
    return [name, entry_of(measured, least("state_bytes", megabytes)), size]


def rounds(by_table: RowsByTable) -> Table:
    columns = {
        "4-cliques": least("seconds"), "rounds": number("rounds"), "most prefixes per level": number("most"),
        "MB beside the indexes": least("held_bytes", megabytes),
    }  # fmt: skip
    lines = rows(by_table.get("rounds", ()), columns, short_name)
    notes = ["BiGJoin, 2018: times are flat from 10K on, and up to 100K only the indexes take memory"]
    return Table("rounds", "BiGJoin by the size of its rounds", ["proposals per round", *columns], lines, notes)


def changing(by_table: RowsByTable) -> Table:
    columns = {
        **{f"-w{workers}": share("changes", f"seconds_w{workers}", rate) for workers in WORKERS},
        **{f"p99 -w{workers}": least(f"p99_w{workers}") for workers in WORKERS},
        "proposals per change": share("proposals", "changes", tenths),
    }
    lines = rows(by_table.get("changing", ()), columns, short_name)
    notes = [
        "edge changes per second, with the number of triangles read after each batch; p99: latency of a batch",
        f"90% of the edges are loaded first; then equally many are inserted and deleted, at most {MAX_CHANGES:,}",
        "Delta-BiGJoin, 2018, 16 machines (Common Crawl, 64G edges): 1M changes of edges per second",
    ]
    title = "Triangles while edges are inserted and deleted"
    return Table("changing", title, ["changes per batch", *columns], lines, notes)


def vertices(by_table: RowsByTable) -> Table:
    one, many = VERTICES
    columns = {
        "found": number("found"), "vertices": number(f"times_{one}"),
        "time per vertex": share(f"seconds_{one}", f"times_{one}", brief),
        "p50": least(f"p50_{one}"), "p99": least(f"p99_{one}"),
        f"time per vertex, by {short(many)}": share(f"seconds_{many}", f"times_{one}", brief),
    }  # fmt: skip
    notes = [
        "each vertex is inserted with its outgoing edges, and the count of the motif is read",
        "the post on joins in timely dataflow, from a vertex of LiveJournal, with its edges known before, one thread:",
        "triangles 20 to 68 us, 10 to 15 us by 1000; 6-cliques 87 to 343 us",
    ]
    return Table(
        "vertices", "Vertex by vertex", ["motif", *columns], rows(by_table.get("vertices", ()), columns), notes
    )


def hub(by_table: RowsByTable) -> Table:
    columns = {
        "time, vertex by vertex": least("seconds"), "proposals": number("proposals"),
        "proposals per change": share("proposals", "changes", lambda value: TableEntry(f"{value:,.2f}", value)),
    }  # fmt: skip
    notes = ["differential-dogs3 at such a vertex (LiveJournal): 172,318,129 proposals and 25.9 s fixed, 56 ms least"]
    lines = rows(by_table.get("hub", ()), columns)
    return Table("hub", "Insertion of a vertex with many edges", ["proposer", *columns], lines, notes)
