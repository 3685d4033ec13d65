"""Finding an arrangement's rows by value, once some key has so many that walking its lists takes long.

From then on all settled rows are in a table, by a hash of their key and stored columns, and know who precedes them in
their list, so that a row is found and taken out at once whatever the order in which rows leave. All of them are in the
list NEW then; OLD stays empty.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.hash_set import move, put, take_out
from deltamark.dataflow.kernels.core.memory import inline, kernel, load, load32, store, store32

TABLE, MASK, USED, LINKS = range(4)
WORDS = 4
"""TABLE: MASK + 1 words, 31 bits hash, 32 bits 1 + slot. LINKS: int32 pairs a slot: the row before it in its list
(1 + slot, 0: it is the first) and the id of its key."""


@kernel
def hash_of(key_id: int, slot: int, columns: int, stored: int) -> int:
    """Hash a row to 31 bits."""
    mixed = key_id * -7046029254386353131
    for column in range(columns):
        mixed = (mixed ^ (mixed >> 29) ^ load(load(stored, column), slot)) * -7046029254386353131
    return (mixed ^ (mixed >> 32)) & 0x7FFFFFFF


@kernel
def enter(found: int, slot: int, hashed: int) -> None:
    """Put a row into the table, which has room."""
    put(load(found, TABLE), load(found, MASK), hashed << 32 | (slot + 1))
    store(found, USED, load(found, USED) + 1)


@kernel
def leave(found: int, slot: int, hashed: int) -> None:
    """Take a row out of the table."""
    take_out(load(found, TABLE), load(found, MASK), hashed, slot + 1)
    store(found, USED, load(found, USED) - 1)


@inline
def before(found: int, slot: int) -> int:
    return load32(load(found, LINKS), 2 * slot)


@inline
def follow(found: int, slot: int, link: int) -> None:
    """Say who precedes a row."""
    store32(load(found, LINKS), 2 * slot, link)


@inline
def key_of(found: int, slot: int) -> int:
    return load32(load(found, LINKS), 2 * slot + 1)


@kernel
def first(found: int, slot: int, key_id: int, following: int) -> None:
    """Let a row be the first of its list."""
    store32(load(found, LINKS), 2 * slot, 0)
    store32(load(found, LINKS), 2 * slot + 1, key_id)
    link = load32(following, slot)
    if link != 0:
        follow(found, link - 1, slot + 1)


@kernel
def unlink(found: int, slot: int, lists: int, following: int) -> None:
    """Take a row out of its list."""
    previous, link = before(found, slot), load32(following, slot)
    if previous == 0:
        store32(lists, 2 * key_of(found, slot), link)
    else:
        store32(following, previous - 1, link)
    if link != 0:
        follow(found, link - 1, previous)


@kernel
def rehash(found: int, table: int, mask: int) -> None:
    """Move to an empty table of another size."""
    move(load(found, TABLE), load(found, MASK), table, mask)
    store(found, TABLE, table)
    store(found, MASK, mask)
