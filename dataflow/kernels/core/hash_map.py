"""Keys -> ids: the one index that every keyed operator has. Ids are small and dense; state is arrays over them.

direct   the id is key - LOW: for keys whose whole range is worth an array
hashed   open addressing with linear probing at load <= 1/2, records (key, id + 1); a removed key leaves no tombstone
         (those behind it move up), and its id is used again

Loops over direct keys do the subtraction themselves, and call `find` or `add` only where HASHED says so.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.memory import heed_signals_at, inline, kernel, load, store

HASHED, LOW, HIGH, MASK, TABLE, USED, NEXT, FREE, FREED, KEYS = range(10)
WORDS = 10
"""Of a map's block. NEXT: the next id; direct: the address of that word of the interner, if one gives the ids. TABLE: 2
words a slot. FREE: a stack of FREED ids. KEYS: the key of each id."""


@inline
def _slot(key: int, mask: int) -> int:
    """Mix, but keep runs of 8 neighbouring keys in one cache line."""
    mixed = (key >> 3) * -7046029254386353131
    return (((mixed ^ (mixed >> 32)) << 3) | (key & 7)) & mask


@kernel
def find(keys: int, key: int) -> int:
    """Return the id of a key that is hashed, -1 where it has none."""
    table, mask = load(keys, TABLE), load(keys, MASK)
    slot = _slot(key, mask)
    while True:
        found = load(table, 2 * slot + 1)
        if found == 0 or load(table, 2 * slot) == key:
            return found - 1
        slot = (slot + 1) & mask


@kernel
def add(keys: int, key: int) -> int:
    """Return the id of a key that is hashed, giving it one if need be. There must be room: see `crowded`."""
    table, mask = load(keys, TABLE), load(keys, MASK)
    slot = _slot(key, mask)
    while True:
        found = load(table, 2 * slot + 1)
        if found == 0:
            break
        if load(table, 2 * slot) == key:
            return found - 1
        slot = (slot + 1) & mask
    freed = load(keys, FREED)
    if freed > 0:
        store(keys, FREED, freed - 1)
        new = load(load(keys, FREE), freed - 1)
    else:
        new = load(keys, NEXT)
        store(keys, NEXT, new + 1)
    store(keys, USED, load(keys, USED) + 1)
    store(table, 2 * slot, key)
    store(table, 2 * slot + 1, new + 1)
    store(load(keys, KEYS), new, key)
    return new


@kernel
def remove(keys: int, key: int) -> None:
    """Forget a key that has an id. Direct: nothing to forget."""
    if load(keys, HASHED) == 0:
        return
    table, mask = load(keys, TABLE), load(keys, MASK)
    slot = _slot(key, mask)
    while load(table, 2 * slot) != key or load(table, 2 * slot + 1) == 0:
        slot = (slot + 1) & mask
    store(load(keys, FREE), load(keys, FREED), load(table, 2 * slot + 1) - 1)
    store(keys, FREED, load(keys, FREED) + 1)
    store(keys, USED, load(keys, USED) - 1)
    hole, slot = slot, (slot + 1) & mask
    while load(table, 2 * slot + 1) != 0:
        home = _slot(load(table, 2 * slot), mask)
        if (slot - home) & mask >= (slot - hole) & mask:  # the hole lies on the way from its home
            store(table, 2 * hole, load(table, 2 * slot))
            store(table, 2 * hole + 1, load(table, 2 * slot + 1))
            hole = slot
        slot = (slot + 1) & mask
    store(table, 2 * hole + 1, 0)


@kernel
def reach(keys: int) -> int:
    """Return how many ids there may be: of keys whose ids an interner gives, as many as it has given."""
    following = load(keys, NEXT)
    if load(keys, HASHED) != 0:
        return following
    return load(following, 0) if following != 0 else load(keys, HIGH) - load(keys, LOW) + 1


@kernel
def key_of(keys: int, key_id: int) -> int:
    return load(load(keys, KEYS), key_id) if load(keys, HASHED) != 0 else key_id + load(keys, LOW)


@kernel
def crowded(keys: int, more: int) -> bool:
    """Would so many more keys need a larger table?"""
    return load(keys, HASHED) != 0 and 2 * (load(keys, USED) + more) > load(keys, MASK) + 1


@kernel
def rehash(keys: int, table: int, mask: int) -> None:
    """Move to an empty table of another size."""
    old, slots = load(keys, TABLE), load(keys, MASK) + 1
    for at in range(slots):
        heed_signals_at(at)
        if load(old, 2 * at + 1) != 0:
            key = load(old, 2 * at)
            slot = _slot(key, mask)
            while load(table, 2 * slot + 1) != 0:
                slot = (slot + 1) & mask
            store(table, 2 * slot, key)
            store(table, 2 * slot + 1, load(old, 2 * at + 1))
    store(keys, TABLE, table)
    store(keys, MASK, mask)
