"""The map of keys to ids, which every keyed operator uses. Ids are small and dense, and state is arrays over them.

direct   the id is `key - low`: for keys of a range that is small enough for an array
paged    the keys are divided into runs of 8; a run that has keys has a page of 8 ids, which are used again by another
         run once it has none: for keys of a large range that are near each other, as those of a window are
hashed   open addressing with linear probing at a load of at most 1/2, entries (key, id + 1); a removed key leaves no
         tombstone, because the entries behind it move up, and its id is used again

Loops over direct keys subtract `low` themselves and call `find` or `add` only if the map is not direct.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import NONE, Array, Array8, Array32, Block, Cell, Operator
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import heed_signals_at, prefetch
from deltamark.dataflow.kernels.core.memory import Memory
from deltamark.dataflow.kernels.core.steps import doubled, move_table, step
from deltamark.dataflow.kernels.hashing.mixing import GOLDEN
from deltamark.dataflow.kernels.status import DONE, NEEDS_ROOM

RUN_BITS = 3
RUN_KEYS = 1 << RUN_BITS
"""The keys of a run: TPC-H uses 8 of 32 neighbouring order keys."""


class KeyMap(Block):
    """A map of the keys from `low` to `high`."""

    hashed: int
    """Whether the map is not direct."""
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
    """The key of each id in a hashed map."""
    pages: Array32 = NONE
    """The page of each run, plus 1; none unless the map is paged."""
    runs: Array32 = NONE
    """The run of each page."""
    members: Array8 = NONE
    """For each page a bit for each key."""


@inline
def _home(key: int, mask: int) -> int:
    """Return the slot at which the search for a key begins: neighbours for the keys of a run of 8.

    The upper bits of a multiple of the golden ratio spread runs at equal distances evenly over the table.
    """
    run = key >> 3
    upper = ((run ^ (run >> 32)) * GOLDEN >> 32) & 0xFFFFFFFF
    return (upper * ((mask + 1) >> 3) >> 32 << 3 | (key & 7)) & mask


@kernel
def find(keys: KeyMap, key: int) -> int:
    """Return the id of a key in a map that is not direct, -1 if it has none."""
    if keys.pages.address != 0:
        return _find_in_page(keys, key)
    table, mask = keys.table, keys.mask
    slot = _home(key, mask)
    while True:
        found = table[2 * slot + 1]
        if found == 0 or table[2 * slot] == key:
            return found - 1
        slot = (slot + 1) & mask


@inline
def _find_in_page(keys: KeyMap, key: int) -> int:
    if not keys.low <= key <= keys.high:
        return -1
    place = key - keys.low
    page = keys.pages[place >> RUN_BITS] - 1
    if page < 0 or keys.members[page] >> (place & (RUN_KEYS - 1)) & 1 == 0:
        return -1
    return page << RUN_BITS | (place & (RUN_KEYS - 1))


@kernel
def add(keys: KeyMap, key: int) -> int:
    """Return the id of a key in a map that is not direct, and has room for a new one: see `needs_rehash`."""
    if keys.pages.address != 0:
        return _add_to_page(keys, key - keys.low)
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
def _add_to_page(keys: KeyMap, place: int) -> int:
    page = keys.pages[place >> RUN_BITS] - 1
    if page < 0:
        page = _new_page(keys, place >> RUN_BITS)
    bit = 1 << (place & (RUN_KEYS - 1))
    members = keys.members[page]
    keys.used += members & bit == 0
    keys.members[page] = members | bit
    return page << RUN_BITS | (place & (RUN_KEYS - 1))


@kernel
def _new_page(keys: KeyMap, run: int) -> int:
    """Give a page to a run of keys; return it."""
    if keys.freed > 0:
        keys.freed -= 1
        page = keys.free[keys.freed]
    else:
        page = keys.next_id >> RUN_BITS
        keys.next_id += RUN_KEYS
    keys.pages[run] = page + 1
    keys.runs[page] = run
    return page


@kernel
def _remove_from_page(keys: KeyMap, place: int) -> None:
    page = keys.pages[place >> RUN_BITS] - 1
    keys.used -= 1
    keys.members[page] &= ~(1 << (place & (RUN_KEYS - 1)))
    if keys.members[page] == 0:
        keys.pages[place >> RUN_BITS] = 0
        keys.free[keys.freed] = page
        keys.freed += 1


@inline
def prefetch_entry(keys: KeyMap, key: int) -> None:
    """Prefetch the entry of a key in a map that is not direct."""
    if keys.pages.address == 0:
        prefetch(keys.table[2 * _home(key, keys.mask) :].address)


@inline
def id_of(keys: KeyMap, key: int) -> int:
    """Return the id of a key in any kind of map; -1 if the map is not direct and the key has none."""
    return find(keys, key) if keys.hashed != 0 else key - keys.low


@inline
def id_for(keys: KeyMap, key: int) -> int:
    """Return the id of a key in any kind of map, giving it one if it has none."""
    return add(keys, key) if keys.hashed != 0 else key - keys.low


@kernel
def remove(keys: KeyMap, key: int) -> None:
    """Forget a key that has an id. A direct map has nothing to forget."""
    if keys.hashed == 0:
        return
    if keys.pages.address != 0:
        _remove_from_page(keys, key - keys.low)
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
    if keys.pages.address != 0:
        return keys.low + (keys.runs[key_id >> RUN_BITS] << RUN_BITS | (key_id & (RUN_KEYS - 1)))
    return keys.keys[key_id] if keys.hashed != 0 else key_id + keys.low


@kernel
def needs_rehash(keys: KeyMap, more: int) -> bool:
    """Return whether the table of a hashed map is too small for that many more keys."""
    return keys.table.address != 0 and 2 * (keys.used + more) > keys.mask + 1


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


class RoomBlock(Operator):
    """Makes room in a map for as many keys as `coming`."""

    keys: KeyMap
    coming: Cell


@inline
def check_room(op: RoomBlock) -> int:
    """Return NEEDS_ROOM if the table of a map has no room for the coming keys."""
    return NEEDS_ROOM if needs_rehash(op.keys, op.coming) else DONE


def _grow(memory: Memory, op: RoomBlock) -> None:
    keys = op.keys
    slots = 2 * doubled(keys.mask + 1, keys.used + op.coming)
    move_table(memory, keys.table, 2 * slots, lambda table: rehash(keys, table, slots - 1))


CHECK_ROOM = step(check_room, idle=("coming",), grow=_grow)
