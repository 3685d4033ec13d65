"""Make a graph, once, as Spark jobs, and store it as the relations of TPC-H are.

A task draws a block of edges and deals them out by a hash; a second one takes what all blocks have for a range of
hashes, keeps each edge once, and writes an Arrow file. The hash can be inverted, so it is all that is handed over;
files are in the order of hashes, which is as good as random, and is the same however many tasks there were.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamark.datagen import scratch
from deltamark.datagen.dataset import check_file, map_batch
from deltamark.datagen.graphs.generator import BLOCK, Graph, graph
from deltamark.datagen.manifest import FILE, Chunk, chunks_of
from deltamark.datagen.prebatch import write_arrow
from deltamark.datagen.sealed import DIGEST, check_seal, exactly, keyed, read_json, text, write_sealed
from deltamark.datagen.spark.session import run_tasks, session
from deltamark.errors import DeltamarkError

VERSION = 2
"""Of the files and of the manifest."""

FILE_BITS = 20
"""Files have about 2^20 edges."""

EDGES = "edges"
MULTIPLIER = 0xD6E8FEB86659FD93
INVERSE = pow(MULTIPLIER, -1, 1 << 64)
HALF = np.uint64(32)
SCHEMA = pa.schema([pa.field("src", pa.int32(), nullable=False), pa.field("dst", pa.int32(), nullable=False)])


@dataclass(frozen=True)
class Stored:
    """A graph as it is stored: its edges are in `files`, in order."""

    graph: str
    nodes: int
    edges: int
    files: tuple[Chunk, ...]


def directory_of(data: Path, graph: Graph) -> Path:
    return data / f"graph-{graph.kind}-{graph.size}-v{VERSION}"


def make_graph(data: Path, graph: Graph, master: str, report: Callable[[str, int, int], None]) -> Path:
    """Return where a graph lies, making it first if it is not there."""
    target = directory_of(data, graph)
    if target.exists():
        return target
    data.mkdir(parents=True, exist_ok=True)
    making = scratch.make(data, f".making-{target.name}-")
    making.chmod(0o755)  # executors may be somebody else's
    try:
        made = making / target.name
        made.mkdir()
        _make(made, graph, master, report)
        try:
            made.rename(target)
        except OSError:
            if not target.exists():  # else another process has made it meanwhile
                raise
    finally:
        scratch.remove(making)
    return target


def _make(making: Path, graph: Graph, master: str, report: Callable[[str, int, int], None]) -> None:
    report("starting Spark", 0, 0)
    blocks = -(-graph.drawn // BLOCK)
    bits = max((graph.drawn >> FILE_BITS).bit_length() - 1, 0)
    where = {"kind": graph.kind, "size": graph.size, "bits": bits, "into": str(making)}
    with session(master) as spark:
        drawn = [{**where, "block": block} for block in range(blocks)]
        run_tasks(spark, draw, drawn, lambda: report("drawing edges", 0, blocks))
        files = [{**where, "file": file, "blocks": blocks} for file in range(1 << bits)]
        chunks = run_tasks(spark, write, files, lambda: report("writing edges", 0, 1 << bits))
    shutil.rmtree(making / "drawn")
    made = tuple(Chunk(**each) for each in chunks)
    stored = Stored(str(graph), graph.nodes, sum(each.rows for each in made), made)
    write_sealed(making / FILE, {"version": VERSION, **asdict(stored)})


def draw(task: dict[str, Any]) -> None:
    """Draw a block of edges, and write their hashes by the files that they will be in."""
    src, dst = Graph(task["kind"], task["size"]).edges(task["block"])
    kept = src != dst
    hashes = np.unique(_mixed(src[kept].astype(np.uint64) << HALF | dst[kept].astype(np.uint64)))
    into = Path(task["into"]) / "drawn" / f"{task['block']}-{uuid.uuid4().hex}"
    into.mkdir(parents=True)
    starts = [file << (64 - task["bits"]) for file in range(1, 1 << task["bits"])]
    ends = np.searchsorted(hashes, np.array(starts, np.uint64))
    for file, part in enumerate(np.split(hashes, ends)):
        np.save(into / str(file), part)
    try:
        into.rename(into.with_name(str(task["block"])))
    except OSError:
        shutil.rmtree(into)  # an earlier attempt at the same task came first


def write(task: dict[str, Any]) -> dict[str, Any]:
    """Write the edges of one file; return what the manifest says of it."""
    into = Path(task["into"])
    parts = [np.load(into / "drawn" / str(block) / f"{task['file']}.npy") for block in range(task["blocks"])]
    packed = _unmixed(np.unique(np.concatenate(parts)))
    columns = [(packed >> HALF).astype(np.int32), (packed & np.uint64(0xFFFFFFFF)).astype(np.int32)]
    (into / EDGES).mkdir(exist_ok=True)
    batch = pa.RecordBatch.from_arrays([pa.array(each) for each in columns], schema=SCHEMA)
    return asdict(write_arrow(into, f"{EDGES}/{task['file']:05}.arrow", batch))


def _mixed(values: np.ndarray) -> np.ndarray:
    for _ in range(2):
        values = (values ^ (values >> HALF)) * np.uint64(MULTIPLIER)
    return values ^ (values >> HALF)


def _unmixed(values: np.ndarray) -> np.ndarray:
    for _ in range(2):
        values = (values ^ (values >> HALF)) * np.uint64(INVERSE)
    return values ^ (values >> HALF)


def read_graph(directory: Path) -> tuple[Stored, pa.Table]:
    """Open a graph that was made: its manifest, and its edges over the mapped files."""
    again = f"move {directory} away and run the command again"
    try:
        raw = read_json(directory / FILE)
        if (version := raw.get("version")) != VERSION:
            raise DeltamarkError(f"a graph of another version, not {VERSION}", f"{directory}: {version}", again)
        check_seal(raw)
        stored = _parsed(raw)
    except (FileNotFoundError, ValueError) as error:
        raise DeltamarkError("an unreadable graph", f"{directory}: {error}", again) from error
    for chunk in stored.files:
        check_file(directory, chunk)
    return stored, pa.Table.from_batches([_edges(directory, chunk, stored.nodes) for chunk in stored.files])


def _parsed(raw: dict[str, Any]) -> Stored:
    keyed(raw, ["version", *(each.name for each in fields(Stored)), DIGEST], "the whole")
    try:
        of = graph(text(raw["graph"], "graph"))
    except DeltamarkError as error:
        raise ValueError(f"graph is {error.cause}") from error
    files = chunks_of(raw["files"], EDGES)
    exactly(raw["nodes"], of.nodes, "nodes")
    exactly(raw["edges"], sum(chunk.rows for chunk in files), "edges")
    return Stored(raw["graph"], of.nodes, raw["edges"], files)


def _edges(directory: Path, chunk: Chunk, nodes: int) -> pa.RecordBatch:
    """Map the edges of a file, whose vertices must be those of the graph."""
    batch = map_batch(directory, chunk, SCHEMA)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        found = pc.min_max(column).as_py()
        if chunk.rows and not 0 <= found["min"] <= found["max"] < nodes:
            path, remedy = directory / chunk.file, f"move {directory} away and run the command again"
            actual = f"{path}: {name} has values from {found['min']} to {found['max']}, outside 0 to {nodes - 1}"
            raise DeltamarkError("a data file is not the one that was made", actual, remedy)
    return batch
