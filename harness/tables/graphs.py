"""The tables of graphs: motifs that are counted and maintained, and distances that loops maintain."""

from __future__ import annotations

from collections.abc import Iterator

from deltamark.harness.console.table import Table, TableEntry, brief, count, rate, ratio, short, words
from deltamark.harness.results import published
from deltamark.harness.tables.relation import Relations, listed
from deltamark.harness.tables.suites import (
    least,
    megabytes,
    named,
    of_table,
    several,
    share,
    shown,
    tenths,
)

MAX_CHANGES = 50_000
"""The most changes of edges of a changing workload."""

WORKERS = (1, 2)

VERTICES = (1, 1000)
"""Vertices per batch."""

KINDS = ("index", "proposals", "lookups", "messages")

SIZES = (16, 256, 4096)
"""Numbers of shards for which the formula of Shares is evaluated."""


def graph_tables(db: Relations) -> Iterator[Table]:
    yield db.table(
        "static", "Motifs in a static graph",
        [
            ("motif", "name", words), least("found", "found", count), least("indexed", "indexed"),
            least("BiGJoin", "seconds_w1"), least("proposals", "proposals", count), least("by hand", "by_hand"),
            share("BiGJoin / by hand", "seconds_w1", "by_hand", ratio),
        ],
        of_table("static"),
        [
            "each edge once, from the vertex of lower degree; every count is checked against another algorithm",
            "by hand: one thread, stamps over a sorted adjacency built before; the fastest of alternating runs",
            ("BiGJoin, 2018, LiveJournal (69M edges): triangles 6.5 s, 1.9 s for the index; EmptyHeaded 1.2 s and "
            "150.3 s"),
            ("on 8 machines: triangles 3.4 s, 38M prefixes; 4-cliques 21.8 s, 350M; Arabesque 69.0 s, 1.46G; 273.7 s, "
            "18.7G"),
        ],
    )  # fmt: skip
    first, last = (f"seconds_w{workers}" for workers in (WORKERS[0], WORKERS[-1]))
    of_workers = {
        "static": "{}, BiGJoin", "at once": "{}, all edges at once", "changing": "triangle, batches of {} changes"
    }  # fmt: skip
    yield db.table(
        "cost", "Workers against one hand-written thread",
        [
            named("work", of_workers), least("by hand", "by_hand"),
            *(share(f"-w{workers}", f"seconds_w{workers}", "batches", brief) for workers in WORKERS),
            share("gain", first, last, ratio),
            several("COST", ["by_hand", "batches", *(f"seconds_w{workers}" for workers in WORKERS)], _fewest),
        ],
        f"""FROM measured r WHERE table_name IN {listed(of_workers)}
            ORDER BY list_position({[*of_workers]}, table_name), id""",
        [
            "COST: the fewest workers that beat one hand-written thread; gain: the most workers over one",
            "while edges change: time of a batch; by hand: a full recount, without building the adjacency",
            "in 2018, triangles of Twitter, BiGJoin needed 2 cores, and Delta-BiGJoin 4",
        ],
    )  # fmt: skip
    indexes = {"static": "BiGJoin, {}, packed", "changing": "delta queries, triangle, after batches of {}"}
    edges = "CASE table_name WHEN 'static' THEN figure['state_rows'] ELSE 2 * figure['edges'] END"
    yield db.table(
        "memory", "Sizes of indexes of edges",
        [
            named("indexes", indexes), least("MB", "state_bytes", megabytes),
            shown("bytes per edge and direction", f"figure['state_bytes'] / {edges}", tenths),
        ],
        f"FROM measured r WHERE table_name IN {listed(indexes)} ORDER BY table_name DESC, id",
        [
            "packed: one direction, for triangles and cliques; delta queries have both",
            "Delta-BiGJoin, 2018: just over eight bytes per edge",
        ],
    )  # fmt: skip
    yield db.table(
        "rounds", "BiGJoin by the size of its rounds",
        [
            named("proposals per round", {"rounds": "{}"}), least("4-cliques", "seconds"),
            least("rounds", "rounds", count), least("most prefixes per level", "most", count),
            least("MB beside the indexes", "held_bytes", megabytes),
        ],
        of_table("rounds"),
        ["BiGJoin, 2018: times are flat from 10K on, and up to 100K only the indexes take memory"],
    )  # fmt: skip
    yield db.table(
        "changing", "Triangles while edges are inserted and deleted",
        [
            named("changes per batch", {"changing": "{}"}),
            *(share(f"-w{workers}", "changes", f"seconds_w{workers}", rate) for workers in WORKERS),
            *(least(f"p99 -w{workers}", f"p99_w{workers}") for workers in WORKERS),
            share("proposals per change", "proposals", "changes", tenths),
        ],
        of_table("changing"),
        [
            "edge changes per second, with the number of triangles read after each batch; p99: latency of a batch",
            f"90% of the edges are loaded first; then equally many are inserted and deleted, at most {MAX_CHANGES:,}",
            "Delta-BiGJoin, 2018, 16 machines (Common Crawl, 64G edges): 1M changes of edges per second",
        ],
    )  # fmt: skip
    one, many = VERTICES
    yield db.table(
        "vertices", "Vertex by vertex",
        [
            ("motif", "name", words), least("found", "found", count), least("vertices", f"times_{one}", count),
            share("time per vertex", f"seconds_{one}", f"times_{one}", brief),
            least("p50", f"p50_{one}"), least("p99", f"p99_{one}"),
            share(f"time per vertex, by {short(many)}", f"seconds_{many}", f"times_{one}", brief),
        ],
        of_table("vertices"),
        [
            "each vertex is inserted with its outgoing edges, and the count of the motif is read",
            ("the post on joins in timely dataflow, from a vertex of LiveJournal, with its edges known before, one "
            "thread:"),
            "triangles 20 to 68 \u00b5s, 10 to 15 \u00b5s by 1000; 6-cliques 87 to 343 \u00b5s",
        ],
    )  # fmt: skip
    yield db.table(
        "hub", "Insertion of a vertex with many edges",
        [
            ("proposer", "name", words), least("time, vertex by vertex", "seconds"),
            least("proposals", "proposals", count),
            share("proposals per change", "proposals", "changes", lambda value: TableEntry(f"{value:,.2f}", value)),
        ],
        of_table("hub"),
        ["differential-dogs3 at such a vertex (LiveJournal): 172,318,129 proposals and 25.9 s fixed, 56 ms least"],
    )  # fmt: skip
    yield db.table(
        "skew", "Loads of virtual shards",
        [
            ("graph", "name", words), least("edges", "edges", count), least("found", "found", count),
            *(several(kind, [f"{kind}_most", f"{kind}_all", "shards"], _largest) for kind in KINDS),
            share("busiest step", "busiest", "batch", ratio), least("rounds", "rounds", count),
            *(
                shown(f"{kind}, total", f"figure['{kind}_all'] / greatest(figure['{kind}_plain'], 1)", ratio)
                for kind in ("index", "lookups", "messages")
            ),
        ],
        of_table("skew"),
        [
            "the largest load of a shard, and its ratio to the mean; total: of all shards, relative to BiGJoin",
            "busiest step: the most messages to one shard between two barriers, relative to its proposals per round",
            "index: entries; lookups: counts, resolutions and validations; messages: sent by a shard or received",
        ],
    )  # fmt: skip
    yield db.table(
        "shares", "Copies of an edge on all shards together",
        [
            ("motif", "name", words), least("rho*", "cover", lambda cover: TableEntry(f"{cover:g}", cover)),
            *(
                least(f"Shares, {shards} shards", f"held_{shards}", lambda held: TableEntry(f"{held:,.1f}", held))
                for shards in SIZES
            ),
            least("BiGJoin", "indexes", count), shown("BiGJoin-S, at most", "3 * figure['indexes']", count),
        ],
        of_table("shares"),
        [
            "copies of each edge, for any graph; Shares by its formula: atoms * shards^(1 - 1/rho*)",
            "ours do not depend on the number of shards: one entry per index (BiGJoin), or up to three (BiGJoin-S)",
            "the paper says shards^(1/2) for triangles where it introduces Shares; its own formula gives shards^(1/3)",
        ],
    )  # fmt: skip


def _fewest(figures: list[float]) -> TableEntry:
    """Return the smallest number of workers that is faster than the hand-written thread."""
    hand, batches, *seconds = figures
    enough = [workers for workers, each in zip(WORKERS, seconds, strict=True) if each / batches <= hand]
    return TableEntry(str(enough[0]), enough[0]) if enough else TableEntry(f"more than {WORKERS[-1]}")


def _largest(figures: list[float]) -> TableEntry:
    most, whole, shards = figures
    return TableEntry(f"{most:,.0f} ({most * shards / max(whole, 1):.2f}x)", int(most))


PUBLISHED = "10,000,000 nodes, 100,000,000 edges"
"""The dataset of the published figures."""


def loop_tables(db: Relations) -> Iterator[Table]:
    """Make the tables of distances beside published times; rows of changes have their number per time as name."""
    theirs = {figure.label: figure.value for figure in published.figures() if figure.source == "arrangements"}
    loads, changes = (f"FROM measured r WHERE table_name = 'distances' AND {test} regexp_full_match(name, '[0-9]+')"
                      for test in ("NOT", ""))  # fmt: skip
    ours = "figure[line.figure_name]"
    yield db.table(
        "distances", "Distances",
        [
            ("", "line.label", words), shown("ours", ours, brief), ("theirs", "line.theirs", brief),
            (
                "theirs / ours",
                f"CASE WHEN why IS NULL AND starts_with(dataset, '{PUBLISHED}') THEN line.theirs / {ours} END", ratio,
            ),
        ],
        loads.replace("r WHERE", f"""r CROSS JOIN (VALUES (1, 'the index alone', 'index', NULL),
            (2, 'from scratch', 'scratch', {theirs['from scratch']}::DOUBLE),
            (3, 'from scratch, with fresh memory', 'fresh', NULL),
            (4, 'attachment', 'attached', {theirs['attachment']})) line(number, label, figure_name, theirs) WHERE""")
        + " ORDER BY id, line.number",
        [
            f"theirs: {published.sources()['arrangements'].label}",
            "from scratch: the edges are indexed, in batches of 10M, then the roots are inserted",
            "with fresh memory: as in a new process; otherwise a process uses the memory of an earlier dataflow again",
            "attachment: the edges are indexed before; the time includes the compilation of the plan",
        ],
    )  # fmt: skip
    yield db.table(
        "distances-state", "State of distances",
        [
            ("", "name", words), least("index MB", "index_bytes", megabytes),
            least("distances MB", "more_bytes", megabytes),
            share("bytes per node reached", "more_bytes", "reached", count),
            least("nodes reached", "reached", count), least("farthest", "farthest", count),
        ],
        f"{loads} ORDER BY id",
    )  # fmt: skip
    yield db.table(
        "distances-updates", "Distances while edges are inserted and deleted",
        [
            ("changes per time", "name", words), least("times", "batches", count),
            share("time of each", "seconds", "batches", brief),
            shown("changes per second", "name::DOUBLE * figure['batches'] / figure['seconds']", rate),
        ],
        f"{changes} ORDER BY id",
        ["half of the changes delete an edge, half insert one; the answer is read after each time"],
    )  # fmt: skip
