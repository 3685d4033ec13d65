"""An order of rows: a B+-tree of slots, by some words of their records, and by slot where those are equal.

An entry is the first of the words and the slot, so most comparisons need no record. The entries of a node that has
children name the first row below each child. A node that is nearly empty is merged with a neighbour, and an empty one
is freed; leaves are linked both ways.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.memory import inline, kernel, load, store
from deltamark.dataflow.kernels.text.pool import TextPool
from deltamark.dataflow.kernels.text.pool import precedes as text_precedes
from deltamark.dataflow.types import NULL

RECORDS, WORDS, FIELD, FIELDS, NODES, ROOT, DEPTH, NEXT, FREE, PATH, TEXTS, POOL = range(12)
BLOCK = 12
"""Rows compare by FIELDS words from FIELD on; those whose bit of TEXTS is set are numbers of texts in POOL, and come
after the first bytes of the same text. DEPTH: levels above the leaves. NEXT, FREE: nodes never used, free again
(nodes count from 1). PATH: scratch, the place in each node on the way down and the node, two words a level."""

FANOUT = 32
COUNT, LEFT, RIGHT, FIRSTS, SLOTS, CHILDREN = 0, 1, 2, 3, 3 + FANOUT, 3 + 2 * FANOUT
NODE_WORDS = 3 + 3 * FANOUT


@inline
def _node(order: int, number: int) -> int:
    return load(order, NODES) + 8 * NODE_WORDS * number


@inline
def _record(order: int, slot: int) -> int:
    return load(order, RECORDS) + 8 * load(order, WORDS) * slot


@kernel
def precedes(order: int, a: int, b: int) -> bool:
    """Does the row of slot a come before that of slot b?"""
    mine, theirs, field = _record(order, a), _record(order, b), load(order, FIELD)
    for index in range(field, field + load(order, FIELDS)):
        left, right = load(mine, index), load(theirs, index)
        if left != right:
            if load(order, TEXTS) >> (index - field) & 1 and not (_missing(left) or _missing(right)):
                return text_precedes(TextPool(load(order, POOL)), left, right)
            return left < right
    return a < b


@inline
def _missing(value: int) -> bool:
    return value == NULL or value == -1 - NULL


@kernel
def _place(order: int, node: int, slot: int) -> int:
    """Return how many entries of a node precede a row."""
    first, count, low = load(_record(order, slot), load(order, FIELD)), load(node, COUNT), 0
    firsts = node + 8 * FIRSTS
    for at in range(count):
        low += load(firsts, at) < first
    high = low
    while high < count and load(firsts, high) == first:
        high += 1
    while low < high:
        middle = (low + high) >> 1
        if precedes(order, load(node, SLOTS + middle), slot):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def insert(order: int, slot: int) -> None:
    """Enter a row. Full nodes on the way are split, so that there is always room above."""
    if load(_node(order, load(order, ROOT)), COUNT) == FANOUT:
        _grow(order)
    number, level = load(order, ROOT), load(order, DEPTH)
    while level > 0:
        node = _node(order, number)
        at = max(_place(order, node, slot) - 1, 0)
        child = _node(order, load(node, CHILDREN + at))
        if load(child, COUNT) == FANOUT:
            _split(order, node, at, level - 1)
            at += not precedes(order, slot, load(node, SLOTS + at + 1))
        if at == 0 and precedes(order, slot, load(node, SLOTS)):
            store(node, FIRSTS, load(_record(order, slot), load(order, FIELD)))
            store(node, SLOTS, slot)
        number = load(node, CHILDREN + at)
        level -= 1
    node = _node(order, number)
    at = _place(order, node, slot)
    _open(node, at, CHILDREN)
    store(node, FIRSTS + at, load(_record(order, slot), load(order, FIELD)))
    store(node, SLOTS + at, slot)


@kernel
def _new(order: int) -> int:
    number = load(order, FREE)
    if number != 0:
        store(order, FREE, load(_node(order, number), LEFT))
    else:
        number = load(order, NEXT)
        store(order, NEXT, number + 1)
    node = _node(order, number)
    store(node, COUNT, 0)
    store(node, LEFT, 0)
    store(node, RIGHT, 0)
    return number


@kernel
def _drop(order: int, number: int) -> None:
    store(_node(order, number), LEFT, load(order, FREE))
    store(order, FREE, number)


@kernel
def _open(node: int, at: int, words: int) -> None:
    """Make room for an entry, in the first `words` of a node."""
    count = load(node, COUNT)
    for column in range(FIRSTS, words, FANOUT):
        for index in range(column + count - 1, column + at - 1, -1):
            store(node, index + 1, load(node, index))
    store(node, COUNT, count + 1)


@kernel
def _close(node: int, at: int, words: int) -> None:
    """Take an entry out."""
    count = load(node, COUNT) - 1
    for column in range(FIRSTS, words, FANOUT):
        for index in range(column + at, column + count):
            store(node, index, load(node, index + 1))
    store(node, COUNT, count)


@kernel
def _move(source: int, start: int, target: int) -> None:
    """Append the entries of a node from `start` on to another."""
    to = load(target, COUNT)
    for index in range(start, load(source, COUNT)):
        store(target, FIRSTS + to, load(source, FIRSTS + index))
        store(target, SLOTS + to, load(source, SLOTS + index))
        store(target, CHILDREN + to, load(source, CHILDREN + index))
        to += 1
    store(target, COUNT, to)
    store(source, COUNT, start)


@kernel
def _name(parent: int, at: int, child: int) -> None:
    """Let a parent's entry name the first row below its child."""
    store(parent, FIRSTS + at, load(child, FIRSTS))
    store(parent, SLOTS + at, load(child, SLOTS))


@kernel
def _split(order: int, parent: int, at: int, level: int) -> None:
    """Move half of a child to a new neighbour on its right."""
    number, new = load(parent, CHILDREN + at), _new(order)
    child, neighbour = _node(order, number), _node(order, new)
    _move(child, FANOUT // 2, neighbour)
    if level == 0:
        right = load(child, RIGHT)
        store(neighbour, LEFT, number)
        store(neighbour, RIGHT, right)
        store(child, RIGHT, new)
        if right != 0:
            store(_node(order, right), LEFT, new)
    _open(parent, at + 1, NODE_WORDS)
    _name(parent, at + 1, neighbour)
    store(parent, CHILDREN + at + 1, new)


@kernel
def _grow(order: int) -> None:
    """Put a node above the root, which is full, and split it."""
    old, new = load(order, ROOT), _new(order)
    node = _node(order, new)
    store(node, COUNT, 1)
    store(node, CHILDREN, old)
    _name(node, 0, _node(order, old))
    _split(order, node, 0, load(order, DEPTH))
    store(order, ROOT, new)
    store(order, DEPTH, load(order, DEPTH) + 1)


@kernel
def _descend(order: int, slot: int) -> int:
    """Write down the way to the leaf where a row is or would be; return its place there."""
    number, level, path = load(order, ROOT), load(order, DEPTH), load(order, PATH)
    while level > 0:
        node = _node(order, number)
        at = _place(order, node, slot)
        at -= at == load(node, COUNT) or load(node, SLOTS + at) != slot
        at = max(at, 0)
        store(path, 2 * level, at)
        store(path, 2 * level + 1, number)
        number = load(node, CHILDREN + at)
        level -= 1
    store(path, 1, number)
    return _place(order, _node(order, number), slot)


@kernel
def delete(order: int, slot: int) -> None:
    """Take a row out that is there; its record must still be what it was."""
    at, path = _descend(order, slot), load(order, PATH)
    _close(_node(order, load(path, 1)), at, CHILDREN)
    for level in range(load(order, DEPTH)):
        number, at = load(path, 2 * level + 1), load(path, 2 * level + 2)
        node, parent = _node(order, number), _node(order, load(path, 2 * level + 3))
        count = load(node, COUNT)
        if count > 0:
            _name(parent, at, node)
            if count < FANOUT // 4:
                _merge(order, parent, at, level)
        else:
            if level == 0:
                _unlink(order, node)
            _drop(order, number)
            _close(parent, at, NODE_WORDS)
    while load(order, DEPTH) > 0 and load(_node(order, load(order, ROOT)), COUNT) == 1:
        old = load(order, ROOT)
        store(order, ROOT, load(_node(order, old), CHILDREN))
        store(order, DEPTH, load(order, DEPTH) - 1)
        _drop(order, old)


@kernel
def _merge(order: int, parent: int, at: int, level: int) -> None:
    """Merge a child with its neighbour on the right, or else on the left, where both fit well into one node."""
    left = at if at + 1 < load(parent, COUNT) else at - 1
    if left < 0:
        return
    number = load(parent, CHILDREN + left + 1)
    target, source = _node(order, load(parent, CHILDREN + left)), _node(order, number)
    if load(target, COUNT) + load(source, COUNT) > FANOUT * 3 // 4:
        return
    _move(source, 0, target)
    if level == 0:
        _unlink(order, source)
    _drop(order, number)
    _close(parent, left + 1, NODE_WORDS)


@kernel
def _unlink(order: int, leaf: int) -> None:
    left, right = load(leaf, LEFT), load(leaf, RIGHT)
    if left != 0:
        store(_node(order, left), RIGHT, right)
    if right != 0:
        store(_node(order, right), LEFT, left)


# walking: a position is node * FANOUT + place; 0 is the end


@kernel
def seek(order: int, slot: int) -> int:
    """Return the position of the first row that does not precede that of a slot."""
    at = _descend(order, slot)
    return _position(order, load(load(order, PATH), 1), at)


@kernel
def start(order: int) -> int:
    """Return the position of the first row."""
    number = load(order, ROOT)
    for _ in range(load(order, DEPTH)):
        number = load(_node(order, number), CHILDREN)
    return _position(order, number, 0)


@kernel
def _position(order: int, number: int, at: int) -> int:
    node = _node(order, number)
    if at < load(node, COUNT):
        return number * FANOUT + at
    return load(node, RIGHT) * FANOUT


@inline
def following(order: int, position: int) -> int:
    """Return the position after this one."""
    return _position(order, position // FANOUT, position % FANOUT + 1)


@inline
def slot_at(order: int, position: int) -> int:
    return load(_node(order, position // FANOUT), SLOTS + position % FANOUT)


@inline
def first_at(order: int, position: int) -> int:
    return load(_node(order, position // FANOUT), FIRSTS + position % FANOUT)
