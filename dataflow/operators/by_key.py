"""Operators by key: the bases of those that need equal keys, or equal rows, together, and answer the passes alike."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from deltamark.dataflow.operators.distribution import Columns, Distribution, OperatorDistribution, gather, together
from deltamark.dataflow.operators.node import Keys, Node, Placing, Requirement, spanned_types
from deltamark.dataflow.types import Type


@dataclass(frozen=True, eq=False)
class Grouped(Node):
    """An operator over groups, which are the rows with equal keys. Without keys, all rows are one group."""

    rows: Node
    keys: Keys

    def distributed(self, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
        return gather(inputs[0], self.keys, [self.rows.schema[name] for name in self.keys], self.rows.sum_columns)

    def wishes(self, placing: Placing) -> list[Distribution]:
        return [placing.owned(self.rows, self.keys)] if self.keys else super().wishes(placing)

    def preferred(self, keys: Keys) -> Iterable[tuple[Node, Keys]]:
        return [(self.rows, self.keys)]


@dataclass(frozen=True, eq=False)
class Merging(Node):
    """An operator that merges equal rows, by whichever of their columns these meet."""

    rows: Node

    def distributed(self, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
        names = tuple(columns[self.rows])
        return gather(inputs[0], names, [self.schema[name] for name in names])

    def wishes(self, placing: Placing) -> list[Distribution]:
        return [placing.owned(self.rows)]


@dataclass(frozen=True, eq=False)
class Paired(Node):
    """An operator that pairs the rows of two inputs by equal keys. It may read shared arrangements of them."""

    copied_sides: ClassVar[Collection[int]] = (0, 1)
    """The sides of which every worker may have a copy, while rows of the other side stay where they are."""

    @property
    @abstractmethod
    def keys(self) -> tuple[Keys, Keys]:
        """The keys of both sides."""

    @cached_property
    def key_types(self) -> tuple[Type, ...]:
        """The types of the keys, each spanning those of both sides."""
        (left, right), (left_keys, right_keys) = self.inputs, self.keys
        return spanned_types(left, left_keys, right, right_keys)

    def input_requirement(self, side: int, columns: Sequence[str]) -> Requirement:
        """Return the requirement of one side on its own input, given the columns besides the keys."""
        return self.inputs[side], [*self.keys[side], *columns]

    def distributed(self, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
        return together(self.keys, self.key_types, inputs, self.schema.names)

    def wishes(self, placing: Placing) -> list[Distribution]:
        return placing.together(self.inputs, self.keys, self.key_types)

    def preferred(self, keys: Keys) -> Iterable[tuple[Node, Keys]]:
        return zip(self.inputs, self.keys, strict=True)


@dataclass(frozen=True)
class OwnInputs:
    """The requirements of pairs that read no other arrangements: their keys and columns of their own inputs."""

    looping: Collection[Node]

    def __call__(self, join: Paired, side: int, columns: Sequence[str]) -> Requirement:
        return join.input_requirement(side, columns)
