"""Which keys are to be looked at in which iteration: a list for each iteration, and a heap of those that have one."""

from __future__ import annotations

from deltamark.dataflow.kernels.core.memory import inline, kernel, load, load32, store, store32

LISTS, NODES, NEXT, FREE, HEAP, HEAPED = range(6)
"""LISTS: an int32 for each iteration, the first of its NODES (int32 pairs: key, next). NEXT: the first node that was
never used, FREE: the first that is free again (nodes count from 1). HEAP: HEAPED iterations, the least one first."""


@inline
def any_left(agenda: int) -> bool:
    return load(agenda, HEAPED) > 0


@inline
def first(agenda: int) -> int:
    return load(load(agenda, HEAP), 0)


@kernel
def add(agenda: int, key_id: int, iteration: int) -> None:
    """Have a key looked at in an iteration."""
    nodes, lists, node = load(agenda, NODES), load(agenda, LISTS), load(agenda, FREE)
    if node != 0:
        store(agenda, FREE, load32(nodes, 2 * node + 1))
    else:
        node = load(agenda, NEXT)
        store(agenda, NEXT, node + 1)
    following = load32(lists, iteration)
    if following == 0:
        _push(agenda, iteration)
    store32(nodes, 2 * node, key_id)
    store32(nodes, 2 * node + 1, following)
    store32(lists, iteration, node)


@kernel
def take(agenda: int, most: int, chosen: int) -> int:
    """Take keys off the list of the first iteration; return how many."""
    lists, nodes, iteration, count = load(agenda, LISTS), load(agenda, NODES), first(agenda), 0
    node = load32(lists, iteration)
    while node != 0 and count < most:
        store(chosen, count, load32(nodes, 2 * node))
        count += 1
        following = load32(nodes, 2 * node + 1)
        store32(nodes, 2 * node + 1, load(agenda, FREE))
        store(agenda, FREE, node)
        node = following
    store32(lists, iteration, node)
    if node == 0:
        _pop(agenda)
    return count


@kernel
def _push(agenda: int, iteration: int) -> None:
    heap, at = load(agenda, HEAP), load(agenda, HEAPED)
    store(agenda, HEAPED, at + 1)
    while at > 0 and load(heap, (at - 1) >> 1) > iteration:
        store(heap, at, load(heap, (at - 1) >> 1))
        at = (at - 1) >> 1
    store(heap, at, iteration)


@kernel
def _pop(agenda: int) -> None:
    """Take the first iteration away."""
    heap, size, at = load(agenda, HEAP), load(agenda, HEAPED) - 1, 0
    store(agenda, HEAPED, size)
    last = load(heap, size)
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and load(heap, child + 1) < load(heap, child):
            child += 1
        if load(heap, child) >= last:
            break
        store(heap, at, load(heap, child))
        at = child
    store(heap, at, last)
