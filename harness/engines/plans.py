"""The plan of the query of a cell."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from deltamark.dataflow.language.collection import Collection
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.schema import relation
from deltamark.datagen.workload import Workload
from deltamark.harness.engines.inputs import relation_source, specified_source
from deltamark.harness.measure.cell import Cell
from deltamark.queries.catalogue import query


def plan_of(cell: Cell, dataset: Dataset, work: Workload) -> Collection:
    """Build the plan of the query of a cell, in the cell's variant."""
    names = query(cell.query).relations
    return _plan(cell, {name: relation_source(dataset, relation(name).name, work) for name in names})


def specified_plan(cell: Cell) -> Collection:
    """Build the plan of the query of a cell from the specification, without data."""
    names, sf = query(cell.query).relations, Decimal(cell.sf)
    return _plan(cell, {name: specified_source(relation(name).name, sf, cell.workload) for name in names})


def _plan(cell: Cell, relations: Mapping[str, Collection]) -> Collection:
    definition = query(cell.query)
    return definition.plan(cell.variant or definition.default, relations, cell.parameters)
