"""Which cells the gate measures: by default queries that together use most operators, over both kinds of streams, and
at a scale factor that gives all of them enough to do; of the suite of graphs few motifs, by BiGJoin and delta queries.
"""

from __future__ import annotations

from itertools import product

from deltamark.datagen.workload import known_workload
from deltamark.harness.measure.cell import Cell, MotifCell
from deltamark.queries.catalogue import query

SF = "0.3"
QUERIES = ("q01", "q09", "q10", "q13", "q18", "q21")
PHYSICAL = (3000, 30_000)
WORKLOADS = ("insert", "window:1000")

SCALE = 16
MOTIFS = (("triangle", 0), ("triangle", 10_000), ("4-clique", 0))
"""Counted in a graph that does not change, or while so many edges come and go at a time."""


def cells(
    sf: str, queries: tuple[str, ...], workloads: tuple[str, ...], logical: tuple[int, ...], physical: tuple[int, ...]
) -> list[Cell]:
    """List the cells, of each query and workload in all batchings. This needs no data."""
    for name in queries:
        query(name)
    for work in workloads:
        known_workload(work)
    every = product(queries, workloads, logical, physical)
    return [Cell(name, sf, work, each, size) for name, work, each, size in every]


def motif_cells(scale: int) -> list[MotifCell]:
    return [MotifCell(name, f"rmat:{scale}", batch) for name, batch in MOTIFS]
