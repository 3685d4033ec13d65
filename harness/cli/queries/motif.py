"""Count or list a motif in a graph, while edges change or in a static graph.

A motif is a name (triangle, cyclic-triangle, 4-clique, 5-clique, 6-clique, diamond, house), or a list of atoms and
conditions such as "e(a,b), e(b,c), e(a,c), a<b". A graph is generated (such as rmat:16), or read from a file of edges.
Graphs are multisets: a repeated edge counts twice (once(a,b) counts it once), and an edge from a vertex to itself is an
edge like any other. Exit code 2 means that a count was wrong.

Example: make motif MOTIF=triangle GRAPH=rmat:16 CHECK=1
"""

from __future__ import annotations

import argparse
from pathlib import Path

from deltamark.dataflow.language.motif import VARIANTS
from deltamark.datagen.graphs.generator import KINDS
from deltamark.datagen.make import Wanted
from deltamark.errors import DeltamarkError, unknown
from deltamark.harness.cli.options import MAX_BATCHES, add_master, batch_size, whole, worker_count
from deltamark.harness.cli.queries.motif_modes import changing, spark, static, virtual_shards
from deltamark.harness.cli.queries.motif_modes.request import MotifRequest
from deltamark.harness.console.progress import ProgressLine
from deltamark.harness.engines.registry import DEFAULT, PLAN_ENGINES, capabilities
from deltamark.harness.suites.graphs.counting import triangular
from deltamark.harness.suites.graphs.graph_data import WORKLOADS, open_graph, oriented
from deltamark.harness.suites.graphs.spark_motifs import INDEXES
from deltamark.queries.graph.motifs import motif

SHOWN = ("count", "rows", "lists")
GRAPHS = ", ".join(f"{kind}:N" for kind in KINDS)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("motif", help="name, or atoms and conditions")
    add = parser.add_argument_group("graph").add_argument
    add("--graph", default="rmat:12", help=f"{GRAPHS} or a file of edges")
    add("--data", type=Path, default=Path("data"), metavar="DIR", help="directory of generated graphs")
    add("--orient", action="store_true", help="keep each undirected edge once, from the vertex of lower degree")
    text = "load: all edges at once; insert: in batches; half: preload 90%, then insert and delete; nodes: by vertices"
    add("--workload", default="load", help=text)
    text = "changes of edges per batch; with --static proposals per round (default: 10000; 100000; on shards 1000)"
    add("--batch", type=batch_size, metavar="N", help=text)
    group = parser.add_argument_group("algorithm")
    add = group.add_argument
    add("--static", action="store_true", help="load all edges, then find the motif by BiGJoin")
    add("--triangles", action="store_true", help="maintain all triangles, and find the motif by joining them")
    text = "least: the index with the fewest values proposes; fixed: the first atom's; binary: joins of two relations"
    add("--variant", choices=VARIANTS, default=VARIANTS[0], help=text)
    add("--engine", choices=PLAN_ENGINES, default=DEFAULT, help="engine")
    add("--workers", type=worker_count, default=1, metavar="W", help="number of workers")
    text = "number of shards on Spark (default: 2); with --static: of virtual shards, whose loads are printed"
    add("--shards", type=worker_count, metavar="N", help=text)
    text = "on Spark: broadcast to every shard, or exchange by key; auto: broadcast if they fit into an executor"
    add("--indexes", choices=INDEXES, default=INDEXES[0], help=text)
    add_master(group)
    add = parser.add_argument_group("output").add_argument
    text = "count, rows, or with --static lists: compact products of values"
    add("--show", choices=SHOWN, default=SHOWN[0], help=text)
    text = "number of batches after which counts are compared with DuckDB"
    add("--check", type=whole(0, MAX_BATCHES), default=0, metavar="N", help=text)


def run(args: argparse.Namespace) -> int:
    if args.workload not in WORKLOADS:
        raise unknown("workload", args.workload, WORKLOADS)
    pattern = motif(args.motif)
    with ProgressLine() as progress:
        edges = open_graph(args.graph, args.data, args.master or Wanted.master, progress.report)
    edges = oriented(edges) if args.orient else edges
    if args.show == "lists" and not args.static:
        raise DeltamarkError("only a static graph has lists", "--show lists", "add --static, or show rows")
    request = MotifRequest(args, pattern, triangular(pattern, edges) if args.triangles else pattern, edges)
    if capabilities(args.engine).has_session:
        return spark.run(request)
    if args.shards:
        return virtual_shards.run(request)
    return static.run(request) if args.static else changing.run(request)
