"""Motifs on Spark, with indexes broadcast to all shards or exchanged by key.

Every executor opens the stored graph itself, and takes its share of each batch. With broadcast indexes each shard has
all of them and extends its share of the changes; a static graph is counted by BiGJoin, with a share of the first atom's
rows per task. With exchanged indexes a shard has the keys that hash to it, and rows travel to the shard of their key
(dataflow/spark/planning/motif_by_key.py); a static graph is loaded first, and then the first atom's rows are fed again,
in batches, as the prefixes to extend.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import msgspec
import numpy as np

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.language.motif import Variant, extending
from deltamark.dataflow.motifs.static import StaticMotif
from deltamark.dataflow.operators.extend import Extend
from deltamark.dataflow.operators.node import walk
from deltamark.datagen.spark.session import run_tasks, scratch
from deltamark.errors import DeltamarkError
from deltamark.harness.suites.graphs.counting import MotifCosts, indexed, relations_of, triangular
from deltamark.harness.suites.graphs.graph_data import WORKLOADS, Edges, EdgeStream, oriented, stored_graph
from deltamark.queries.graph.motifs import motif
from deltamark.queries.graph.pattern import Pattern

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Indexes = Literal["auto", "broadcast", "exchange"]
INDEXES: tuple[Indexes, ...] = get_args(Indexes)

INDEX_BYTES, INDEX_SHARE = 8, 4
"""Bytes per row of an index; indexes are broadcast if they take at most 1/INDEX_SHARE of an executor's memory."""

TASKS_PER_SHARD = 8
"""Tasks that count a static graph: several per shard, because some vertices are much more work than others."""

SEEDS = "seeds"


@dataclass(frozen=True)
class GraphLocation:
    """The name and directory of a graph, for executors on any machine."""

    graph: str
    data: str
    orient: bool

    def edges(self) -> Edges:
        return _edges(self)


@lru_cache(1)
def _edges(at: GraphLocation) -> Edges:
    edges = stored_graph(at.graph, Path(at.data))
    return oriented(edges) if at.orient else edges


@lru_cache(2)
def _stream(at: GraphLocation, workload: str, size: int) -> EdgeStream:
    return WORKLOADS[workload](at.edges(), size)


@dataclass(frozen=True)
class Changes:
    """A workload over the edges of a graph, as a source for Spark."""

    place: GraphLocation
    digest: str
    workload: str
    size: int

    @classmethod
    def of(cls, place: GraphLocation, workload: str, size: int) -> Changes:
        return cls(place, _digest(place), workload, size)

    @property
    def stream(self) -> EdgeStream:
        return _stream(self.place, self.workload, self.size)

    @property
    def batches(self) -> int:
        return len(self.stream.parts())

    @property
    def identity(self) -> Mapping[str, str]:
        return {"data": self.digest, "workload": self.workload, "physical batch": str(self.size)}

    def rows(self, batch: int) -> int:
        start, stop, _ = self.stream.parts()[batch]
        return stop - start

    def open(self, wanted: Mapping[str, tuple[str, ...]]) -> Changes:  # noqa: ARG002 (both columns are read)
        return self

    def take(self, batch: int, piece: int, pieces: int) -> Mapping[str, Batch]:
        start, stop, time = self.stream.parts()[batch]
        first, last = (start + (stop - start) * each // pieces for each in (piece, piece + 1))
        return {"e": self.stream.batch(first, last, time)}


@dataclass(frozen=True)
class Seeded:
    """All edges in one batch, then the same ones again in batches, as the prefixes to extend."""

    whole: Changes
    again: Changes

    @classmethod
    def of(cls, place: GraphLocation, size: int) -> Seeded:
        whole = Changes.of(place, "load", size)
        return cls(whole, replace(whole, workload="insert"))

    @property
    def stream(self) -> EdgeStream:
        return self.again.stream

    @property
    def batches(self) -> int:
        return 1 + self.again.batches

    @property
    def identity(self) -> Mapping[str, str]:
        return {**self.again.identity, "workload": SEEDS}

    def rows(self, batch: int) -> int:
        return self.again.rows(batch - 1) if batch else self.whole.rows(0)

    def open(self, wanted: Mapping[str, tuple[str, ...]]) -> Seeded:  # noqa: ARG002 (both columns are read)
        return self

    def take(self, batch: int, piece: int, pieces: int) -> Mapping[str, Batch]:
        if batch:
            return {SEEDS: self.again.take(batch - 1, piece, pieces)["e"]}
        found = self.whole.take(0, piece, pieces)["e"]
        return {"e": Batch(np.zeros_like(found.time), found.diff, found.columns)}


def _digest(place: GraphLocation) -> str:
    edges = place.edges()
    return hashlib.blake2b(np.concatenate([edges.src, edges.dst]).tobytes(), digest_size=8).hexdigest()


def seeded(pattern: Pattern, edges: Edges, variant: Variant) -> Collection:
    """Return the plan of a motif whose first atom's rows arrive after all others."""
    if pattern.definitions:
        remedy = "leave --triangles out, or give --indexes broadcast"
        raise DeltamarkError("triangles are not kept by key", pattern, remedy)
    (name, _), *_ = pattern.atoms
    seeds = relations_of(edges, SEEDS)
    where = [col[small] < col[large] for small, large in pattern.smaller]
    return extending(seeds[name], pattern.over(relations_of(edges)), where, variant)


def index_placement(requested: Indexes, found: Collection, executor_bytes: int) -> Indexes:
    """Choose the placement of a plan's indexes: broadcast if they fit into the memory of an executor."""
    if requested != "auto":
        return requested
    return "broadcast" if index_bytes(found) * INDEX_SHARE <= executor_bytes else "exchange"


def executor_bytes(spark: SparkSession) -> int:
    """Return the memory of an executor."""
    words = spark.sparkContext.getConf().get("spark.executor.memory", "1g")
    jvm = spark.sparkContext._jvm  # noqa: SLF001 (pyspark does not parse sizes)
    assert jvm
    return int(jvm.org.apache.spark.network.util.JavaUtils.byteStringAsBytes(words))


def index_bytes(found: Collection) -> int:
    """Estimate the size of a plan's indexes."""
    indexes = {
        (index.rows, index.keys, index.value)
        for node in walk(found.node)
        if isinstance(node, Extend)
        for index in node.indexes
    }
    return sum(INDEX_BYTES * of.schema.rows for of, _, _ in indexes)


def run(
    spark: SparkSession, found: Collection, source: Changes | Seeded, shards: int, measured: MotifCosts
) -> Iterator[tuple[Batch, int]]:
    """Run a plan to the end; yield the changes of its answer by batches, and the number of changes fed so far."""
    from deltamark.dataflow.spark.query import SparkQuery  # noqa: PLC0415 (most commands need no Spark)

    query = SparkQuery(spark, found, source, shards=shards, directory=str(scratch()))
    try:
        took = [float(each.report["durationMs"]["triggerExecution"]) / 1000 for each in query.progress()]
        whole = query.changes()
    finally:
        query.stop()
    parts = source.stream.parts()
    measured.took += [seconds for seconds, (_, _, time) in zip(took[-len(parts) :], parts, strict=True) if time]
    measured.updates += sum(stop - start for start, stop, time in parts if time)
    for _, stop, time in parts:
        first, last = np.searchsorted(whole.time, [time, time + 1] if time else [-1, 1])
        columns = {name: values[first:last] for name, values in whole.columns.items()}
        yield Batch(whole.time[first:last], whole.diff[first:last], columns), stop


@dataclass(frozen=True)
class Counting:
    """A motif, possibly in terms of triangles, that is counted in a static graph in rounds of BiGJoin."""

    place: GraphLocation
    motif: str
    triangles: bool
    batch: int

    def total(self, spark: SparkSession, shards: int) -> int:
        """Count with a share of the first atom's rows per task."""
        parts = TASKS_PER_SHARD * shards
        tasks = [msgspec.to_builtins(Share(self, part, parts)) for part in range(parts)]
        return sum(run_tasks(spark, count_share, tasks))

    def indexed(self) -> StaticMotif:
        pattern, edges = motif(self.motif), self.place.edges()
        return indexed(triangular(pattern, edges) if self.triangles else pattern, edges)


@dataclass(frozen=True)
class Share:
    """A task of an executor: the share number `part` of the first atom's rows."""

    counting: Counting
    part: int
    parts: int


_indexes: dict[Counting, StaticMotif] = {}
"""The indexes of the last request to this process."""


def count_share(task: object) -> int:
    """Count the matches of a `Share`, on an executor."""
    share = msgspec.convert(task, Share)
    counting = share.counting
    if counting not in _indexes:
        while _indexes:
            _indexes.popitem()[1].close()
        _indexes[counting] = counting.indexed()
    return _indexes[counting].count_share(share.part, share.parts, counting.batch)
