"""Threshold: the rows that occur at least a number of times, once each. `distinct` is the threshold of one copy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from deltamark.dataflow.builder.keys import Key, key_ids, key_of, key_values
from deltamark.dataflow.builder.program import Program
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS
from deltamark.dataflow.kernels.groups.threshold import THRESHOLD, ThresholdBlock
from deltamark.dataflow.kernels.hashing import hash_map
from deltamark.dataflow.operators.aggregate import with_keys
from deltamark.dataflow.operators.distribution import Columns, Distribution, OperatorDistribution, gather
from deltamark.dataflow.operators.errors import negative_multiplicity, wide_weight
from deltamark.dataflow.operators.extreme import Extreme
from deltamark.dataflow.operators.input import row_count
from deltamark.dataflow.operators.linear import Project
from deltamark.dataflow.operators.node import Emission, JoinReads, Keys, Node, Placing, Requirement
from deltamark.dataflow.types import Type
from deltamark.errors import DeltamarkError


@dataclass(frozen=True, eq=False)
class Threshold(Node):
    """The rows whose multiplicity is at least `least`, once each."""

    rows: Node
    least: int

    consolidated: ClassVar[bool] = True

    @property
    def title(self) -> str:
        return "distinct" if self.least == 1 else super().title

    def description(self, required: Collection[str]) -> str:
        return "" if self.least == 1 else f"at least {self.least} copies"

    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterable[Requirement]:
        return [(self.rows, self.schema.names)]

    def determines(self, names: frozenset[str]) -> bool:
        return set(self.schema.names) <= names or _are_extremes(self.rows, names)

    def distributed(self, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
        names = tuple(columns[self.rows])
        return gather(inputs[0], names, [self.schema[name] for name in names])

    def wishes(self, placing: Placing) -> list[Distribution]:
        return [placing.owned(self.rows)]

    def preferred(self, keys: Keys) -> Iterable[tuple[Node, Keys]]:
        return [(self.rows, keys)]

    def emit(self, emission: Emission, streams: Sequence[Stream]) -> Stream:
        (stream,) = streams
        program, reserve, names = stream.program, stream.program.memory.reserve, self.schema.names
        types = tuple(self.schema[name] for name in names)
        key = key_of(stream, names, types)
        keys = key_ids(program, key, row_count(self), stream.size)
        size, time, diff, out_key = program.cell(), *(program.vector() for _ in range(3))
        block = program.add(
            THRESHOLD, size=stream.size, time=stream.time, diff=stream.diff, key=key.cell,
            keys=keys.block, frontier=program.frontier, minimum=self.least, state=reserve(2 * keys.capacity),
            saved=reserve(UNBOUNDED_WORDS), touched=reserve(UNBOUNDED_WORDS), out_size=size, out_time=time,
            out_diff=diff, out_key=out_key,
        )  # fmt: skip
        program.add_state(CountedRows(program, ThresholdBlock(block), names, types, key))
        return with_keys(Stream(program, size, time, diff, lambda _: 0), out_key, key, names, types)


def _are_extremes(node: Node, names: frozenset[str]) -> bool:
    """Return whether the distinct rows of a node are the extreme of each group, and nothing else."""
    if not isinstance(node, Project) or not isinstance(node.rows, Extreme):
        return False
    extreme, copied = node.rows, node.copied
    keys = {copied[name] for name in names if name in copied}
    return (
        len(copied) == len(node.columns)
        and set(copied.values()) <= {*extreme.keys, extreme.column}
        and (set(extreme.keys) <= keys)
    )


@dataclass(frozen=True)
class CountedRows:
    """The state of a threshold: the number of copies of each row."""

    program: Program
    block: ThresholdBlock
    names: Keys
    types: tuple[Type, ...]
    key: Key

    def rows(self) -> int:
        """Count the rows that have copies."""
        return self.block.live

    def problem(self) -> DeltamarkError:
        """Return the error that has made the kernel fail."""
        if self.block.overflow < 0:
            return wide_weight()
        number = int(hash_map.key_of(self.block.keys, self.block.error_group))
        row = key_values(self.key, number, self.names, self.types)
        return negative_multiplicity(self.program, row, self.block.open_time)
