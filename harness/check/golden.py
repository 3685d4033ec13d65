"""Golden digests: the digests of the change streams of all queries of a benchmark, to which later code is compared.

Those of the benchmarks of this project are computed at one scale factor and committed in results/golden. Those of any
other benchmark lie in its folder.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path

from deltamark.errors import DeltamarkError, naming
from deltamark.harness.benchmarks.benchmark import DEFAULT, Benchmark, benchmark, included
from deltamark.harness.benchmarks.cell import Cell

SF = "0.01"
FOLDER = Path(__file__).resolve().parent.parent.parent / "results" / "golden"
OWN_FILE = "golden.csv"
"""The file in the folder of a benchmark outside this project."""

HEADER = ["query", "workload", "logical", "updates", "digest"]
WORKLOADS = {
    "insert": (1, 1000), "window:500": (1, 1000), "refresh:5": (1, 1000), "slide:20000": (1000,), "late:500": (1000,),
    "expire:90": (1,), "update:5": (1,), "churn:5": (1, 1000), "hot:8": (1,), "zipf:1": (1000,), "changes": (1, 1000),
}  # fmt: skip
"""The workloads with their sizes of logical batches. A benchmark has digests of those that apply to it."""

OF_TPCH = tuple(name for name in WORKLOADS if name != "changes")


def golden_cells(
    queries: Iterable[str] = (), home: Benchmark | None = None, workloads: Iterable[str] = OF_TPCH
) -> list[Cell]:
    """Return the cells of some queries, or of all."""
    home = home or benchmark()
    sf, names = str(home.source.scale(Decimal(SF))), list(queries) or home.queries
    return [
        Cell(name, sf, work, logical, benchmark=home.name)
        for name in names
        for work in workloads
        for logical in WORKLOADS[work]
    ]


def golden_file(home: Benchmark) -> Path:
    """Return the file with the digests of a benchmark."""
    if home.name not in included():
        return home.folder / OWN_FILE
    return FOLDER / (f"sf{SF}.csv" if home.name == DEFAULT else f"{home.name}-sf{SF}.csv")


def read_golden(home: Benchmark | None = None) -> dict[Cell, str]:
    """Return the digests of a benchmark that were written before."""
    home = home or benchmark()
    path, sf = golden_file(home), str(home.source.scale(Decimal(SF)))
    try:
        with path.open(encoding="utf-8", newline="") as file:
            _, *rows = csv.reader(file)
        return {
            Cell(name, sf, work, int(logical), benchmark=home.name): f"{updates} {digest}"
            for name, work, logical, updates, digest in rows
        }
    except OSError as error:
        remedy = (
            "write them: golden WRITE=yes" if home.name not in included() else "restore the file from version control"
        )
        raise DeltamarkError("no golden digests", f"{path}: {error.strerror}", remedy) from error
    except (ValueError, csv.Error) as error:
        raise DeltamarkError(
            "unreadable golden digests", f"{path}: {error}", "write them again: golden WRITE=yes"
        ) from error


def write_golden(digests: Mapping[Cell, str], home: Benchmark) -> None:
    path = golden_file(home)
    with naming(path), path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows([cell.query, cell.workload, cell.logical, *digest.split()] for cell, digest in digests.items())
