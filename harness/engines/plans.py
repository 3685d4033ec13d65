"""The plan of the query of a cell, and the columns that its SQL reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

from deltamark.datagen.schema import Relation
from deltamark.datagen.workloads.workload import Workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.engines.base import Inputs
from deltamark.harness.engines.inputs import relation_source, specified_source

if TYPE_CHECKING:
    from deltamark.dataflow.language.collection import Collection


def plan_of(cell: Cell, work: Workload) -> Collection:
    """Build the plan of the query of a cell, in the cell's variant."""
    return _plan(cell, {name: relation_source(name, work) for name in cell.reads})


def specified_plan(cell: Cell) -> Collection:
    """Build the plan of the query of a cell from the specification, without data."""
    source = cell.home.source
    found = source.specification(Decimal(cell.sf), cell.workload)
    if found is None:
        raise DeltamarkError("bounds that only the data has", source.name, "make the data first")
    return _plan(cell, {name: specified_source(source.relations[name], found) for name in cell.reads})


def _plan(cell: Cell, relations: Mapping[str, Collection]) -> Collection:
    return cell.home.plan(cell.query, cell.variant, relations, cell.parameters)


def sql_inputs(*cells: Cell) -> Inputs:
    """Return the relations and columns that the SQL of some cells reads."""
    names = dict.fromkeys(name for cell in cells for name in cell.reads)
    return columns_read(" ".join(cell.text for cell in cells), [cells[0].home.relations[name] for name in names])


def columns_read(sql: str, relations: Iterable[Relation]) -> dict[str, tuple[str, ...]]:
    """Return the columns of some relations that SQL names: at least the first, and all if it may read them by `*`."""
    quoted = (name.replace('""', '"') for name in re.findall(r'"((?:[^"]|"")+)"', sql.lower()))
    words = {*re.findall(r"\w+", sql.lower()), *quoted}
    selects = re.sub(r"EXISTS\s*\(\s*SELECT\s+\*", "", sql, flags=re.IGNORECASE)
    reads_all = re.search(r"(SELECT\s+|\.\s*)\*|\bNATURAL\b", selects, re.IGNORECASE)
    columns_of: dict[str, tuple[str, ...]] = {}
    for table in relations:
        columns = tuple(column.name for column in table.columns)
        named = tuple(column for column in columns if reads_all or (table.prefix + column).lower() in words)
        columns_of[table.name] = named or columns[:1]
    return columns_of
