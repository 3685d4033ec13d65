"""Which cells the gate measures: by default queries that together use most operators, over both kinds of streams, and
at a scale factor that gives all of them enough to do.
"""

from __future__ import annotations

from itertools import product

from harness.cell import Cell
from queries.catalogue import query

SF = "0.3"
QUERIES = ("q01", "q09", "q10", "q13", "q18", "q21")
PHYSICAL = (3000, 30_000)
WORKLOADS = ("insert", "window:1000")

Row = tuple[str, str]
"""A query and a workload."""


def cells(
    sf: str, queries: tuple[str, ...], workloads: tuple[str, ...], logical: tuple[int, ...], physical: tuple[int, ...]
) -> list[Cell]:
    """List the cells, of each query and workload in all batchings."""
    for name in queries:
        query(name)
    every = product(queries, workloads, logical, physical)
    return [Cell(name, sf, work, each, size) for name, work, each, size in every]


def row_of(cell: Cell) -> Row:
    return cell.query, cell.workload
