"""Golden digests: the digests of the change streams of all queries at one scale factor, committed in results/golden."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from deltamark.errors import DeltamarkError, naming
from deltamark.harness.benchmarks.benchmark import benchmark
from deltamark.harness.measure.cell import Cell

SF = "0.01"
FILE = Path(__file__).resolve().parent.parent.parent / "results" / "golden" / f"sf{SF}.csv"
HEADER = ["query", "workload", "logical", "updates", "digest"]
WORKLOADS = {
    "insert": (1, 1000), "window:500": (1, 1000), "refresh:5": (1, 1000), "slide:20000": (1000,), "late:500": (1000,),
    "update:5": (1,), "churn:5": (1, 1000), "hot:8": (1,), "zipf:1": (1000,),
}  # fmt: skip
"""The workloads with their sizes of logical batches."""


def golden_cells(queries: Iterable[str] = ()) -> list[Cell]:
    """Return the cells of some queries, or of all."""
    names = list(queries) or benchmark().queries
    return [Cell(name, SF, work, logical) for name in names for work in WORKLOADS for logical in WORKLOADS[work]]


def read_golden() -> dict[Cell, str]:
    """Return the committed digests."""
    try:
        with FILE.open(encoding="utf-8", newline="") as file:
            _, *rows = csv.reader(file)
    except OSError as error:
        raise DeltamarkError("no golden digests", error, "restore the file from version control") from error
    return {Cell(name, SF, work, int(logical)): f"{updates} {digest}" for name, work, logical, updates, digest in rows}


def write_golden(digests: dict[Cell, str]) -> None:
    with naming(FILE), FILE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows([cell.query, cell.workload, cell.logical, *digest.split()] for cell, digest in digests.items())
