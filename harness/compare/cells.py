"""The cells that the gate measures, and the data of a side, made by the side's own code.

The default queries of TPC-H together use most operators, over insertions and over a sliding window; the default scale
factor gives each of them enough work. Of another benchmark all queries are measured, over its own workload. The graph
suite has few motifs, counted by BiGJoin and by delta queries.

Another commit may store the same rows in other files. A side also reports the directory of its data, whose name
contains the version of the files, so sides with different versions share one DATA directory.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from deltamark.datagen.workloads.registry import known_workload
from deltamark.errors import DeltamarkError, unknown
from deltamark.harness.benchmarks.benchmark import Benchmark
from deltamark.harness.benchmarks.cell import Cell, MotifCell
from deltamark.harness.compare.gate import PhaseReport
from deltamark.harness.compare.sides import ComparedSuite, SideSpec

SF = "0.3"
QUERIES = ("q01", "q09", "q10", "q13", "q18", "q21")
PHYSICAL = (3000, 30_000)
WORKLOADS = ("insert", "window:1000")

SCALE = 16
MOTIFS = (("triangle", 0), ("triangle", 10_000), ("4-clique", 0))
"""Motifs, and the number of edges that change in a batch: 0 for a graph that does not change."""


def cells(
    home: Benchmark, sf: str, queries: tuple[str, ...], workloads: tuple[str, ...], batchings: Iterable[tuple[int, int]]
) -> list[Cell]:
    """List the cells of all queries and workloads in all batchings, without opening any data."""
    for name in queries:
        home.query(name)
    for workload in workloads:
        known_workload(workload)
    return [
        Cell(name, sf, workload, logical, physical, benchmark=home.name)
        for name, workload, (logical, physical) in product(queries, workloads, batchings)
    ]


def refuse_unknown_variants(home: Benchmark, queries: tuple[str, ...], variants: tuple[str, ...]) -> None:
    """Raise an error unless every query has every variant; the empty one is the default."""
    for name, variant in product(queries, filter(None, variants)):
        known = home.query(name).variants
        if variant not in known:
            raise unknown(f"variant of {name}", variant, known)


def motif_cells(scale: int) -> list[MotifCell]:
    """List the cells of the graph suite for an R-MAT graph of 2^scale vertices."""
    return [MotifCell(name, f"rmat:{scale}", batch) for name, batch in MOTIFS]


SCRIPTS: Mapping[ComparedSuite, str] = {
    "tpch": """
import sys
from decimal import Decimal
from pathlib import Path
from deltamark.datagen.make import Wanted, make_data
data, size, master, name = sys.argv[1:]
more = {}
if name:
    from deltamark.harness.benchmarks.benchmark import benchmark
    more['source'] = benchmark(name).source
print(make_data(Wanted(Path(data), Decimal(size), master, **more), lambda *_: None)[0].directory)
""",
    "graph": """
import sys
from pathlib import Path
from deltamark.datagen.graphs.make import Graph, make_graph
data, size, master, _ = sys.argv[1:]
print(make_graph(Path(data), Graph('rmat', int(size)), master, lambda *_: None))
""",
}
"""Scripts that make data unless it exists, and print its directory. All commits that can be measured have the names."""


@dataclass(frozen=True)
class SideData:
    """The data that both sides need, below a directory. size: a scale factor, or the scale of an R-MAT graph."""

    suite: ComparedSuite
    directory: Path
    size: str
    master: str
    benchmark: str = ""
    """The name of the benchmark, which is empty for TPC-H: old commits know no other."""

    def make(self, sides: Sequence[SideSpec], report: PhaseReport) -> dict[SideSpec, Path]:
        """Make the data with each side's code, unless it exists; return the directories."""
        directories: dict[SideSpec, Path] = {}
        for number, side in enumerate(sides):
            report("data of both sides", number, len(sides))
            directories[side] = self._made_by(side)
        return directories

    def _made_by(self, side: SideSpec) -> Path:
        words = ["-c", SCRIPTS[self.suite], str(self.directory.resolve()), self.size, self.master, self.benchmark]
        process = subprocess.run([sys.executable, *words], cwd=side.root, capture_output=True, text=True, check=False)
        if process.returncode:
            reason = (process.stderr.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
            raise DeltamarkError(f"{side.label} cannot make its data", reason, "name another commit")
        return Path(process.stdout.splitlines()[-1])
