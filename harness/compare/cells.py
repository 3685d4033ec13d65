"""Which cells the gate measures: by default queries that together use every operator, over both kinds of streams."""

from __future__ import annotations

from itertools import product

from harness.cell import Cell
from queries.catalogue import query

QUERIES = ("q01", "q03", "q09", "q13", "q16", "q18", "q21")
PHYSICAL = (1000, 10_000)
WORKLOADS = ("insert", "window:10000")

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
