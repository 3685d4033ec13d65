"""The making of a graph as Spark jobs. It is stored like the relations of TPC-H; an existing graph is only opened.

A task of the first job draws a block of edges and partitions them by a hash. A task of the second job merges one
partition of all blocks, keeps each edge once, and writes an Arrow file. Only hashes are exchanged, because the hash can
be inverted. The edges are in the order of their hashes, a pseudo-random order that the number of tasks does not change.

The regression gate calls `make_graph` and `Graph` in trees of other commits (harness/compare/cells.py).
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamark.datagen import scratch
from deltamark.datagen.dataset import check_file, map_batch
from deltamark.datagen.graphs.generator import BLOCK, Graph, graph
from deltamark.datagen.manifest import FILE, Chunk, Chunks, check_chunks, check_seal, read_as, read_json, write_sealed
from deltamark.datagen.prebatch import write_arrow
from deltamark.datagen.spark.session import run_tasks, session
from deltamark.errors import DeltamarkError

VERSION = 2
"""The version of the files and of the manifest."""

FILE_BITS = 20
"""The binary logarithm of the approximate number of edges in a file."""

EDGES = "edges"
MULTIPLIER = 0xD6E8FEB86659FD93
INVERSE = pow(MULTIPLIER, -1, 1 << 64)
HALF = np.uint64(32)
SCHEMA = pa.schema([pa.field("src", pa.int32(), nullable=False), pa.field("dst", pa.int32(), nullable=False)])


@dataclass(frozen=True)
class StoredGraph:
    """The manifest of a graph, whose edges are in `files`, in order."""

    graph: str
    nodes: int
    edges: int
    files: Chunks


@dataclass(frozen=True)
class DrawTask:
    """A block of edges to be drawn, and partitioned by the first `bits` bits of their hashes."""

    graph: Graph
    block: int
    bits: int
    into: Path


@dataclass(frozen=True)
class MergeTask:
    """A partition of all blocks, to be merged into the file with the number `file`."""

    file: int
    blocks: int
    into: Path


def directory_of(data: Path, graph: Graph) -> Path:
    return data / f"graph-{graph.kind}-{graph.size}-v{VERSION}"


def make_graph(data: Path, graph: Graph, master: str, report: Callable[[str, int, int], None]) -> Path:
    """Return the directory of a graph, and make the graph first if necessary."""
    target = directory_of(data, graph)
    if target.exists():
        return target
    with scratch.published(target) as directory:
        _make(directory, graph, master, report)
    return target


def _make(directory: Path, graph: Graph, master: str, report: Callable[[str, int, int], None]) -> None:
    report("starting Spark", 0, 0)
    blocks = -(-graph.drawn // BLOCK)
    bits = max((graph.drawn >> FILE_BITS).bit_length() - 1, 0)
    with session(master) as spark:
        drawn = [DrawTask(graph, block, bits, directory) for block in range(blocks)]
        run_tasks(spark, draw, drawn, lambda: report("drawing edges", 0, blocks))
        merged = [MergeTask(file, blocks, directory) for file in range(1 << bits)]
        files = run_tasks(spark, write, merged, lambda: report("writing edges", 0, 1 << bits))
    shutil.rmtree(directory / "drawn")
    stored = StoredGraph(str(graph), graph.nodes, sum(file.rows for file in files), tuple(files))
    write_sealed(directory / FILE, {"version": VERSION, **asdict(stored)})


def draw(task: DrawTask) -> None:
    """Draw a block of edges, and write their hashes, one file for each partition."""
    src, dst = task.graph.edges(task.block)
    kept = src != dst
    hashes = np.unique(_mixed(src[kept].astype(np.uint64) << HALF | dst[kept].astype(np.uint64)))
    into = task.into / "drawn" / f"{task.block}-{uuid.uuid4().hex}"
    into.mkdir(parents=True)
    starts = [file << (64 - task.bits) for file in range(1, 1 << task.bits)]
    ends = np.searchsorted(hashes, np.array(starts, np.uint64))
    for file, part in enumerate(np.split(hashes, ends)):
        np.save(into / str(file), part)
    try:
        into.rename(into.with_name(str(task.block)))
    except OSError:
        shutil.rmtree(into)  # an earlier attempt of the same task has finished


def write(task: MergeTask) -> Chunk:
    """Write the edges of one partition."""
    parts = [np.load(task.into / "drawn" / str(block) / f"{task.file}.npy") for block in range(task.blocks)]
    packed = _unmixed(np.unique(np.concatenate(parts)))
    columns = [(packed >> HALF).astype(np.int32), (packed & np.uint64(0xFFFFFFFF)).astype(np.int32)]
    (task.into / EDGES).mkdir(exist_ok=True)
    batch = pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=SCHEMA)
    return write_arrow(task.into, f"{EDGES}/{task.file:05}.arrow", batch)


def _mixed(values: np.ndarray) -> np.ndarray:
    for _ in range(2):
        values = (values ^ (values >> HALF)) * np.uint64(MULTIPLIER)
    return values ^ (values >> HALF)


def _unmixed(values: np.ndarray) -> np.ndarray:
    for _ in range(2):
        values = (values ^ (values >> HALF)) * np.uint64(INVERSE)
    return values ^ (values >> HALF)


def read_graph(directory: Path) -> tuple[StoredGraph, pa.Table]:
    """Open a graph; return its manifest, and its edges as a table over the mapped files."""
    again = f"move {directory} away and run the command again"
    try:
        raw = read_json(directory / FILE)
        if (version := raw.get("version")) != VERSION:
            raise DeltamarkError(f"a graph of another version, not {VERSION}", f"{directory}: {version}", again)
        check_seal(raw)
        stored = read_as(StoredGraph, raw)
        _check(stored)
    except (FileNotFoundError, ValueError) as error:
        raise DeltamarkError("an unreadable graph", f"{directory}: {error}", again) from error
    for chunk in stored.files:
        check_file(directory, chunk)
    return stored, pa.Table.from_batches([_edges(directory, chunk, stored.nodes) for chunk in stored.files])


def _check(stored: StoredGraph) -> None:
    """Raise a ValueError if parts of a manifest contradict each other."""
    try:
        nodes = graph(stored.graph).nodes
    except DeltamarkError as error:
        raise ValueError(f"graph is {error.cause}") from error
    check_chunks(stored.files, EDGES)
    if (stored.nodes, stored.edges) != (nodes, sum(chunk.rows for chunk in stored.files)):
        raise ValueError(f"{stored.nodes} nodes and {stored.edges} edges are not those of {stored.graph} and its files")


def _edges(directory: Path, chunk: Chunk, nodes: int) -> pa.RecordBatch:
    """Map the edges of a file, and check that their vertices are those of the graph."""
    batch = map_batch(directory, chunk, SCHEMA)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        bounds = pc.min_max(column).as_py()
        if chunk.rows and not 0 <= bounds["min"] <= bounds["max"] < nodes:
            path, remedy = directory / chunk.file, f"move {directory} away and run the command again"
            actual = f"{path}: {name} has values from {bounds['min']} to {bounds['max']}, outside 0 to {nodes - 1}"
            raise DeltamarkError("a data file is not the one that was made", actual, remedy)
    return batch
