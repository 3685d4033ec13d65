"""The rewriting of keys as a Spark job: each task copies one file of orders or lineitem with its skewed columns.

The other relations are links to the plain data, beside which the skewed data lies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from deltamark.datagen.dataset import Dataset, map_batch
from deltamark.datagen.manifest import MEMBERS, Chunk, RelationFiles
from deltamark.datagen.prebatch import WrittenChunk, bounds_of, merged, write_arrow
from deltamark.datagen.skew.columns import SKEWED, SkewedColumns
from deltamark.datagen.spark.session import run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class RewriteTask:
    """A file of the data in `plain` that is to be rewritten below the directory `into`."""

    plain: Path
    exponent: Decimal
    relation: str
    number: int
    into: Path


def rewrite(
    spark: SparkSession, plain: Dataset, exponent: Decimal, into: Path, report: Callable[[int, int], None]
) -> None:
    """Write skewed data below `into`, and last its manifest; report the files done."""
    into.mkdir(parents=True)
    for name in (*plain.relations, MEMBERS):
        if name in SKEWED:
            (into / name).mkdir()
        else:
            (into / name).symlink_to(Path("..") / plain.directory.name / name)
    tasks = [
        RewriteTask(plain.directory, exponent, name, number, into)
        for name in SKEWED
        for number in range(len(plain.manifest.relations[name].chunks))
    ]

    def poll() -> None:
        report(sum((into / _chunk(plain, task).file).exists() for task in tasks), len(tasks))

    written = run_tasks(spark, rewrite_file, tasks, poll)
    report(len(tasks), len(tasks))
    manifest = plain.manifest
    relations = {
        name: _files(files, [each for each in written if each.relation == name])
        for name, files in manifest.relations.items()
    }
    generator = f"{manifest.generator}, keys by Zipf's law with exponent {exponent}"
    replace(manifest, generator=generator, relations=relations).write(into)


def rewrite_file(task: RewriteTask) -> WrittenChunk:
    """Copy one file with its skewed columns."""
    plain, columns = _opened(task.plain, task.exponent)
    chunk, schema = _chunk(plain, task), plain.relations[task.relation].arrow_schema
    batch = map_batch(task.plain, chunk, schema)
    first = task.number << plain.shift
    skewed = {
        column: pa.array(columns.values(task.relation, column, range(first, first + chunk.rows)))
        for column in SKEWED[task.relation]
    }
    arrays = [skewed.get(name, batch.column(name)) for name in schema.names]
    bounds = {name: bounds_of(plain.relations[task.relation].column(name), array) for name, array in skewed.items()}
    rewritten = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return WrittenChunk(task.relation, write_arrow(task.into, chunk.file, rewritten), bounds)


@cache
def _opened(directory: Path, exponent: Decimal) -> tuple[Dataset, SkewedColumns]:
    """Open the plain data once in each process."""
    plain = Dataset.open(directory)
    return plain, SkewedColumns(plain, exponent)


def _chunk(plain: Dataset, task: RewriteTask) -> Chunk:
    return plain.manifest.relations[task.relation].chunks[task.number]


def _files(plain: RelationFiles, written: Sequence[WrittenChunk]) -> RelationFiles:
    """Return the files of a relation: those that were written, or the plain ones."""
    if not written:
        return plain
    bounds = {name: merged([each.bounds[name] for each in written]) for name in written[0].bounds}
    return RelationFiles(tuple(each.chunk for each in written), {**plain.bounds, **bounds}, plain.dictionaries)
