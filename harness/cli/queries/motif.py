"""Count or list a motif in a graph while edges change.

The time of each batch is printed, and counts can be checked against DuckDB.

A motif is a name (triangle, cyclic-triangle, 4-clique, 5-clique, 6-clique, diamond, house) or words such as
"e(a,b), e(b,c), e(a,c), a<b". A graph is generated (such as rmat:16) or a file of edges. Edges that are
there twice count twice (once(a,b) has each of them once), and an edge from a vertex to itself is one like any other.
Exit code 2: an answer was wrong.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

import numpy as np

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.motif import VARIANTS
from deltamark.dataflow.motifs.static import BATCH_PROPOSALS, StaticMotif
from deltamark.dataflow.spark.planning.motif_by_key import by_key
from deltamark.datagen.graphs.generator import KINDS
from deltamark.datagen.make import Wanted
from deltamark.errors import DeltamarkError, unknown
from deltamark.harness.cli.options import MAX_BATCHES, batch_size, whole, worker_count
from deltamark.harness.console.progress import ProgressLine
from deltamark.harness.console.table import text as text_of
from deltamark.harness.engines.registry import DEFAULT, STREAM_ENGINES, capabilities
from deltamark.harness.engines.spark_session import on_master
from deltamark.harness.results.table_record import MeasuredRow, TableRecord
from deltamark.harness.suites.graphs import skew
from deltamark.harness.suites.graphs.graph_data import WORKLOADS, Edges, EdgeStream, open_graph, oriented
from deltamark.harness.suites.graphs.load_simulation import simulation
from deltamark.harness.suites.graphs.motif_runs import MotifCosts, counted, indexed, oracle, relations_of, triangular
from deltamark.harness.suites.graphs.motif_runs import run as steps
from deltamark.harness.suites.graphs.spark_motifs import (
    INDEXES,
    Changes,
    Counting,
    GraphLocation,
    Seeded,
    executor_bytes,
    index_bytes,
    index_placement,
    seeded,
)
from deltamark.harness.suites.graphs.spark_motifs import run as run_on_spark
from deltamark.harness.suites.table_cell import WrongAnswerError
from deltamark.harness.tables.suites.rows import named
from deltamark.harness.tables.suites.skew import loads
from deltamark.queries.graph.motifs import motif
from deltamark.queries.graph.pattern import Pattern

Changing = Iterator[tuple[Batch, int]]
"""The changes of an answer, and how many changes of edges have been fed until then."""

Engine = Callable[[Collection, MotifCosts], Changing]

CHANGES, SHARDS = 10_000, 2
SHOWN = ("count", "rows", "lists")
GRAPHS = ", ".join(f"{kind}:N" for kind in KINDS)


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("motif", help="its name, or its atoms")
    add(
        "--graph",
        default="rmat:12",
        help="rmat:S, rmat-hubs:S, zipf:S, hub:N, star:N, grid:N or a file (default rmat:12)",
    )
    add("--data", type=Path, default=Path("data"), metavar="DIR", help="where graphs lie (default data)")
    text = "Spark master (default local[*], and as an engine a cluster here)"
    add("--master", default="", metavar="URL", help=text)
    add(
        "--workload",
        default="load",
        help=f"{', '.join(WORKLOADS)}: see harness/suites/graphs/graph_data.py (default load)",
    )
    add(
        "--orient",
        action="store_true",
        help="take the graph as one without directions: see oriented in harness/suites/graphs/graph_data.py",
    )
    add("--triangles", action="store_true", help="keep all triangles, and find the motif by them: see README")
    text = "changes of edges at a time; with --static proposals of a round (default 10000, 100000; of a shard 1000)"
    add("--batch", type=batch_size, metavar="N", help=text)
    add("--static", action="store_true", help="load all edges, then find the motif by BiGJoin")
    add("--engine", choices=STREAM_ENGINES, default=DEFAULT, help=f"{' or '.join(STREAM_ENGINES)} (default {DEFAULT})")
    text = "on Spark: at every shard, or spread by key (default auto: broadcast if they fit, see README)"
    add("--indexes", choices=INDEXES, default=INDEXES[0], help=text)
    text = "with --static: count on so many virtual shards, by BiGJoin and BiGJoin-S, and show the loads of shards; "
    text += f"on Spark: how many (default {SHARDS})"
    add("--shards", type=worker_count, metavar="N", help=text)
    add("--variant", choices=VARIANTS, default=VARIANTS[0], help=f"who proposes (default {VARIANTS[0]})")
    add("--workers", type=worker_count, default=1, metavar="W", help="how many (default 1)")
    add("--show", choices=SHOWN, default=SHOWN[0], help=f"what to print (default {SHOWN[0]}); lists: with --static")
    add(
        "--check",
        type=whole(0, MAX_BATCHES),
        default=0,
        metavar="N",
        help="after how many batches to ask DuckDB too (default none)",
    )


def run(chosen: argparse.Namespace) -> int:
    if chosen.workload not in WORKLOADS:
        raise unknown("workload", chosen.workload, WORKLOADS)
    pattern = motif(chosen.motif)
    with ProgressLine() as progress:
        edges = open_graph(chosen.graph, chosen.data, chosen.master or Wanted.master, progress.report)
    edges = oriented(edges) if chosen.orient else edges
    by = triangular(pattern, edges) if chosen.triangles else pattern
    if chosen.show == "lists" and not chosen.static:
        raise DeltamarkError("lists are of a graph that does not change", "--show lists", "add --static, or show rows")
    if capabilities(chosen.engine).has_session:
        return _on_spark(chosen, pattern, by, edges)
    if chosen.shards:
        return _sharded(chosen, pattern, edges)
    if chosen.static:
        return _static(chosen, pattern, by, edges)
    stream = WORKLOADS[chosen.workload](edges, chosen.batch or CHANGES)
    found = by.dataflow(relations_of(edges), chosen.variant)
    return _maintained(
        chosen, pattern, found, stream, lambda plan, measured: steps(plan, stream, chosen.workers, measured)
    )


def _maintained(
    chosen: argparse.Namespace, pattern: Pattern, found: Collection, stream: EdgeStream, engine: Engine
) -> int:
    """Count or list what a plan finds while edges come and go."""
    measured = MotifCosts()
    if chosen.show == "rows":
        return _rows(chosen, found.schema.names, stream, engine(found, measured), measured)
    return _count(chosen, pattern, stream, engine(found.count(), measured), measured)


def _count(
    chosen: argparse.Namespace, pattern: Pattern, stream: EdgeStream, changing: Changing, measured: MotifCosts
) -> int:
    batches, total = len(stream.starts), 0
    asked = (
        {int(each) for each in np.linspace(batches, 1, min(chosen.check, batches)).round()} if chosen.check else set()
    )
    loaded = int(stream.starts[0] > 0)
    for number, (changes, fed) in enumerate(changing, 1 - loaded):
        total += counted(changes)
        if number in asked and not _is_right(pattern, stream, fed, total):
            return 2
    _tell(chosen, stream, measured)
    checked = f" (as DuckDB says after {len(asked)} of {batches} batches)" if asked else ""
    print(f"{total:,}{checked}")
    return 0


def _is_right(pattern: Pattern, stream: EdgeStream, fed: int, total: int) -> bool:
    """Hold a count against DuckDB's."""
    right = oracle(pattern, stream, fed)
    if right != total:
        print(f"WRONG: {total:,} after {fed:,} changes of edges, DuckDB says {right:,}", file=sys.stderr)
    return right == total


def _tell(chosen: argparse.Namespace, stream: EdgeStream, measured: MotifCosts) -> None:
    """Say on standard error what a run took."""
    rate = measured.updates / max(measured.seconds, 1e-9)
    words = [f"{measured.updates:,} changes of edges in {measured.seconds:.3f} s, {rate:,.0f}/s"]
    if measured.proposals is not None:
        words.append(f"{measured.proposals:,} proposals")
    if measured.state_bytes is not None and chosen.variant != "binary":
        each = measured.state_bytes / max(measured.rows, 1)
        words.append(f"{measured.state_bytes / 1e6:,.1f} MB kept, {each:.1f} bytes a row of an index")
    print(f"{stream.edges.name}, {len(stream.edges):,} edges: {'; '.join(words)}", file=sys.stderr)


def _rows(
    chosen: argparse.Namespace, names: Sequence[str], stream: EdgeStream, changing: Changing, measured: MotifCosts
) -> int:
    """List what is found at the end, with how often it is."""
    parts = [np.column_stack([each.diff, *(each.columns[name] for name in names)]) for each, _ in changing]
    rows, place = np.unique(np.concatenate(parts)[:, 1:], axis=0, return_inverse=True)
    weights = np.bincount(place.ravel(), np.concatenate(parts)[:, 0], len(rows)).astype(np.int64)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*names, "times"])
    writer.writerows([*row, weight] for row, weight in zip(rows.tolist(), weights.tolist(), strict=True) if weight)
    _tell(chosen, stream, measured)
    return 0


def _on_spark(chosen: argparse.Namespace, pattern: Pattern, by: Pattern, edges: Edges) -> int:
    """Do as the others, on Spark. by: how it is found."""
    if chosen.workers > 1:
        raise DeltamarkError("no workers but shards on Spark", f"--workers {chosen.workers}", "give --shards instead")
    if chosen.static and chosen.show != "count":
        remedy = "leave --static out, or run it embedded"
        raise DeltamarkError("Spark only counts in graphs that do not change", f"--show {chosen.show}", remedy)
    shards = chosen.shards or SHARDS
    spark = on_master(chosen.master, shards)
    graph = str(Path(chosen.graph).resolve()) if Path(chosen.graph).exists() else chosen.graph
    place = GraphLocation(graph, str(chosen.data.resolve()), chosen.orient)
    found = by.dataflow(relations_of(edges), chosen.variant)
    indexes = index_placement(chosen.indexes, found, executor_bytes(spark))
    print(f"indexes: {indexes}, about {index_bytes(found) / 1e6:,.1f} MB in all; {shards} shards", file=sys.stderr)
    if not chosen.static:
        changes = Changes.of(place, chosen.workload, chosen.batch or CHANGES)

        def engine(plan: Collection, measured: MotifCosts) -> Changing:
            return run_on_spark(spark, by_key(plan) if indexes == "exchange" else plan, changes, shards, measured)

        return _maintained(chosen, pattern, found, changes.stream, engine)
    if indexes == "broadcast":
        total = Counting(place, chosen.motif, chosen.triangles, chosen.batch or BATCH_PROPOSALS).total(spark, shards)
    else:
        counting, seeds = (
            by_key(seeded(by, edges, chosen.variant).count()),
            Seeded.of(place, chosen.batch or BATCH_PROPOSALS),
        )
        total = sum(counted(each) for each, _ in run_on_spark(spark, counting, seeds, shards, MotifCosts()))
    return _told(chosen, pattern, edges, total)


def _told(chosen: argparse.Namespace, pattern: Pattern, edges: Edges, total: int) -> int:
    """Print a count of a graph that does not change, or that it is wrong."""
    if chosen.check and not _is_right(pattern, WORKLOADS["load"](edges, 1), len(edges), total):
        return 2
    print(f"{total:,}{' (as DuckDB says)' if chosen.check else ''}")
    return 0


def _sharded(chosen: argparse.Namespace, pattern: Pattern, edges: Edges) -> int:
    """Count on virtual shards; show what each algorithm makes them do."""
    if not chosen.static or chosen.show != "count":
        raise DeltamarkError(
            "shards count in graphs that do not change",
            f"--shards {chosen.shards}",
            "add --static, and list rows without shards",
        )
    batch = chosen.batch or simulation.BATCH
    try:
        pair = list(skew.loads(edges, chosen.motif, pattern, shards=chosen.shards, batch=batch))
    except WrongAnswerError as error:
        print(f"WRONG: {error}", file=sys.stderr)
        return 2
    print(
        text_of(
            named(loads([MeasuredRow(TableRecord(), row) for row in pair]), f"{chosen.motif}, {chosen.shards} shards")
        )
    )
    asked = chosen.check and not _is_right(
        pattern, WORKLOADS["load"](edges, 1), len(edges), int(pair[0].least("found"))
    )
    return 2 if asked else 0


def _static(chosen: argparse.Namespace, pattern: Pattern, by: Pattern, edges: Edges) -> int:
    """Count or list by BiGJoin over indexes of all edges. by: how it is found."""
    if chosen.workers > 1 and chosen.show != "count":
        remedy = "leave --workers out, or only count"
        raise DeltamarkError("one worker lists a graph that does not change", f"--show {chosen.show}", remedy)
    batch, started = chosen.batch or BATCH_PROPOSALS, time.perf_counter()
    with closing(indexed(by, edges, chosen.workers)) as found:
        loaded = time.perf_counter()
        if chosen.show == "rows":
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow([*found.variables, "times"])
            for rows in found.rows(batch):
                writer.writerows(rows.tolist())
        elif chosen.show == "lists":
            _write_lists(found, batch)
        elif _told(chosen, pattern, edges, found.count(batch)):
            return 2
        taken, shown = time.perf_counter() - loaded, found.statistics
        held = ", ".join(f"{most:,}" for most in shown.most) or "none"
        words = f"indexed in {loaded - started:.3f} s, found in {taken:.3f} s; {shown.proposals:,} proposals"
        words += f" in {shown.rounds:,} rounds of {batch:,}; prefixes held at most: {held}"
        print(f"{edges.name}, {len(edges):,} edges: {words}", file=sys.stderr)
    return 0


def _write_lists(found: StaticMotif, batch: int) -> None:
    """Write a line a prefix, with the values of each variable behind it: "7", or "7*2" for one that is there twice."""
    prefix, behind = found.factors
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*prefix, "times", *behind])
    for part in found.factorized(batch):
        values = iter([str(value) if times == 1 else f"{value}*{times}" for value, times in part.values.tolist()])
        for row, sizes in zip(part.prefixes.tolist(), part.sizes.tolist(), strict=True):
            writer.writerow([*row, *(" ".join(islice(values, size)) for size in sizes)])
