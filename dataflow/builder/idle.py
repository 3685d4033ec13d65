"""Idle operators: an operator is idle if it has no rows, no open time and an empty output.

Each has a few words that are all 0 then. Most operators are idle in a slice of one row; the interpreter tests their
words, and skips them without a call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from deltamark.dataflow.kernels.arrangements.arrangement import ArrangementBlock
from deltamark.dataflow.kernels.arrangements.consolidate import ConsolidateBlock
from deltamark.dataflow.kernels.arrangements.join import JoinBlock
from deltamark.dataflow.kernels.arrangements.merge import MergeBlock, MergedStream
from deltamark.dataflow.kernels.core.blocks import Block, Operator, SizedOperator
from deltamark.dataflow.kernels.expressions import FilterRangeBlock, FilterTrueBlock
from deltamark.dataflow.kernels.groups.aggregate import AggregateBlock
from deltamark.dataflow.kernels.groups.grouped_rows import GroupedRowsBlock
from deltamark.dataflow.kernels.groups.threshold import ThresholdBlock
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.kernels.parallel.deal import DealBlock
from deltamark.dataflow.kernels.program import IDLE_WORDS, CollectBlock, LateBlock, RoomBlock

SIZED = (
    Opcode.TAKE, Opcode.ADD, Opcode.SUBTRACT, Opcode.MULTIPLY, Opcode.QUOTIENT, Opcode.EQUAL, Opcode.LESS, Opcode.AND,
    Opcode.OR, Opcode.SUBTRACT_FROM, Opcode.COALESCE, Opcode.LOOKUP, Opcode.MEMBER, Opcode.CHOOSE, Opcode.FILL,
    Opcode.SET_BIT, Opcode.PACK, Opcode.UNPACK, Opcode.INPUT_TEXTS, Opcode.NUMBERED_TEXTS, Opcode.NUMBER_TEXTS,
    Opcode.MATCH, Opcode.PRECEDES, Opcode.SUBSTRING, Opcode.PREFIX, Opcode.HASHES, Opcode.BUCKET,
)  # fmt: skip
"""The operators that do nothing if their input has no rows."""

FIELDS: Mapping[int, tuple[type[Operator], tuple[str, ...]]] = {
    **dict.fromkeys(SIZED, (SizedOperator, ("size",))),
    Opcode.FILTER_RANGE: (FilterRangeBlock, ("size", "out_size")),
    Opcode.FILTER_TRUE: (FilterTrueBlock, ("size", "out_size")),
    Opcode.DEAL: (DealBlock, ("size", "out_size")),
    Opcode.INSERT: (ArrangementBlock, ("size",)),
    Opcode.AGGREGATE: (AggregateBlock, ("size", "touched_count", "out_size")),
    Opcode.THRESHOLD: (ThresholdBlock, ("size", "touched_count", "out_size")),
    Opcode.CONSOLIDATE: (ConsolidateBlock, ("size", "held", "out_size")),
    Opcode.COLLECT: (CollectBlock, ("size",)),
    Opcode.NEEDS_REHASH: (RoomBlock, ("coming",)),
}
"""The fields that are 0 while an operator is idle, for operators that need no other block."""


def idle_words(op: int) -> tuple[int, ...]:
    """Return the addresses of words that are all 0 while an operator is idle; none if it must run in every slice."""
    code = Operator(op).opcode
    if code in FIELDS:
        kind, names = FIELDS[code]
        return _words(kind(op), *names)
    return OTHERS[code](op) if code in OTHERS else ()


def _settle(op: int) -> tuple[int, ...]:
    return _words(ArrangementBlock(LateBlock(op).block), "size", "negative_rows", "unpaid")


def _join(op: int) -> tuple[int, ...]:
    sides = JoinBlock(op).left, JoinBlock(op).right
    return (*(_words(each.rows, "size")[0] for each in sides), *_words(JoinBlock(op), "size"))


def _merge(op: int) -> tuple[int, ...]:
    merge = MergeBlock(op)
    if merge.streams >= IDLE_WORDS:
        return ()
    sizes = (_words(MergedStream(merge.inputs[at]), "size")[0] for at in range(merge.streams))
    return (*sizes, *_words(merge, "out_size"))


def _groups(op: int) -> tuple[int, ...]:
    groups = GroupedRowsBlock(op)
    limits = _words(groups.limits, "size") if groups.limits.address else ()
    return (*_words(groups.rows, "size"), *limits, *_words(groups, "touched_count", "out_size"))


OTHERS: Mapping[int, Callable[[int], tuple[int, ...]]] = {
    Opcode.SETTLE: _settle, Opcode.JOIN: _join, Opcode.MERGE: _merge, Opcode.UPDATE_GROUPS: _groups,
}  # fmt: skip


IdleTable: TypeAlias = Callable[[Sequence[int], int], list[int]]
"""Returns the words of an `IdleBlock` for each operator, given the address of a word that is never 0."""


def idle_table(ops: Sequence[int], never: int) -> list[int]:
    """Return an `IdleBlock` for each operator. Consecutive operators with the same words are skipped together."""
    entries, skipped, after = list[list[int]](), 0, None
    for op in reversed(ops):
        words = idle_words(op) or (never,)
        skipped, after = skipped + 1 if words == after else 1, words
        entries.append([*words, *words[:1] * (IDLE_WORDS - len(words)), skipped])
    return [word for entry in reversed(entries) for word in entry]


def never_idle(ops: Sequence[int], never: int) -> list[int]:
    """Return the table with which no operator is skipped."""
    return [*[never] * IDLE_WORDS, 1] * len(ops)


def _words(block: Block, *names: str) -> tuple[int, ...]:
    """Return the address of the word of each field: of the cell that the field refers to, or of the field itself."""
    kind = type(block)
    return tuple(
        getattr(block.as_words, name) if kind.fields[name].through_cell else block.address + kind.fields[name].offset
        for name in names
    )
