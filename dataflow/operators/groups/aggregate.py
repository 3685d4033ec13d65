"""Aggregate and threshold: the sums of each group, and the groups that have a minimum number of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from deltamark.dataflow.builder.key_ids import key_ids
from deltamark.dataflow.builder.keys import Key, key_columns, key_of, key_values
from deltamark.dataflow.builder.program import Program
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.builder.terms import evaluate
from deltamark.dataflow.kernels.core.blocks import Operator
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS, view
from deltamark.dataflow.kernels.groups.aggregate import AggregateBlock, Group, group_words
from deltamark.dataflow.kernels.groups.threshold import ThresholdBlock
from deltamark.dataflow.kernels.hashing import hash_map
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.operators.errors import described, negative_multiplicity, wide_weight
from deltamark.dataflow.plan import nodes
from deltamark.dataflow.plan.cardinality import row_count
from deltamark.dataflow.plan.term_sql import literal
from deltamark.dataflow.types import LARGEST, Type
from deltamark.errors import DeltamarkError


class AppendOperator(Protocol):
    """Appends an operator, such as `Program.add` does."""

    def __call__(self, code: int, kind: type[Operator], **fields: int) -> int: ...


@dataclass(frozen=True)
class Groups:
    """The state of an aggregate or a threshold, and the columns of its keys."""

    program: Program
    block: AggregateBlock | ThresholdBlock
    names: tuple[str, ...]
    types: tuple[Type, ...]
    key: Key
    sums: Sequence[Type] = ()
    """The types of the sums."""

    def rows(self) -> int:
        """Count the groups that have rows."""
        return self.block.live

    def problem(self) -> DeltamarkError:
        """Return the error that has made the kernel fail."""
        if isinstance(self.block, ThresholdBlock) and self.block.overflow < 0:
            return wide_weight()
        number = int(hash_map.key_of(self.block.keys, self.block.error_group))
        row, time = key_values(self.key, number, self.names, self.types), self.block.open_time
        if isinstance(self.block, AggregateBlock) and (found := _sum_out_of_bounds(self.block)) is not None:
            actual, (index, total) = described(self.program, row, time, unnamed="the only group"), found
            if abs(total) > LARGEST:
                cause, remedy = "a sum needs more than 64 bits", "narrow the bounds of what is summed"
                return DeltamarkError(cause, actual, remedy, time=time)
            remedy = "retract only what was inserted before, and keep to the declared number of rows"
            actual = f"{literal(self.sums[index], total)} for {actual}"
            return DeltamarkError("a sum is out of bounds", actual, remedy, time=time)
        return negative_multiplicity(self.program, row, time)


def _sum_out_of_bounds(block: AggregateBlock) -> tuple[int, int] | None:
    """Return the number of the sum that has made an aggregate fail, and the sum; None if a count of rows has."""
    sums, values = block.sums, view(block.values.address, block.sums)
    group = Group(block.state[group_words(sums) * block.error_group :].address)
    numbers, bounds = view(group.numbers.address, 2 * sums + 2), view(block.bounds.address, 2 * sums)
    if numbers[1] < 0:
        return None
    for index in range(sums):
        at = 2 * index + 2 if values[index] else 0
        total = (int(numbers[at + 1]) << 64) + (int(numbers[at]) & 2**64 - 1)
        if not bounds[2 * index] <= total <= bounds[2 * index + 1]:
            return index, total
    return None


def aggregate(stream: Stream, node: nodes.Aggregate, append: AppendOperator) -> Stream:
    """Append an aggregate: the sums of each group, whose changes are emitted when a time ends."""
    program, reserve = stream.program, stream.program.memory.reserve
    names, types = node.keys, tuple(node.schema[name] for name in node.keys)
    summed = {each.name: 0 if each.term is None else evaluate(stream, each.term) for each in node.sums}
    sums = {cell: name for name, cell in summed.items()}  # sums of one vector are computed once
    key = key_of(stream, names, types)
    words, bounds = int(group_words(len(sums))), [node.schema[name] for name in sums.values()]
    keys = key_ids(program, key, row_count(node), stream.size, state_words=words)
    size, time, diff, out_key = program.cell(), *(program.vector() for _ in range(3))
    out = {cell: program.vector() for cell in sums}
    columns = {name: out[cell] for name, cell in summed.items()}
    state = reserve(keys.capacity * words)
    block = append(
        Opcode.AGGREGATE, AggregateBlock, size=stream.size, time=stream.time, diff=stream.diff, key=key.cell,
        keys=keys.block, frontier=program.frontier, sums=len(sums), values=program.table(list(sums)), state=state,
        saved=reserve(UNBOUNDED_WORDS), touched=reserve(UNBOUNDED_WORDS), out_size=size, out_time=time, out_diff=diff,
        out_key=out_key, out=program.table(list(out.values())),
        bounds=program.table([bound for type_ in bounds for bound in (type_.low, type_.high)]),
        slice_values=program.words(max(len(sums), 1)), slice_out=program.words(max(len(sums), 1)),
    )  # fmt: skip
    program.add_state(Groups(program, AggregateBlock(block), tuple(names), types, key, bounds))
    if key.interner is not None:
        key.interner.free_in_sweeps(program, state, words)
    return _with_keys(Stream(program, size, time, diff, columns.__getitem__, columns), out_key, key, names, types)


def threshold(stream: Stream, node: nodes.Threshold) -> Stream:
    """Append a threshold: the number of rows of each key, whose crossings of a minimum are emitted when a time ends."""
    program, reserve, names = stream.program, stream.program.memory.reserve, node.schema.names
    types = tuple(node.schema[name] for name in names)
    key = key_of(stream, names, types)
    keys = key_ids(program, key, row_count(node), stream.size)
    size, time, diff, out_key = program.cell(), *(program.vector() for _ in range(3))
    block = program.add(
        Opcode.THRESHOLD, ThresholdBlock, size=stream.size, time=stream.time, diff=stream.diff, key=key.cell,
        keys=keys.block, frontier=program.frontier, minimum=node.least, state=reserve(2 * keys.capacity),
        saved=reserve(UNBOUNDED_WORDS), touched=reserve(UNBOUNDED_WORDS), out_size=size, out_time=time, out_diff=diff,
        out_key=out_key,
    )  # fmt: skip
    program.add_state(Groups(program, ThresholdBlock(block), tuple(names), types, key))
    return _with_keys(Stream(program, size, time, diff, lambda _: 0), out_key, key, names, types)


def _with_keys(stream: Stream, cell: int, key: Key, names: Sequence[str], types: Sequence[Type]) -> Stream:
    """Let a stream compute its key columns from a cell of keys."""
    columns = key_columns(stream, cell, key, names, types) if names else {}
    stream.compute = lambda name: columns[name]()

    def late(name: str) -> Callable[[Stream, int], int]:
        return lambda rows, selected: key_columns(rows, rows.take(cell, selected), key, names, types)[name]()

    stream.late = {name: late(name) for name in names}
    return stream
