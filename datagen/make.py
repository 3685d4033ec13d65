"""The making of a scale factor's data: generate, pre-batch, publish. Complete data is only opened.

Data is made in a directory `.making-KEY` and published by one rename, so a reader finds complete data or none. DATA is
locked while data is made in it, by `flock`, which ends with its process. The next run uses the finished parts of an
interrupted one. Complete data is only read, so its directory need not be writable.

The regression gate calls `make_data` and `Wanted` in trees of other commits (harness/compare/cells.py).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.manifest import Chunk, Manifest, folder_of
from deltamark.datagen.members import write_chunks, write_members
from deltamark.datagen.prebatch import prebatch
from deltamark.datagen.schema import CHANGES_SCHEMA, CHUNK_ROWS, SCHEMA_VERSION, Relation, Relations
from deltamark.datagen.scratch import sweep
from deltamark.datagen.skew import rewrite
from deltamark.datagen.source import Parts, Source
from deltamark.datagen.spark.session import session
from deltamark.datagen.tpch import TPCH
from deltamark.datagen.workloads.workload import refusal
from deltamark.datagen.workloads.zipf import KIND, exponents, skewed_directory
from deltamark.errors import DeltamarkError

Phase = Literal[
    "waiting for another process", "starting Spark", "generating parts", "pre-batching rows", "rewriting keys"
]
Report = Callable[[Phase, int, int], None]


@dataclass(frozen=True)
class Wanted:
    """A request for the data of a source below the directory `data`.

    sf: the scale factor, which is 1 for a source without any; master: the Spark master that makes the data; workloads:
    those whose own data is made, too.
    """

    data: Path
    sf: Decimal
    master: str = "local[*]"
    chunk_rows: int = CHUNK_ROWS
    workloads: tuple[str, ...] = ()
    source: Source = TPCH

    @property
    def directory(self) -> Path:
        """The directory of the data. Its name is the key: equal names mean equal bytes."""
        scale = f"-sf{self.sf}" if self.source.scaled else ""
        version = self.source.version().replace(" ", "-")
        return self.data / f"{self.source.name}{scale}-{version}-v{SCHEMA_VERSION}"

    @property
    def scale(self) -> str:
        return str(self.source.scale(self.sf))


def make_data(request: Wanted, report: Report) -> tuple[Dataset, bool]:
    """Open the data, and make it first if necessary; return whether it, or the data of a workload, is new."""
    sweep()
    is_new = _ensure(request.directory, partial(_make, request, report), report)
    plain = Dataset.open(request.directory)
    for exponent in exponents(request.workloads):
        if request.source is not TPCH:
            raise refusal(f"{KIND}:{exponent}", "it rewrites the keys of TPC-H")
        making = partial(_make_skewed, request, report, plain, exponent)
        is_new |= _ensure(skewed_directory(plain.directory, exponent), making, report)
    return plain, is_new


def _ensure(directory: Path, make: Callable[[Path], Path], report: Report) -> bool:
    """Make the data of a directory if necessary; return whether it is new.

    make: makes the data in the directory that it is given, and returns the complete directory.
    """
    making = directory.with_name(f".making-{directory.name}")
    is_new = not directory.exists()
    if is_new:
        _writable(directory.parent)
    if is_new or making.exists():
        with _locked(directory.parent, report):
            if is_new := not directory.exists():
                make(making).rename(directory)
            shutil.rmtree(making, ignore_errors=True)
    return is_new


def _make(request: Wanted, report: Report, making: Path) -> Path:
    source = request.source
    making.mkdir(parents=True, exist_ok=True)
    report("starting Spark", 0, 0)
    with session(request.master) as spark:
        parts = source.parts(lambda: spark, request.sf, making, partial(report, "generating parts"))
        arrow = _own(making)
        relations = prebatch(spark, parts, arrow, request.chunk_rows, partial(report, "pre-batching rows"))
        members = write_members(arrow, parts.relations, relations, request.chunk_rows)
        changes = _write_changes(arrow, parts, request.chunk_rows)
    Manifest(
        SCHEMA_VERSION,
        request.scale,
        source.version(),
        request.chunk_rows,
        Relations(_checked_key(each, parts) for each in parts.relations.values()),
        relations,
        members,
        changes,
    ).write(arrow)
    return arrow


def _checked_key(relation: Relation, parts: Parts) -> Relation:
    """Say of a relation whether two rows have equal values in its key.

    TPC-H has such rows of partsupp at most scale factors below 0.023. If rows have changes, versions of one may have
    the same key, and the source checks it.
    """
    if not relation.key or relation.name in parts.changes:
        return relation
    import duckdb  # noqa: PLC0415 (it takes a while to load)

    key = ", ".join(f'"{relation.prefix}{name}"' for name in relation.key)
    with duckdb.connect() as connection:
        rows = connection.read_parquet([str(path) for path in parts.files[relation.name]])
        return replace(relation, repeats_keys=len(rows) > len(rows.project(key).distinct()))


def _write_changes(into: Path, parts: Parts, chunk_rows: int) -> dict[str, tuple[Chunk, ...]]:
    written = {}
    for name, path in parts.changes.items():
        folder = folder_of("changes", name)
        (into / folder).mkdir(parents=True)
        batches = pq.ParquetFile(path).iter_batches(chunk_rows, columns=CHANGES_SCHEMA.names)
        empty = CHANGES_SCHEMA.empty_table().to_batches() or [pa.RecordBatch.from_pylist([], CHANGES_SCHEMA)]
        written[name] = write_chunks(into, folder, chain(empty, (_as_changes(each) for each in batches)), chunk_rows)
    return written


def _as_changes(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(batch.columns, schema=CHANGES_SCHEMA)


def _make_skewed(request: Wanted, report: Report, plain: Dataset, exponent: Decimal, making: Path) -> Path:
    report("starting Spark", 0, 0)
    arrow = _own(making)
    with session(request.master) as spark:
        rewrite(spark, plain, exponent, arrow, partial(report, "rewriting keys"))
    return arrow


def _own(making: Path) -> Path:
    """Return a directory of this run: orphaned processes of a killed run may still write into theirs."""
    return making / f"arrow-{uuid.uuid4().hex}"


def _writable(data: Path) -> None:
    try:
        data.mkdir(parents=True, exist_ok=True)
        if not os.access(data, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied", str(data))
    except OSError as error:
        raise DeltamarkError("cannot write the data", f"{data}: {error.strerror}", "give another DATA=") from error


@contextmanager
def _locked(data: Path, report: Report) -> Iterator[None]:
    handle = os.open(data, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("waiting for another process", 0, 0)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
