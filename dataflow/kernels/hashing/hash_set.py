"""Hash sets of slots: open addressing with linear probing over entries of a 31-bit hash and a 32-bit slot; 0 is empty.

An entry is compared by its hash before the rows of two slots are. A removed entry leaves no tombstone, because the
entries behind it move up.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import heed_signals_at

MAX_HASH = 0x7FFFFFFF
"""The largest hash; also the mask that makes a hash of 64 bits one of 31."""


@inline
def insert(table: Array, mask: int, entry: int) -> None:
    """Add an entry to a table, which has room."""
    place = (entry >> 32) & mask
    while table[place] != 0:
        place = (place + 1) & mask
    table[place] = entry


@kernel
def find_slot(table: Array, mask: int, row_hash: int, slot: int) -> int:
    """Return the place of a slot's entry, which must exist."""
    place = row_hash & mask
    while table[place] & 0xFFFFFFFF != slot:
        place = (place + 1) & mask
    return place


@kernel
def remove(table: Array, mask: int, row_hash: int, slot: int) -> None:
    """Remove the entry of a slot, and close the gap."""
    hole = find_slot(table, mask, row_hash, slot)
    place = (hole + 1) & mask
    entry = table[place]
    while entry != 0:
        if (place - (entry >> 32)) & mask >= (place - hole) & mask:  # the hole lies between the entry and its home
            table[hole] = entry
            hole = place
        place = (place + 1) & mask
        entry = table[place]
    table[hole] = 0


@kernel
def move_entries(old: Array, old_mask: int, table: Array, mask: int) -> None:
    """Move all entries to an empty table of another size."""
    for at in range(old_mask + 1):
        heed_signals_at(at)
        entry = old[at]
        if entry != 0:
            insert(table, mask, entry)
