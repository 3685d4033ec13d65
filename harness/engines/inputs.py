"""The relations as inputs of plans, and the deltas of a feed as batches of a dataflow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal

from deltamark.dataflow.batch import Batch, trusted
from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.types import TEXT, Type, code_type, date_type, integer
from deltamark.datagen import specification
from deltamark.datagen.feed import Delta
from deltamark.datagen.manifest import Bounds
from deltamark.datagen.schema import RELATIONS, Column, RelationName
from deltamark.datagen.workloads.workload import Workload


def relation_source(name: RelationName, work: Workload) -> Collection:
    """Declare a relation as an input, with the bounds that the workload and the manifest of its data state."""
    dataset = work.dataset
    bounds = dataset.manifest.relations[name].bounds
    return _source(name, work.most_live(name), bounds.__getitem__, lambda column: dataset.dictionary(name, column))


def specified_source(name: RelationName, sf: Decimal, workload: str) -> Collection:
    """Declare a relation as an input, with the bounds of the specification, which needs no data."""
    rows = specification.live_rows(name, sf, workload)
    return _source(
        name, rows, lambda column: specification.bounds(column, sf), lambda column: specification.words(name, column)
    )


def _source(
    name: RelationName, rows: int, bounds: Callable[[str], Bounds], words: Callable[[str], Iterable[object]]
) -> Collection:
    def type_of(column: Column) -> Type:
        match column.kind:
            case "code":
                return code_type(tuple(map(str, words(column.name))))
            case "text":
                return TEXT
        low, high = map(int, bounds(column.name))
        if column.kind == "date":
            return date_type(low, high)
        return integer(low, high, scale=2 if column.kind == "decimal" else 0)

    columns = {column.name: type_of(column) for column in RELATIONS[name].columns}
    return source(name, columns, rows, key=RELATIONS[name].key)


def batches(deltas: Iterable[Delta]) -> dict[str, Batch]:
    """Convert deltas to batches without checks: the data was verified, so its bounds and order hold."""
    return {delta.relation: trusted(delta.time, delta.diff, delta.columns, delta.addresses) for delta in deltas}
