"""The plan of the query of a cell."""

from __future__ import annotations

from deltamark.dataflow.language.collection import Collection
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.schema import relation
from deltamark.datagen.workload import Workload
from deltamark.harness.engines.inputs import relation_source
from deltamark.harness.measure.cell import Cell
from deltamark.queries.catalogue import query


def plan_of(cell: Cell, dataset: Dataset, work: Workload) -> Collection:
    """Build the plan of the query of a cell, in the cell's variant."""
    definition = query(cell.query)
    tables = {name: relation_source(dataset, relation(name).name, work) for name in definition.relations}
    return definition.plan(cell.variant or definition.default, tables, cell.parameters)
