"""The worklist of a loop: the keys to be evaluated in each iteration, and a heap of the iterations that have keys."""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array, Array32, Block
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel


class Worklist(Block):
    """A list of keys for each iteration."""

    lists: Array32
    """The first node of each iteration's list; nodes count from 1."""
    nodes: Array32
    """Pairs of a key id and the next node."""
    next_node: int = 1
    """The first node that was never used."""
    free: int = 0
    """The first free node; the free nodes form a list."""
    heap: Array
    """The iterations whose lists are not empty, the least one first."""
    heap_size: int = 0


@inline
def is_empty(worklist: Worklist) -> bool:
    """Return whether no iteration has keys."""
    return worklist.heap_size == 0


@inline
def first_iteration(worklist: Worklist) -> int:
    """Return the first iteration that has keys."""
    return worklist.heap[0]


@kernel
def schedule(worklist: Worklist, key_id: int, iteration: int) -> None:
    """Add a key to the list of an iteration."""
    nodes, lists, node = worklist.nodes, worklist.lists, worklist.free
    if node != 0:
        worklist.free = nodes[2 * node + 1]
    else:
        node = worklist.next_node
        worklist.next_node = node + 1
    following = lists[iteration]
    if following == 0:
        _push(worklist, iteration)
    nodes[2 * node] = key_id
    nodes[2 * node + 1] = following
    lists[iteration] = node


@kernel
def take(worklist: Worklist, limit: int, keys: Array) -> int:
    """Move keys, at most `limit`, from the list of the first iteration to an array; return their number."""
    lists, nodes, iteration, count = worklist.lists, worklist.nodes, first_iteration(worklist), 0
    node = lists[iteration]
    while node != 0 and count < limit:
        keys[count] = nodes[2 * node]
        count += 1
        following = nodes[2 * node + 1]
        nodes[2 * node + 1] = worklist.free
        worklist.free = node
        node = following
    lists[iteration] = node
    if node == 0:
        _pop(worklist)
    return count


@kernel
def _push(worklist: Worklist, iteration: int) -> None:
    heap, at = worklist.heap, worklist.heap_size
    worklist.heap_size = at + 1
    while at > 0 and heap[(at - 1) >> 1] > iteration:
        heap[at] = heap[(at - 1) >> 1]
        at = (at - 1) >> 1
    heap[at] = iteration


@kernel
def _pop(worklist: Worklist) -> None:
    """Remove the first iteration."""
    heap, size, at = worklist.heap, worklist.heap_size - 1, 0
    worklist.heap_size = size
    last = heap[size]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= last:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = last
