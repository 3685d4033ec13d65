"""The relations as inputs of plans, and the deltas of a feed as batches of a dataflow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from deltamark.dataflow.batch import Batch, trusted
from deltamark.dataflow.types import DOUBLE, TEXT, Type, code_type, date_type, integer, timestamp_type
from deltamark.datagen.feed import Delta
from deltamark.datagen.manifest import Bounds
from deltamark.datagen.schema import Column, Relation
from deltamark.datagen.source import Specification
from deltamark.datagen.workloads.workload import Workload

if TYPE_CHECKING:
    from deltamark.dataflow.language.collection import Collection


def relation_source(name: str, work: Workload) -> Collection:
    """Declare a relation as an input, with the bounds that the workload and the manifest of its data state."""
    dataset = work.dataset
    bounds = dataset.manifest.relations[name].bounds
    return _source(
        dataset.relations[name],
        work.most_live(name),
        bounds.__getitem__,
        lambda column: dataset.dictionary(name, column),
    )


def specified_source(relation: Relation, of: Specification) -> Collection:
    """Declare a relation as an input, with the bounds of a specification, which needs no data."""
    name = relation.name
    return _source(relation, of.rows(name), lambda column: of.bounds(name, column), lambda each: of.words(name, each))


def _source(
    relation: Relation, rows: int, bounds: Callable[[str], Bounds], words: Callable[[str], Iterable[object]]
) -> Collection:
    from deltamark.dataflow.language.collection import source  # noqa: PLC0415 (it loads the kernels)

    def type_of(column: Column) -> Type:
        match column.kind:
            case "code":
                return code_type(tuple(map(str, words(column.name))))
            case "text":
                return replace(TEXT, nullable=column.nullable)
            case "double":
                return replace(DOUBLE, nullable=column.nullable)
        low, high = map(int, bounds(column.name))
        match column.kind:
            case "date":
                found = date_type(low, high)
            case "timestamp":
                found = timestamp_type(low, high)
            case _:
                found = integer(low, high, scale=column.scale)
        return replace(found, nullable=column.nullable)

    columns = {column.name: type_of(column) for column in relation.columns}
    return source(relation.name, columns, rows, key=() if relation.repeats_keys else relation.key)


def batches(deltas: Iterable[Delta]) -> dict[str, Batch]:
    """Convert deltas to batches without checks: the data was verified, so its bounds and order hold."""
    return {
        each.relation: trusted(each.time, each.diff, each.columns, each.addresses, each.nullable) for each in deltas
    }
