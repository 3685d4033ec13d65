"""The making of the events of Nexmark as a Spark job. They are stored like the relations of TPC-H.

A task draws a block of events, and writes an Arrow file for each relation. Existing events are only opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path

import pyarrow as pa

from deltamark.datagen import scratch
from deltamark.datagen.dataset import check_file, map_batch
from deltamark.datagen.manifest import FILE, Chunk, chunks_of
from deltamark.datagen.nexmark.events import KINDS
from deltamark.datagen.prebatch import write_arrow
from deltamark.datagen.sealed import DIGEST, check_seal, exactly, keyed, read_json, whole, write_sealed
from deltamark.datagen.spark.session import run_tasks, session
from deltamark.errors import DeltamarkError

VERSION = 1
"""The version of the events, of their files and of the manifest."""

BLOCK_EVENTS = 500_000
"""The number of events of a task, whose largest file has about 80 MB. Not tuned."""

MIN_EVENTS, MAX_EVENTS = 100, 10**10


@dataclass(frozen=True)
class WantedEvents:
    """A request for the first events of Nexmark below the directory `data`. master: the Spark master to use."""

    data: Path
    events: int
    master: str = "local[*]"
    block_events: int = BLOCK_EVENTS

    @property
    def directory(self) -> Path:
        return self.data / f"nexmark-{self.events}-v{VERSION}"


@dataclass(frozen=True)
class StoredEvents:
    """The manifest of stored events: their number, and the files of each relation, in order."""

    events: int
    relations: Mapping[str, tuple[Chunk, ...]]


@dataclass(frozen=True)
class BlockTask:
    """The events start to stop - 1, to be written as the files with the number `file`."""

    file: int
    start: int
    stop: int
    into: Path


def make_events(request: WantedEvents, report: Callable[[str, int, int], None]) -> Path:
    """Return the directory of events, and make them first if necessary."""
    if request.directory.exists():
        return request.directory
    with scratch.published(request.directory) as directory:
        for relation in KINDS:
            (directory / relation).mkdir()
        report("starting Spark", 0, 0)
        starts = range(0, request.events, request.block_events)
        ends = [*starts[1:], request.events]
        tasks = [BlockTask(file, *ends_, directory) for file, ends_ in enumerate(zip(starts, ends, strict=True))]
        with session(request.master) as spark:
            written = run_tasks(spark, write, tasks, partial(report, "drawing events", 0, len(tasks)))
        relations = {name: tuple(chunks[name] for chunks in written) for name in KINDS}
        stored = StoredEvents(request.events, relations)
        write_sealed(directory / FILE, {"version": VERSION, **asdict(stored)})
    return request.directory


def write(task: BlockTask) -> dict[str, Chunk]:
    """Write the events of a block, one file for each relation."""
    return {
        name: write_arrow(task.into, f"{name}/{task.file:05}.arrow", kind.batch(task.start, task.stop))
        for name, kind in KINDS.items()
    }


def read_events(directory: Path) -> StoredEvents:
    """Open events: read their manifest, and check their files."""
    path = directory / FILE
    again = f"move {directory} away and run the command again"
    try:
        raw = read_json(path)
        if (version := raw.get("version")) != VERSION:
            raise DeltamarkError(f"events of another version, not {VERSION}", f"{path}: {version}", again)
        check_seal(raw)
        stored = _parsed(raw)
    except (FileNotFoundError, ValueError) as error:
        raise DeltamarkError("not the manifest of events", f"{path}: {error}", again) from error
    for chunks in stored.relations.values():
        for chunk in chunks:
            check_file(directory, chunk)
    return stored


def read_table(directory: Path, relation: str) -> pa.Table:
    """Return the rows of a relation as a table over the mapped files."""
    chunks = read_events(directory).relations[relation]
    return pa.Table.from_batches([map_batch(directory, chunk, KINDS[relation].schema) for chunk in chunks])


def _parsed(raw: Mapping[str, object]) -> StoredEvents:
    keyed(raw, ["version", *(field.name for field in fields(StoredEvents)), DIGEST], "the whole")
    events = whole(raw["events"], MIN_EVENTS, MAX_EVENTS, "events")
    listed = keyed(raw["relations"], list(KINDS), "relations")
    relations = {name: chunks_of(listed[name], name) for name in KINDS}
    for name, chunks in relations.items():
        exactly(sum(chunk.rows for chunk in chunks), KINDS[name].rows_of(events), f"the rows of {name}")
    return StoredEvents(events, relations)
