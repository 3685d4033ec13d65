"""Measure breadth-first distances over a random graph, from scratch and attached to a live index of its edges.

All answers are compared with numpy's. Exit code 2: one was wrong.
"""

from __future__ import annotations

import argparse
import os

import numpy as np

from harness import published
from harness.options import at_least_one, numbers, size
from harness.reach import Measured, measure, random_graph
from harness.tables.entry import NOTHING, Table, brief, count, rate, ratio, words
from harness.tables.render import FORMATS


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--nodes", type=size, default=1_000_000, help="how many (default 1M; the post has 10M)")
    add("--edges", type=size, default=10_000_000, help="how many (default 10M; the post has 100M)")
    add("--roots", type=at_least_one, default=1, help="how many (default 1)")
    add("--batches", type=numbers, default=(1, 100, 10_000), metavar="B,B", help="changes a time (default 1,100,10000)")
    add("--changes", type=size, default=100_000, help="of edges for each size of batches (default 100K)")
    add("--seed", type=int, default=0, help="of the graph and its changes (default 0)")
    add("--format", choices=FORMATS, default="text", help="how to print the tables (default text)")


def run(chosen: argparse.Namespace) -> int:
    print(
        f"{chosen.nodes:,} nodes, {chosen.edges:,} edges, {chosen.roots:,} roots, 1 worker; "
        f"load before {os.getloadavg()[0]:.2f}",
        flush=True,
    )
    graph = random_graph(chosen.nodes, chosen.edges, chosen.seed)
    roots = np.random.default_rng(chosen.seed).choice(chosen.nodes, min(chosen.roots, chosen.nodes), replace=False)
    found = measure(graph, roots, chosen.batches, chosen.changes, chosen.seed)
    if found.wrong:
        print(f"WRONG: {found.wrong}")
        return 2
    print(f"{found.reached:,} nodes are reached, the farthest at {found.farthest}; all answers are numpy's\n")
    show = FORMATS[chosen.format]
    print(show(_speed(found, alike=(chosen.nodes, chosen.edges) == (10_000_000, 100_000_000))))
    print(show(_memory(found)))
    print(show(_updates(found)))
    return 0


def _speed(found: Measured, *, alike: bool) -> Table:
    theirs = {each.label: each.value for each in published.figures() if each.source == "arrangements"}
    rows = [[words("the index alone"), brief(found.index), NOTHING, NOTHING]]
    for label, ours in (("from scratch", found.scratch), ("attachment", found.attached)):
        beside = ratio(theirs[label] / ours) if alike else NOTHING
        rows.append([words(label), brief(ours), brief(theirs[label]), beside])
    notes = [
        f"theirs: {published.sources()['arrangements'].label}",
        "from scratch: the edges are indexed, in batches of 10M, and then the roots come",
        "attachment: the edges are indexed and the roots given; the plan is compiled within the time",
    ]
    if not alike:
        notes.append("theirs is of 10M nodes and 100M edges, ours is not")
    return Table("reach", "Distances", ["", "ours", "theirs", "theirs / ours"], rows, notes)


def _memory(found: Measured) -> Table:
    rows = [
        [words("index of the edges"), count(found.index_bytes / 1e6), NOTHING],
        [words("distances, more than that"), count(found.more_bytes / 1e6), count(found.more_bytes / found.reached)],
    ]
    return Table("reach memory", "What is kept", ["", "MB", "bytes a node that is reached"], rows)


def _updates(found: Measured) -> Table:
    rows = [
        [count(each.size), count(each.batches), brief(each.seconds / each.batches),
         rate(each.size * each.batches / each.seconds)]
        for each in found.updates
    ]  # fmt: skip
    headers = ["changes a time", "times", "a time takes", "updates"]
    notes = ["half of the changes delete an edge, half insert one; each time's answer is taken"]
    return Table("reach updates", "Edges change", headers, rows, notes)
