"""The command `motif`: on the embedded engine or on Spark, maintained or in a static graph, or on virtual shards."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.motif import VARIANTS
from deltamark.dataflow.motifs.static import BATCH_PROPOSALS, StaticMotif
from deltamark.dataflow.spark.planning.motif_by_key import by_key
from deltamark.datagen.graphs.generator import KINDS
from deltamark.datagen.make import Wanted
from deltamark.errors import DeltamarkError, unknown
from deltamark.harness.check.answers import WrongAnswerError
from deltamark.harness.cli.commands import command
from deltamark.harness.cli.options import MAX_BATCHES, add_master, batch_size, whole, worker_count
from deltamark.harness.cli.parser import Parser
from deltamark.harness.console.console import say, warn, write_csv
from deltamark.harness.console.progress import ProgressLine
from deltamark.harness.console.table import text
from deltamark.harness.engines.registry import DEFAULT, PLAN_ENGINES, capabilities
from deltamark.harness.engines.spark_feed import on_master
from deltamark.harness.results.record import Record
from deltamark.harness.suites.graphs import spark_motifs
from deltamark.harness.suites.graphs.counting import MotifCosts, counted, indexed, oracle, relations_of, triangular
from deltamark.harness.suites.graphs.counting import run as run_embedded
from deltamark.harness.suites.graphs.graph_data import WORKLOADS, Edges, EdgeStream, open_graph, oriented
from deltamark.harness.suites.graphs.spark_motifs import INDEXES, Changes, Counting, GraphLocation, Indexes, Seeded
from deltamark.harness.suites.graphs.virtual_shards import BATCH, loads
from deltamark.harness.suites.registry import GraphSuite
from deltamark.harness.system.clock import timed
from deltamark.queries.graph.motifs import motif
from deltamark.queries.graph.pattern import Pattern

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


DEFAULT_BATCH = 10_000
"""Changes of edges per batch; not measured."""

AnswerChanges = Iterator[tuple[Batch, int]]
"""The changes of an answer after each batch, and the number of edge changes fed so far."""

RunPlan = Callable[[Collection, MotifCosts], AnswerChanges]
"""Runs a plan to the end of the stream, and adds up its costs."""


def run_changing(request: MotifRequest) -> int:
    """Maintain a motif with the embedded engine; return the exit code."""
    args = request.args
    stream = WORKLOADS[args.workload](request.edges, args.batch or DEFAULT_BATCH)
    plan = request.rewritten.dataflow(relations_of(request.edges), args.variant)
    return maintain(request, plan, stream, lambda plan, costs: run_embedded(plan, stream, args.workers, costs))


def maintain(request: MotifRequest, plan: Collection, stream: EdgeStream, run_plan: RunPlan) -> int:
    """Count or list the matches of a plan while edges change; return the exit code."""
    costs = MotifCosts()
    if request.args.show == "count":
        is_correct = _count(request, stream, run_plan(plan.count(), costs))
    else:
        is_correct = _list_rows(plan, run_plan(plan, costs))
    if is_correct:
        _report_costs(request.args, stream, costs)
    return 0 if is_correct else 2


def _count(request: MotifRequest, stream: EdgeStream, changes: AnswerChanges) -> bool:
    """Print the last count; return whether all checked counts are right."""
    batches, total = len(stream.starts), 0
    checks = min(request.args.check, batches)
    checked = {int(number) for number in np.linspace(batches, 1, checks).round()} if checks else set()
    preloaded = int(stream.starts[0] > 0)
    for number, (change, fed) in enumerate(changes, 1 - preloaded):
        total += counted(change)
        if number in checked and not is_right(request.pattern, stream, fed, total):
            return False
    note = f" (verified with DuckDB after {len(checked)} of {batches} batches)" if checked else ""
    say(f"{total:,}{note}")
    return True


def _list_rows(plan: Collection, changes: AnswerChanges) -> bool:
    """Print the rows at the end of the stream, with their multiplicities."""
    names = plan.schema.names
    parts = [np.column_stack([change.diff, *(change.columns[name] for name in names)]) for change, _ in changes]
    updates = np.concatenate(parts)
    rows, places = np.unique(updates[:, 1:], axis=0, return_inverse=True)
    weights = np.bincount(places.ravel(), updates[:, 0], len(rows)).astype(np.int64)
    live = np.flatnonzero(weights)
    write_csv([*names, "times"], np.column_stack([rows, weights])[live].tolist())
    return True


def _report_costs(args: Namespace, stream: EdgeStream, costs: MotifCosts) -> None:
    rate = costs.updates / max(costs.seconds, 1e-9)
    parts = [f"{costs.updates:,} changes of edges in {costs.seconds:.3f} s, {rate:,.0f}/s"]
    if costs.proposals is not None:
        parts.append(f"{costs.proposals:,} proposals")
    if costs.state_bytes is not None and args.variant != "binary":
        row_bytes = costs.state_bytes / max(costs.rows, 1)
        parts.append(f"{costs.state_bytes / 1e6:,.1f} MB of state, {row_bytes:.1f} bytes per row of an index")
    warn(f"{stream.edges.name}, {len(stream.edges):,} edges: {'; '.join(parts)}")


DEFAULT_SHARDS = 2


def run_on_spark(request: MotifRequest) -> int:
    """Run the request on Spark; return the exit code."""
    args = request.args
    _check(request)
    shards = args.shards or DEFAULT_SHARDS
    spark = on_master(args.master, shards)
    plan = request.rewritten.dataflow(relations_of(request.edges), args.variant)
    indexes = spark_motifs.index_placement(args.indexes, plan, spark_motifs.executor_bytes(spark))
    warn(f"indexes: {indexes}, about {spark_motifs.index_bytes(plan) / 1e6:,.1f} MB in all; {shards} shards")
    if args.static:
        return report_static_count(request, _static_count(request, spark, shards, indexes))
    changes = Changes.of(_location(request), args.workload, args.batch or DEFAULT_BATCH)

    def run_plan(plan: Collection, costs: MotifCosts) -> AnswerChanges:
        return spark_motifs.run(spark, by_key(plan) if indexes == "exchange" else plan, changes, shards, costs)

    return maintain(request, plan, changes.stream, run_plan)


def _check(request: MotifRequest) -> None:
    args = request.args
    if args.workers > 1:
        raise DeltamarkError(
            "Spark has shards instead of workers", f"--workers {args.workers}", "give --shards instead"
        )
    if args.static and args.show != "count":
        remedy = "leave --static out, or run it embedded"
        raise DeltamarkError("Spark only counts in static graphs", f"--show {args.show}", remedy)


def _location(request: MotifRequest) -> GraphLocation:
    args = request.args
    graph = str(Path(args.graph).resolve()) if Path(args.graph).exists() else args.graph
    return GraphLocation(graph, str(args.data.resolve()), args.orient)


def _static_count(request: MotifRequest, spark: SparkSession, shards: int, indexes: Indexes) -> int:
    args, location = request.args, _location(request)
    batch = args.batch or BATCH_PROPOSALS
    if indexes == "broadcast":
        return Counting(location, args.motif, args.triangles, batch).total(spark, shards)
    plan = by_key(spark_motifs.seeded(request.rewritten, request.edges, args.variant).count())
    changes = spark_motifs.run(spark, plan, Seeded.of(location, batch), shards, MotifCosts())
    return sum(counted(change) for change, _ in changes)


def run_static(request: MotifRequest) -> int:
    """Count or list a motif; return the exit code."""
    args = request.args
    if args.workers > 1 and args.show != "count":
        remedy = "leave --workers out, or only count"
        raise DeltamarkError("several workers only count in a static graph", f"--show {args.show}", remedy)
    batch = args.batch or BATCH_PROPOSALS
    indexing, motif = timed(lambda: indexed(request.rewritten, request.edges, args.workers))
    with closing(motif) as matches:
        finding, code = timed(lambda: _show(request, matches, batch))
        if code == 0:
            _report_static_costs(request, matches, batch, indexing, finding)
    return code


def _show(request: MotifRequest, matches: StaticMotif, batch: int) -> int:
    match request.args.show:
        case "rows":
            rows = chain.from_iterable(part.tolist() for part in matches.rows(batch))
            write_csv([*matches.variables, "times"], rows)
        case "lists":
            prefix, independent = matches.factors
            write_csv([*prefix, "times", *independent], _lists(matches, batch))
        case _:
            return report_static_count(request, matches.count(batch))
    return 0


def _lists(matches: StaticMotif, batch: int) -> Iterator[list[object]]:
    """Yield a line per prefix with the values of each further variable; `7*2` is the value 7 with multiplicity 2."""
    for part in matches.factorized(batch):
        values = iter([str(value) if times == 1 else f"{value}*{times}" for value, times in part.values.tolist()])
        for row, sizes in zip(part.prefixes.tolist(), part.sizes.tolist(), strict=True):
            yield [*row, *(" ".join(islice(values, size)) for size in sizes)]


def _report_static_costs(
    request: MotifRequest, matches: StaticMotif, batch: int, indexing: float, finding: float
) -> None:
    edges, costs = request.edges, matches.statistics
    most = ", ".join(f"{prefixes:,}" for prefixes in costs.most) or "none"
    warn(
        f"{edges.name}, {len(edges):,} edges: indexed in {indexing:.3f} s, found in {finding:.3f} s; "
        f"{costs.proposals:,} proposals in {costs.rounds:,} rounds of {batch:,}; most prefixes per step: {most}"
    )


def run_on_virtual_shards(request: MotifRequest) -> int:
    """Print the loads; return the exit code."""
    args = request.args
    if not args.static or args.show != "count":
        remedy = "add --static, and list rows without shards"
        raise DeltamarkError("virtual shards only count in static graphs", f"--shards {args.shards}", remedy)
    batch = args.batch or BATCH
    try:
        rows = list(loads(request.edges, args.motif, request.pattern, shards=args.shards, batch=batch))
    except WrongAnswerError as error:
        warn(f"WRONG: {error}")
        return 2
    params = {"dataset": f"{args.motif}, {args.shards} shards", "table": "skew"}
    records = [Record(suite=GraphSuite.NAME, params={**params, "row": row.row}, figures=row.figures) for row in rows]
    (table,) = GraphSuite.tables(records)
    say(text(table))
    return 0 if is_static_count_right(request, int(records[0].least("found"))) else 2


SHOWN = ("count", "rows", "lists")
GRAPHS = ", ".join(f"{kind}:N" for kind in KINDS)


def _add_settings(parser: Parser) -> None:
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


@command("motif", _add_settings)
def find_motif(args: Namespace) -> int:
    """Count or list a motif in a graph, while edges change or in a static graph.

    A motif is a name (triangle, cyclic-triangle, 4-clique, 5-clique, 6-clique, diamond, house), or a list of atoms and
    conditions such as "e(a,b), e(b,c), e(a,c), a<b". A graph is generated (such as rmat:16), or read from a file of
    edges. Graphs are multisets: a repeated edge counts twice (once(a,b) counts it once), and an edge from a vertex to
    itself is an edge like any other. Exit code 2 means that a count was wrong.

    Example: make motif MOTIF=triangle GRAPH=rmat:16 CHECK=1
    """
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
        return run_on_spark(request)
    if args.shards:
        return run_on_virtual_shards(request)
    return run_static(request) if args.static else run_changing(request)
