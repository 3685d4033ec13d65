"""Generation as a Spark job: one task runs tpchgen-cli for one part of every relation.

A part is published by renaming its directory, so an interrupted generation continues with the missing parts. The rows
do not depend on the number of parts.
"""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from deltamark.datagen.schema import RelationName
from deltamark.datagen.spark.session import run_tasks
from deltamark.errors import DeltamarkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PART_SF = Decimal("0.25")
"""The scale factor of one part. Starting the generator costs as much as generating an eighth of this."""


@dataclass(frozen=True)
class PartTask:
    """A part of every relation, to be generated into the directory `target`."""

    sf: Decimal
    part: int
    parts: int
    target: Path


def generator_version() -> str:
    return f"tpchgen-cli {version('tpchgen-cli')}"


def part_count(sf: Decimal, parallelism: int) -> int:
    """Return the number of parts: one for a small scale factor, otherwise a multiple of the parallelism."""
    if sf <= PART_SF:
        return 1
    return parallelism * math.ceil(sf / (PART_SF * parallelism))


def generate(spark: SparkSession, sf: Decimal, into: Path, parts: int, report: Callable[[int, int], None]) -> None:
    """Generate the missing directories of `into`/part-1 to part-`parts`; report the parts done."""
    names = [into / f"part-{part}" for part in range(1, parts + 1)]
    for unfinished in into.glob("making-*"):
        shutil.rmtree(unfinished, ignore_errors=True)
    tasks = [PartTask(sf, part, parts, name) for part, name in enumerate(names, 1) if not name.exists()]
    if tasks:
        run_tasks(spark, run_part, tasks, lambda: report(sum(map(Path.exists, names)), parts))
    report(parts, parts)


def run_part(task: PartTask) -> None:
    """Run the generator into a temporary directory, and rename that to the target."""
    making = task.target.with_name(f"making-{uuid.uuid4().hex}")
    command = [
        find_generator(), "parquet", "-s", str(task.sf), "-o", str(making), "-p", str(task.parts),
        "--part", str(task.part), "--num-threads", "1", "--quiet", "--compression", "UNCOMPRESSED",
    ]  # fmt: skip
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        message = (process.stderr.strip().splitlines() or ["no message"])[-1]
        shutil.rmtree(making, ignore_errors=True)
        raise DeltamarkError(f"tpchgen-cli ended with {process.returncode}", message, "make room or give another DATA=")
    try:
        making.rename(task.target)
    except OSError:
        if not task.target.exists():
            raise
        shutil.rmtree(making)  # an earlier attempt at the same task came first


def find_generator() -> str:
    beside = Path(sys.executable).with_name("tpchgen-cli")
    program = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    if not program:
        raise DeltamarkError("no tpchgen-cli", f"beside {sys.executable} or on the PATH", "run make setup")
    return program


def part_files(directory: Path, relation: RelationName) -> list[Path]:
    """Return the Parquet files of a relation in the order of their parts, which is file order."""
    parts = sorted(directory.glob("part-*"), key=lambda path: int(path.name.removeprefix("part-")))
    return [file for part in parts for file in sorted((part / relation).glob("*.parquet"))]
