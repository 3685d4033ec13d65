"""Lookup of an arrangement's rows by value, used once a key has so many rows that walking its lists takes long.

From then on all settled rows are in a table, by a hash of their key and stored columns, and each row knows its
predecessor in its list. So a row is found and removed in constant time, in whatever order rows leave.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array, Array32, Block
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.hashing.hash_set import insert, move_entries, remove


class RowLookup(Block):
    """The table of an arrangement's rows."""

    table: Array
    """Entries of a 31-bit hash and, in the low 32 bits, slot + 1."""
    mask: int
    """The number of entries, less one."""
    used: int
    links: Array32
    """A pair for each slot: the preceding row of its list (slot + 1, 0 for the first), and the id of its key."""


@kernel
def add_row(lookup: RowLookup, slot: int, row_hash: int) -> None:
    """Add a row to the table, which has room."""
    insert(lookup.table, lookup.mask, row_hash << 32 | (slot + 1))
    lookup.used += 1


@kernel
def remove_row(lookup: RowLookup, slot: int, row_hash: int) -> None:
    """Remove a row from the table."""
    remove(lookup.table, lookup.mask, row_hash, slot + 1)
    lookup.used -= 1


@inline
def set_predecessor(lookup: RowLookup, slot: int, link: int) -> None:
    """Record the row that precedes a row in its list."""
    lookup.links[2 * slot] = link


@inline
def key_id_of(lookup: RowLookup, slot: int) -> int:
    """Return the id of a row's key."""
    return lookup.links[2 * slot + 1]


@inline
def predecessor_of(lookup: RowLookup, slot: int) -> int:
    """Return the link of the row that precedes a row in its list, 0 for the first."""
    return lookup.links[2 * slot]


@inline
def follow(lookup: RowLookup, slot: int, key_id: int, previous: int) -> None:
    """Record the key of a row, and the link of the row that precedes it in its list, 0 for the first."""
    lookup.links[2 * slot] = previous
    lookup.links[2 * slot + 1] = key_id


@kernel
def renumber(lookup: RowLookup, links: Array, slots: int) -> None:
    """Follow rows to other slots, none of which is higher.

    links: the new link for each old one, 0 if the slot is dead.
    """
    for slot in range(slots):
        link = links[slot + 1]
        if link != 0:
            lookup.links[2 * link - 2] = links[lookup.links[2 * slot]]
            lookup.links[2 * link - 1] = lookup.links[2 * slot + 1]
    for place in range(lookup.mask + 1):
        entry = lookup.table[place]
        if entry != 0:
            lookup.table[place] = entry & ~0xFFFFFFFF | links[entry & 0xFFFFFFFF]


@kernel
def rehash(lookup: RowLookup, table: Array, mask: int) -> None:
    """Move all entries to an empty table of another size."""
    move_entries(lookup.table, lookup.mask, table, mask)
    lookup.table = table
    lookup.mask = mask
