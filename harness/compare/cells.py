"""The cells that the gate measures.

The default queries of TPC-H together use most operators, over insertions and over a sliding window; the default scale
factor gives each of them enough work. Of another benchmark all queries are measured, over its own workload. The graph
suite has few motifs, counted by BiGJoin and by delta queries.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from deltamark.datagen.workloads.registry import known_workload
from deltamark.errors import unknown
from deltamark.harness.benchmarks.benchmark import Benchmark
from deltamark.harness.measure.cell import Cell, MotifCell

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
