"""Generation as a Spark job: one task runs tpchgen-cli for one part of every relation.

A part is published by renaming its directory, so an interrupted generation goes on where it stopped. The rows do
not depend on the number of parts.
"""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltamark.datagen.schema import RelationName
from deltamark.datagen.spark.session import run_tasks
from deltamark.errors import DeltamarkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SF_OF_A_PART = Decimal("0.25")
"""Starting the generator costs as much as an eighth of this: fewer would idle cores, more would waste them."""


def generator_version() -> str:
    return f"tpchgen-cli {version('tpchgen-cli')}"


def part_count(sf: Decimal, parallelism: int) -> int:
    """Return how many parts to make: one where it is small, else a multiple of the parallelism."""
    if sf <= SF_OF_A_PART:
        return 1
    return parallelism * math.ceil(sf / (SF_OF_A_PART * parallelism))


def generate(spark: SparkSession, sf: Decimal, into: Path, parts: int, report: Callable[[int, int], None]) -> None:
    """Make the missing ones of `into`/part-1 ... part-`parts`; report parts done."""
    names = [into / f"part-{part}" for part in range(1, parts + 1)]
    for left_over in into.glob("making-*"):
        shutil.rmtree(left_over, ignore_errors=True)
    tasks = [
        {"sf": str(sf), "part": part, "parts": parts, "into": str(name)}
        for part, name in enumerate(names, 1)
        if not name.exists()
    ]
    if tasks:
        run_tasks(spark, run_part, tasks, lambda: report(sum(map(Path.exists, names)), parts))
    report(parts, parts)


def run_part(task: dict[str, Any]) -> None:
    """Run the generator into a directory of our own, then give it its name."""
    target = Path(task["into"])
    making = target.with_name(f"making-{uuid.uuid4().hex}")
    command = [
        find_generator(), "parquet", "-s", task["sf"], "-o", making, "-p", str(task["parts"]),
        "--part", str(task["part"]), "--num-threads", "1", "--quiet", "--compression", "UNCOMPRESSED",
    ]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        said = (ran.stderr.strip().splitlines() or ["nothing"])[-1]
        shutil.rmtree(making, ignore_errors=True)
        raise DeltamarkError(f"tpchgen-cli ended with {ran.returncode}", said, "make room or give another DATA=")
    try:
        making.rename(target)
    except OSError:
        if not target.exists():
            raise
        shutil.rmtree(making)  # an earlier attempt at the same task came first


def find_generator() -> str:
    beside = Path(sys.executable).with_name("tpchgen-cli")
    found = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    if not found:
        raise DeltamarkError("no tpchgen-cli", f"beside {sys.executable} or on the PATH", "run make setup")
    return found


def part_files(directory: Path, relation: RelationName) -> list[Path]:
    """Return the relation's Parquet files in the order of their parts, which is file order."""
    parts = sorted(directory.glob("part-*"), key=lambda path: int(path.name.removeprefix("part-")))
    return [file for part in parts for file in sorted((part / relation).glob("*.parquet"))]
