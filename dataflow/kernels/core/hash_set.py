"""Open tables of entries, 31 bits hash and 32 bits slot (0: none), probed one by one from where the hash says.

An entry that is taken out leaves no tombstone: those behind it that may move up do.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.memory import heed_signals_at, inline, kernel, load, store


@inline
def put(table: int, mask: int, entry: int) -> None:
    """Put an entry into a table, which has room."""
    place = (entry >> 32) & mask
    while load(table, place) != 0:
        place = (place + 1) & mask
    store(table, place, entry)


@kernel
def place_of(table: int, mask: int, hashed: int, slot: int) -> int:
    """Find the entry of a slot, which is there."""
    place = hashed & mask
    while load(table, place) & 0xFFFFFFFF != slot:
        place = (place + 1) & mask
    return place


@kernel
def take_out(table: int, mask: int, hashed: int, slot: int) -> None:
    """Take an entry out, and close the gap that it leaves."""
    hole = place_of(table, mask, hashed, slot)
    place = (hole + 1) & mask
    entry = load(table, place)
    while entry != 0:
        if (place - (entry >> 32)) & mask >= (place - hole) & mask:  # the hole lies on the way from its home
            store(table, hole, entry)
            hole = place
        place = (place + 1) & mask
        entry = load(table, place)
    store(table, hole, 0)


@kernel
def move(old: int, old_mask: int, table: int, mask: int) -> None:
    """Move all entries to an empty table of another size."""
    for at in range(old_mask + 1):
        heed_signals_at(at)
        entry = load(old, at)
        if entry != 0:
            put(table, mask, entry)
