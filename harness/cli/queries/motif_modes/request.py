"""The request of one run of `motif`, and the check of its counts."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass

from deltamark.harness.console.console import say, warn
from deltamark.harness.suites.graphs.counting import oracle
from deltamark.harness.suites.graphs.graph_data import WORKLOADS, Edges, EdgeStream
from deltamark.queries.graph.pattern import Pattern


@dataclass(frozen=True)
class MotifRequest:
    """The settings of a run, and the graph. rewritten: the motif over triangles with --triangles, else the motif."""

    args: Namespace
    pattern: Pattern
    rewritten: Pattern
    edges: Edges


def is_right(pattern: Pattern, stream: EdgeStream, fed: int, total: int) -> bool:
    """Compare a count after `fed` changes of edges with DuckDB's, and print a difference."""
    expected = oracle(pattern, stream, fed)
    if expected != total:
        warn(f"WRONG: {total:,} after {fed:,} changes of edges, DuckDB counts {expected:,}")
    return expected == total


def is_static_count_right(request: MotifRequest, total: int) -> bool:
    """Compare the count in a static graph with DuckDB's, if --check is given."""
    edges = request.edges
    return not request.args.check or is_right(request.pattern, WORKLOADS["load"](edges, 1), len(edges), total)


def report_static_count(request: MotifRequest, total: int) -> int:
    """Check and print the count in a static graph; return the exit code."""
    if not is_static_count_right(request, total):
        return 2
    say(f"{total:,}{' (verified with DuckDB)' if request.args.check else ''}")
    return 0
