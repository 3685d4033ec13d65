"""Growth: larger tables for operators that have stopped because a table is too small.

A kernel that needs a larger table stops before it changes anything. The entries are then moved to a larger table, and
the kernel starts again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from deltamark.dataflow.kernels.arrangements.consolidate import ConsolidateBlock
from deltamark.dataflow.kernels.core.blocks import Array, Block, Operator
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS, Memory
from deltamark.dataflow.kernels.groups import grouped_rows
from deltamark.dataflow.kernels.groups.grouped_rows import GroupedRowsBlock
from deltamark.dataflow.kernels.hashing import hash_map, interner
from deltamark.dataflow.kernels.hashing.hash_map import id_limit
from deltamark.dataflow.kernels.motifs.index import SettleIndexBlock
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.kernels.ordered import sorted_lists
from deltamark.dataflow.kernels.program import RoomBlock
from deltamark.dataflow.kernels.text import pool as text_pool


class HasMemory(Protocol):
    """The part of a program that growth needs."""

    @property
    def memory(self) -> Memory: ...

    def block(self, kind: type[Block], **fields: int) -> int: ...


def make_room(program: HasMemory, op: int) -> None:
    """Enlarge the table because of which an operator has stopped."""
    GROWERS[Opcode(Operator(op).opcode)](program, op)


def pack_index(program: HasMemory, op: int) -> None:
    """Move the lists of the index of a SETTLE_INDEX operator to new memory, without gaps between them."""
    index, memory = SettleIndexBlock(op).index, program.memory
    pool, weights = index.pool.address, index.weights.address
    new_pool, new_weights = memory.reserve(UNBOUNDED_WORDS), memory.reserve(2 * UNBOUNDED_WORDS)
    sorted_lists.pack(index, id_limit(index.keys), Array(new_pool), Array(new_weights))
    memory.replace(pool, new_pool)
    memory.replace(weights, new_weights)


def _grow_consolidate(program: HasMemory, op: int) -> None:
    block = ConsolidateBlock(op)
    slots = _doubled(block.mask + 1, block.held + block.size)

    def use(table: Array) -> None:  # the old table is empty
        block.table, block.mask = table, slots - 1

    _move(program, block.table, slots, use)


def _grow_keys(program: HasMemory, op: int) -> None:
    keys = RoomBlock(op).keys
    slots = 2 * _doubled(keys.mask + 1, keys.used + RoomBlock(op).coming)
    _move(program, keys.table, 2 * slots, lambda table: hash_map.rehash(keys, table, slots - 1))


def _grow_interner(program: HasMemory, op: int) -> None:
    ids = interner.InternBlock(op).interner
    slots = _doubled(ids.mask + 1, ids.used + interner.InternBlock(op).size)
    _move(program, ids.table, slots, lambda table: interner.rehash(ids, table, slots - 1))


def _grow_texts(program: HasMemory, op: int) -> None:
    pool = text_pool.NumberTextsBlock(op).pool
    slots = 2 * _doubled(pool.mask + 1, pool.used + text_pool.NumberTextsBlock(op).size)
    _move(program, pool.table, slots, lambda table: text_pool.rehash(pool, table, slots - 1))


def _grow_rows(program: HasMemory, op: int) -> None:
    block = GroupedRowsBlock(op)
    for rows in (block.rows, block.limits):
        if rows.address != 0 and grouped_rows.needs_rehash(rows):
            _grow_row_table(program, rows)


def _grow_row_table(program: HasMemory, rows: grouped_rows.RowTable) -> None:
    slots = 2 * _doubled(rows.mask + 1, rows.used + rows.size)
    _move(program, rows.table, slots, lambda table: grouped_rows.rehash(rows, table, slots - 1))


def _doubled(slots: int, entries: int) -> int:
    """Double a number of slots until entries fill at most half of them."""
    while slots < 2 * entries:
        slots *= 2
    return slots


def _move(program: HasMemory, old: Array, words: int, move: Callable[[Array], object]) -> None:
    """Replace a table by a larger one, to which its entries are moved."""
    address, new = old.address, program.memory.reserve(words)
    move(Array(new))
    program.memory.replace(address, new)


GROWERS: Mapping[Opcode, Callable[[HasMemory, int], None]] = {
    Opcode.NEEDS_REHASH: _grow_keys,
    Opcode.INTERN: _grow_interner,
    Opcode.NUMBER_TEXTS: _grow_texts,
    Opcode.UPDATE_GROUPS: _grow_rows,
    Opcode.CONSOLIDATE: _grow_consolidate,
    Opcode.SETTLE_INDEX: pack_index,
}
