"""The making of a scale factor's data: generate, pre-batch, publish. Complete data is only opened.

Data is made in a directory `.making-KEY` and published by one rename, so a reader finds complete data or none. DATA is
locked while data is made in it, by `flock`, which ends with its process. The next run uses the finished parts of an
interrupted one. Complete data is only read, so its directory need not be writable.

The regression gate calls `make_data` and `Wanted` in trees of other commits (harness/compare/data.py).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Literal

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.generate import generate, generator_version, part_count
from deltamark.datagen.manifest import Manifest
from deltamark.datagen.order_lines import write_order_lines
from deltamark.datagen.prebatch import prebatch
from deltamark.datagen.schema import CHUNK_ROWS, SCHEMA_VERSION
from deltamark.datagen.scratch import sweep
from deltamark.datagen.spark.session import session
from deltamark.errors import DeltamarkError

Phase = Literal["waiting for another process", "starting Spark", "generating parts", "pre-batching rows"]
Report = Callable[[Phase, int, int], None]


@dataclass(frozen=True)
class Wanted:
    """A request for the data of a scale factor below the directory `data`; master: the Spark master that makes it."""

    data: Path
    sf: Decimal
    master: str = "local[*]"
    chunk_rows: int = CHUNK_ROWS

    @property
    def directory(self) -> Path:
        """The directory of the data. Its name is the key: equal names mean equal bytes."""
        return self.data / f"tpch-sf{self.sf}-{generator_version().replace(' ', '-')}-v{SCHEMA_VERSION}"

    @property
    def making(self) -> Path:
        return self.data / f".making-{self.directory.name}"


def make_data(request: Wanted, report: Report) -> tuple[Dataset, bool]:
    """Open the data, and make it first if necessary; return whether it is new."""
    sweep()
    is_new = not request.directory.exists()
    if is_new:
        _writable(request.data)
    if is_new or request.making.exists():
        with _locked(request.data, report):
            if is_new := not request.directory.exists():
                _make(request, report)
            shutil.rmtree(request.making, ignore_errors=True)
    return Dataset.open(request.directory), is_new


def _make(request: Wanted, report: Report) -> None:
    report("starting Spark", 0, 0)
    with session(request.master) as spark:
        parts = part_count(request.sf, spark.sparkContext.defaultParallelism)
        parquet = request.making / f"parquet-{parts}"
        parquet.mkdir(parents=True, exist_ok=True)
        generate(spark, request.sf, parquet, parts, partial(report, "generating parts"))
        # a directory of this run: orphaned processes of a killed run may still write into theirs
        arrow = request.making / f"arrow-{uuid.uuid4().hex}"
        relations = prebatch(spark, parquet, arrow, request.chunk_rows, partial(report, "pre-batching rows"))
        lines = write_order_lines(arrow, relations, request.chunk_rows)
    Manifest(SCHEMA_VERSION, str(request.sf), generator_version(), request.chunk_rows, relations, lines).write(arrow)
    arrow.rename(request.directory)


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
