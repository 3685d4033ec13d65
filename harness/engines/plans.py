"""The plan of the query of a cell, and the columns that its SQL reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal

from deltamark.dataflow.language.collection import Collection
from deltamark.datagen.schema import relation
from deltamark.datagen.workloads.workload import Workload
from deltamark.harness.engines.base import Inputs
from deltamark.harness.engines.inputs import relation_source, specified_source
from deltamark.harness.measure.cell import Cell
from deltamark.queries.catalogue import query


def plan_of(cell: Cell, work: Workload) -> Collection:
    """Build the plan of the query of a cell, in the cell's variant."""
    names = query(cell.query).relations
    return _plan(cell, {name: relation_source(relation(name).name, work) for name in names})


def specified_plan(cell: Cell) -> Collection:
    """Build the plan of the query of a cell from the specification, without data."""
    names, sf = query(cell.query).relations, Decimal(cell.sf)
    return _plan(cell, {name: specified_source(relation(name).name, sf, cell.workload) for name in names})


def _plan(cell: Cell, relations: Mapping[str, Collection]) -> Collection:
    definition = query(cell.query)
    return definition.plan(cell.variant or definition.default, relations, cell.parameters)


def sql_inputs(*cells: Cell) -> Inputs:
    """Return the relations and columns that the SQL of some cells reads."""
    names = dict.fromkeys(name for cell in cells for name in query(cell.query).relations)
    return columns_read(" ".join(cell.sql for cell in cells), names)


def columns_read(sql: str, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the columns of some relations that SQL names: at least the first, and all if it selects `*`."""
    words = set(re.findall(r"\w+", sql))
    selects = re.sub(r"EXISTS\s*\(\s*SELECT\s+\*", "", sql, flags=re.IGNORECASE)
    reads_all = re.search(r"SELECT\s+\*", selects, re.IGNORECASE)
    columns_of: dict[str, tuple[str, ...]] = {}
    for table in map(relation, names):
        columns = tuple(column.name for column in table.columns)
        named = tuple(column for column in columns if reads_all or table.prefix + column in words)
        columns_of[table.name] = named or columns[:1]
    return columns_of
