"""The relations as inputs of plans, and the deltas of a feed as batches of a dataflow."""

from __future__ import annotations

from collections.abc import Iterable

from deltamark.dataflow.batch import Batch, trusted
from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.types import TEXT, Type, code_type, date_type, integer
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Delta
from deltamark.datagen.schema import RELATIONS, Column, RelationName
from deltamark.datagen.workload import Workload


def relation_source(dataset: Dataset, name: RelationName, work: Workload) -> Collection:
    """Declare a relation as an input, with the bounds that the manifest and the workload state."""
    columns = {column.name: _type(dataset, name, column) for column in RELATIONS[name].columns}
    return source(name, columns, work.most_live(name))


def _type(dataset: Dataset, name: RelationName, column: Column) -> Type:
    low, high = dataset.manifest.relations[name].bounds[column.name]
    match column.kind:
        case "code":
            return code_type(tuple(dataset.dictionary(name, column.name).to_pylist()))
        case "text":
            return TEXT
        case "date":
            return date_type(int(low), int(high))
        case "decimal":
            return integer(int(low), int(high), scale=2)
    return integer(int(low), int(high))


def batches(deltas: Iterable[Delta]) -> dict[str, Batch]:
    """Convert deltas to batches without checks: the data was verified, so its bounds and order hold."""
    return {delta.relation: trusted(delta.time, delta.diff, delta.columns, delta.addresses) for delta in deltas}
