"""Arrangements whose updates are kept in a log rather than settled: taking the last of them out, and putting them back.

In between, those before them can be settled as if they were a slice's: see kernels.arrangements.arrangement.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.arrangements import arrangement
from deltamark.dataflow.kernels.core.hash_map import HASHED, LOW, add, find
from deltamark.dataflow.kernels.core.memory import kernel, load, load32, store32


@kernel
def unlink(block: int, first: int) -> None:
    """Take the updates from a number on out of their lists, where each is the newest of its key by then."""
    mark, lists, keys = load(block, arrangement.MARK), load(block, arrangement.LISTS), load(block, arrangement.KEYS)
    for at in range(load(block, arrangement.FIRST) - 1, first - 1, -1):
        key = load(load(block, arrangement.LOG_KEY), at)
        key_id = find(keys, key) if load(keys, HASHED) != 0 else key - load(keys, LOW)
        store32(lists, 2 * key_id, load32(load(block, arrangement.NEXT), mark + at))


@kernel
def link(block: int) -> None:
    """Put all updates of the log into the lists of their keys."""
    mark, lists, keys = load(block, arrangement.MARK), load(block, arrangement.LISTS), load(block, arrangement.KEYS)
    for at in range(load(block, arrangement.FIRST)):
        key = load(load(block, arrangement.LOG_KEY), at)
        key_id = add(keys, key) if load(keys, HASHED) != 0 else key - load(keys, LOW)
        store32(load(block, arrangement.NEXT), mark + at, load32(lists, 2 * key_id))
        store32(lists, 2 * key_id, mark + at + 1)
