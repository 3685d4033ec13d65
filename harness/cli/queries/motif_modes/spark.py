"""Motifs on Spark: maintained while edges change, or counted in a static graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.motifs.static import BATCH_PROPOSALS
from deltamark.dataflow.spark.planning.motif_by_key import by_key
from deltamark.errors import DeltamarkError
from deltamark.harness.cli.queries.motif_modes.changing import DEFAULT_BATCH, AnswerChanges, maintain
from deltamark.harness.cli.queries.motif_modes.request import MotifRequest, report_static_count
from deltamark.harness.console.console import warn
from deltamark.harness.engines.spark_session import on_master
from deltamark.harness.suites.graphs import spark_motifs
from deltamark.harness.suites.graphs.counting import MotifCosts, counted, relations_of
from deltamark.harness.suites.graphs.spark_motifs import Changes, Counting, GraphLocation, Indexes, Seeded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_SHARDS = 2


def run(request: MotifRequest) -> int:
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
