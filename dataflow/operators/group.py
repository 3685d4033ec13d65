"""Aggregate and threshold: operators that keep state for each group and emit its changes when a time ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deltamark.dataflow.codegen.columns import Key, Stream, unpacked
from deltamark.dataflow.codegen.memory_layout import UNBOUNDED_WORDS
from deltamark.dataflow.codegen.program import key_range
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.groups.aggregate import AggregateBlock, Group, group_words
from deltamark.dataflow.kernels.groups.threshold import ThresholdBlock
from deltamark.dataflow.kernels.hashing import hash_map
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.operators.arrangement import negative, wide_weight
from deltamark.dataflow.plan import nodes
from deltamark.dataflow.types import NULL, Type
from deltamark.errors import DeltamarkError


@dataclass(frozen=True)
class Groups:
    """The state of an aggregate or a threshold, and the columns of its keys."""

    block: AggregateBlock | ThresholdBlock
    names: tuple[str, ...]
    types: tuple[Type, ...]
    key: Key

    def rows(self) -> int:
        """Count the groups that have rows."""
        return self.block.live

    def problem(self) -> DeltamarkError:
        """Return the error that has made the kernel fail."""
        if isinstance(self.block, ThresholdBlock) and self.block.overflow < 0:
            return wide_weight()
        row, time = self._row(), self.block.open_time
        if isinstance(self.block, AggregateBlock) and _has_wide_sum(self.block):
            actual = f"{', '.join(f'{name}={value}' for name, value in row.items()) or 'the only group'} at time {time}"
            return DeltamarkError("a sum needs more than 64 bits", actual, "narrow the bounds of what is summed")
        return negative(row, time)

    def _row(self) -> dict[str, int]:
        """Read the key columns of the group that the kernel has failed for."""
        key = int(hash_map.key_of(self.block.keys, self.block.error_group))
        return row_of(self.key, self.names, self.types, key)


def _has_wide_sum(block: AggregateBlock) -> bool:
    """Return whether an aggregate has failed because of a sum, rather than a negative number of rows."""
    group = Group(block.state[group_words(block.sums) * block.error_group :].address)
    return group.numbers[1] >= 0


def row_of(how: Key, names: Sequence[str], types: Sequence[Type], key: int) -> dict[str, int]:
    """Return the columns of a key."""
    if how.form == "single":
        return {names[0]: key if how.deal is None else how.deal.key(key)}
    if how.interner is not None:
        stored = zip(names, how.interner.stored, strict=True)
        return {name: int(view(int(view(cell, 1)[0]) + 8 * key, 1)[0]) for name, cell in stored}
    row: dict[str, int] = {}
    for name, type_, (low, radix) in reversed(list(zip(names, types, key_range(types), strict=True))):
        key, digit = divmod(key, radix)
        row[name] = NULL if type_.nullable and digit == 0 else digit + low
    return dict(reversed(row.items()))


Append = Callable[..., int]
"""Appends an operator to a program, given its opcode, class and fields, and returns its block."""


def aggregate(stream: Stream, node: nodes.Aggregate, rows: int, append: Append) -> Stream:
    """Append an aggregate: the sums of each group, whose changes are emitted when a time ends."""
    program = stream.program
    names, sums = node.keys, node.sums
    types = tuple(node.schema[name] for name in names)
    values = program.table([0 if each.term is None else stream.evaluate(each.term) for each in sums])
    key = stream.key(names, types)
    keys = program.keys(key, rows, stream.size)
    size, time, diff, out_key = program.cell(), *(program.vector() for _ in range(3))
    columns = {each.name: program.vector() for each in sums}
    words, reserve = int(group_words(len(sums))), program.memory.reserve
    state = reserve(keys.capacity * words)
    block = append(
        Opcode.AGGREGATE, AggregateBlock, size=stream.size, time=stream.time, diff=stream.diff, key=key.cell,
        keys=keys.block,
        frontier=program.frontier, sums=len(sums), values=values, state=state, saved=reserve(UNBOUNDED_WORDS),
        touched=reserve(UNBOUNDED_WORDS), out_size=size, out_time=time, out_diff=diff, out_key=out_key,
        out=program.table([cell for column in columns.values() for cell in (column, 0)]),
        slice_values=program.words(max(len(sums), 1)), slice_out=program.words(max(2 * len(sums), 1)),
    )  # fmt: skip
    program.keep(Groups(AggregateBlock(block), tuple(names), types, key))
    if key.interner is not None:
        key.interner.keep_for(program, state, words)
    return _with_keys(Stream(program, size, time, diff, columns.__getitem__, columns), out_key, key, names, types)


def threshold(stream: Stream, node: nodes.Threshold, rows: int) -> Stream:
    """Append a threshold: the weight of each row, whose crossings of a minimum are emitted when a time ends."""
    program, names = stream.program, node.schema.names
    types = tuple(node.schema[name] for name in names)
    key = stream.key(names, types)
    keys = program.keys(key, rows, stream.size)
    size, time, diff, out_key = program.cell(), *(program.vector() for _ in range(3))
    reserve = program.memory.reserve
    block = program.add(
        Opcode.THRESHOLD, ThresholdBlock, size=stream.size, time=stream.time, diff=stream.diff, key=key.cell,
        keys=keys.block,
        frontier=program.frontier, minimum=node.least, state=reserve(2 * keys.capacity), saved=reserve(UNBOUNDED_WORDS),
        touched=reserve(UNBOUNDED_WORDS), out_size=size, out_time=time, out_diff=diff, out_key=out_key,
    )  # fmt: skip
    program.keep(Groups(ThresholdBlock(block), tuple(names), types, key))
    return _with_keys(Stream(program, size, time, diff, lambda _: 0), out_key, key, names, types)


def _with_keys(stream: Stream, cell: int, key: Key, names: Sequence[str], types: Sequence[Type]) -> Stream:
    """Let a stream compute its key columns from a cell of keys."""
    makers = unpacked(stream, cell, key, names, types) if names else {}
    stream.make = lambda name: makers[name]()
    return stream
