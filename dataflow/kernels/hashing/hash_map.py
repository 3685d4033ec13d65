"""The map of keys to ids, which every keyed operator uses. Ids are small and dense, and state is arrays over them.

direct   the id is `key - low`: for keys of a range that is small enough for an array
hashed   open addressing with linear probing at a load of at most 1/2, entries (key, id + 1); a removed key leaves no
         tombstone, because the entries behind it move up, and its id is used again

Loops over direct keys subtract `low` themselves and call `find` or `add` only if the map is hashed.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import NONE, Array, Block
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import heed_signals_at
from deltamark.dataflow.kernels.hashing.mixing import GOLDEN


class KeyMap(Block):
    """A map of the keys from `low` to `high`."""

    hashed: int
    low: int
    high: int
    mask: int = 0
    """The number of entries, less one."""
    table: Array = NONE
    used: int = 0
    next_id: int = 0
    """The first id that was never given."""
    interned: Array = NONE
    """The next id of the interner, if it is an interner that gives the ids of a direct map."""
    free: Array = NONE
    """A stack of the `freed` ids, which are given again."""
    freed: int = 0
    keys: Array = NONE
    """The key of each id."""


@inline
def _home(key: int, mask: int) -> int:
    """Mix a key, but keep runs of 8 neighbouring keys in one cache line."""
    mixed = (key >> 3) * GOLDEN
    return (((mixed ^ (mixed >> 32)) << 3) | (key & 7)) & mask


@kernel
def find(keys: KeyMap, key: int) -> int:
    """Return the id of a key in a hashed map, -1 if it has none."""
    table, mask = keys.table, keys.mask
    slot = _home(key, mask)
    while True:
        found = table[2 * slot + 1]
        if found == 0 or table[2 * slot] == key:
            return found - 1
        slot = (slot + 1) & mask


@kernel
def add(keys: KeyMap, key: int) -> int:
    """Return the id of a key in a hashed map, which has room for a new one: see `needs_rehash`."""
    table, mask = keys.table, keys.mask
    slot = _home(key, mask)
    while True:
        found = table[2 * slot + 1]
        if found == 0:
            break
        if table[2 * slot] == key:
            return found - 1
        slot = (slot + 1) & mask
    if keys.freed > 0:
        keys.freed -= 1
        new = keys.free[keys.freed]
    else:
        new = keys.next_id
        keys.next_id = new + 1
    keys.used += 1
    table[2 * slot] = key
    table[2 * slot + 1] = new + 1
    keys.keys[new] = key
    return new


@inline
def id_of(keys: KeyMap, key: int) -> int:
    """Return the id of a key in either kind of map; in a hashed one -1 if the key has none."""
    return find(keys, key) if keys.hashed != 0 else key - keys.low


@inline
def id_for(keys: KeyMap, key: int) -> int:
    """Return the id of a key in either kind of map, giving it one if it has none."""
    return add(keys, key) if keys.hashed != 0 else key - keys.low


@kernel
def remove(keys: KeyMap, key: int) -> None:
    """Forget a key that has an id. A direct map has nothing to forget."""
    if keys.hashed == 0:
        return
    table, mask = keys.table, keys.mask
    slot = _home(key, mask)
    while table[2 * slot] != key or table[2 * slot + 1] == 0:
        slot = (slot + 1) & mask
    keys.free[keys.freed] = table[2 * slot + 1] - 1
    keys.freed += 1
    keys.used -= 1
    hole, slot = slot, (slot + 1) & mask
    while table[2 * slot + 1] != 0:
        home = _home(table[2 * slot], mask)
        if (slot - home) & mask >= (slot - hole) & mask:  # the hole lies between the entry and its home
            table[2 * hole] = table[2 * slot]
            table[2 * hole + 1] = table[2 * slot + 1]
            hole = slot
        slot = (slot + 1) & mask
    table[2 * hole + 1] = 0


@kernel
def id_limit(keys: KeyMap) -> int:
    """Return a number above all ids in use."""
    if keys.hashed != 0:
        return keys.next_id
    return keys.interned[0] if keys.interned.address != 0 else keys.high - keys.low + 1


@kernel
def key_of(keys: KeyMap, key_id: int) -> int:
    """Return the key of an id."""
    return keys.keys[key_id] if keys.hashed != 0 else key_id + keys.low


@kernel
def needs_rehash(keys: KeyMap, more: int) -> bool:
    """Return whether the table is too small for that many more keys."""
    return keys.hashed != 0 and 2 * (keys.used + more) > keys.mask + 1


@kernel
def rehash(keys: KeyMap, table: Array, mask: int) -> None:
    """Move all entries to an empty table of another size."""
    old = keys.table
    for at in range(keys.mask + 1):
        heed_signals_at(at)
        if old[2 * at + 1] != 0:
            slot = _home(old[2 * at], mask)
            while table[2 * slot + 1] != 0:
                slot = (slot + 1) & mask
            table[2 * slot] = old[2 * at]
            table[2 * slot + 1] = old[2 * at + 1]
    keys.table = table
    keys.mask = mask
