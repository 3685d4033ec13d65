"""Measure motifs in graphs: without changes, with them, at a hub, by sizes of batches; beside what is published.

Every count is held against another way to it: hand-written loops, delta queries, BiGJoin. Exit code 1: one was wrong.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from harness import graphbench as measured
from harness import skew
from harness.graphs import Edges, open_graph, oriented
from harness.options import numbers
from harness.progress import ProgressLine
from harness.tables.entry import Entry, Table, brief, count, megabytes, rate, ratio, short, words
from harness.tables.render import FORMATS


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--scale", type=int, default=16, metavar="S", help="of the graph rmat:S (default 16)")
    add("--hub", type=int, default=13_127, metavar="N", help="edges of the hub (default 13127)")
    sizes = (1, 10, 100, 1000, 10_000)
    add(
        "--batches", type=numbers, default=sizes, metavar="N,N", help="changes of edges at a time (default 1 to 100000)"
    )
    add("--data", type=Path, default=Path("data"), metavar="DIR", help="where graphs lie (default data)")
    add("--master", default="local[*]", metavar="URL", help="Spark master that makes them (default local[*])")
    add("--format", choices=FORMATS, default="text", help="how to print the tables (default text)")


def run(chosen: argparse.Namespace) -> int:
    with ProgressLine() as progress:
        opened = [
            open_graph(name, chosen.data, chosen.master, progress.report)
            for name in (f"rmat:{chosen.scale}", f"hub:{chosen.hub}", *skew.planted(chosen.scale, chosen.hub))
        ]
    edges, hub = oriented(opened[0]), opened[1]
    print(f"{edges.name}: {len(edges):,} edges; load before {os.getloadavg()[0]:.2f}\n", flush=True)
    show = FORMATS[chosen.format]
    tables: list[Callable[[], Table]] = [
        lambda: _static(edges), lambda: _rounds(edges), lambda: _delta(edges, chosen.batches), lambda: _hub(hub),
        lambda: skew.loads("triangle", [*opened[2:], oriented(opened[-1])]), skew.shares,
    ]  # fmt: skip
    try:
        for table in tables:
            print(show(table()), flush=True)
    except measured.WrongError as error:
        print(f"WRONG: {error}")
        return 1
    return 0


def _static(edges: Edges) -> Table:
    rows: list[list[Entry]] = []
    for each in measured.static(edges):
        size = each.index_bytes / each.indexed_rows
        rows.append([
            words(each.motif), count(each.found), brief(each.index), brief(each.seconds), count(each.proposals),
            brief(each.by_hand), ratio(each.seconds / each.by_hand), Entry(f"{size:.1f}", size),
        ])  # fmt: skip
    headers = ["motif", "found", "indexed", "BiGJoin", "proposals", "by hand", "BiGJoin / by hand", "bytes a row"]
    notes = [
        "each pair of vertices once, from the lower degree on; one thread; the fastest of three runs by turns",
        "by hand: stamps over sorted adjacency, made before; a row: of an index, an edge in one direction",
        "BiGJoin, 2018: 2 cores beat one good thread at triangles (Twitter), and 4 for Delta-BiGJoin",
    ]
    return Table("static", "Motifs in a graph that does not change", headers, rows, notes)


def _rounds(edges: Edges) -> Table:
    rows = [
        [
            words(short(each.batch)),
            brief(each.seconds),
            count(each.rounds),
            count(each.most),
            megabytes(each.held_bytes),
        ]
        for each in measured.rounds(edges)
    ]
    headers = ["proposals of a round", "4-cliques", "rounds", "most prefixes of a level", "MB beside the indexes"]
    notes = ["BiGJoin, 2018: times are flat from 10K on, and memory is that of the indexes up to 100K"]
    return Table("rounds", "BiGJoin by the size of its batches", headers, rows, notes)


def _delta(edges: Edges, batches: tuple[int, ...]) -> Table:
    rows = [
        [
            words(short(each.batch)), rate(each.updates / each.seconds),
            Entry(f"{each.proposals / each.updates:.0f}", each.proposals / each.updates),
        ]
        for each in measured.delta(edges, batches)
    ]  # fmt: skip
    headers = ["changes at a time", "changes of edges", "proposals a change"]
    notes = [
        "nine edges of ten are loaded first; then as many come as go; one worker; 50,000 changes of a size at most",
        "Delta-BiGJoin, 2018, on 16 machines (Common Crawl, 64G edges): 1M changes of edges a second",
    ]
    return Table("delta", "Triangles while edges come and go", headers, rows, notes)


def _hub(hub: Edges) -> Table:
    rows = [
        [words(each.variant), brief(each.seconds), count(each.proposals), Entry(f"{each.proposals / each.updates:.2f}")]
        for each in measured.hub(hub)
    ]
    headers = ["who proposes", "vertices, one by one", "proposals", "proposals a change"]
    notes = ["differential-dogs3 at such a vertex (LiveJournal): 172,318,129 proposals and 25.9 s fixed, 56 ms least"]
    return Table("hub", f"A vertex with {np.bincount(hub.src).max():,} edges comes", headers, rows, notes)
