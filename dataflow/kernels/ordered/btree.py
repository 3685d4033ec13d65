"""B+-trees of records: slots in order of some words of their records, and by slot if those are equal.

An entry of a node consists of the first of these words and the slot, so most comparisons load no record. The entries of
an inner node name the first record below each child. A node that is nearly empty is merged with a neighbour, and an
empty one is freed. Leaves are linked in both directions.

A position is `node * FANOUT + index`; 0 is the end.

Nodes of B+-trees: entries in columns, which are inserted, removed and moved to another node.

A tree may have sums: of the records below each node it keeps the number of rows, and the sums, counts and extremes of
some values. So the rows between two places of the order are summed up, and the row at a place is found, in one descent.
Each record has two weights, and each node its sums in both versions of the rows: before a time, and after it. A record
is inserted and deleted without weight, which `set_copies` changes.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import NONE, Array, Block, Inline
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.groups.double_sums import COUNTED_WORDS, SUM_WORDS, add_counted, add_double
from deltamark.dataflow.kernels.text.pool import TextPool
from deltamark.dataflow.kernels.text.pool import precedes as text_precedes
from deltamark.dataflow.types import NULL

FANOUT = 32
"""Entries of a node. Not measured."""

ROWS, COUNT, SUM, SUM_OF_DOUBLES, SMALLEST, LARGEST = range(6)
"""The kinds of sums: of the weights of all records, of those whose value is not NULL, and of the values themselves.

A sum has one word, and an exact sum of doubles COUNTED_WORDS."""

VERSIONS = 2
"""The versions of the rows that a tree with sums has: 0 is before a time, 1 after it."""

LAST_SLOT = 2**62
"""A number larger than every slot."""

LEAF_COLUMNS, INNER_COLUMNS = 2, 3
"""Columns of the entries of a node: first words, slots and, above the leaves, the numbers of the children."""


class TreeNode(Block):
    """A node; `entries` holds one column of FANOUT words after the other."""

    count: int
    left: int
    right: int
    entries: Inline


NODE_WORDS = TreeNode.size_in_words + INNER_COLUMNS * FANOUT


@inline
def slots_of(node: TreeNode) -> Array:
    return node.entries[FANOUT:]


@inline
def children_of(node: TreeNode) -> Array:
    return node.entries[2 * FANOUT :]


@kernel
def open_gap(node: TreeNode, at: int, columns: int) -> None:
    """Make room for an entry in the first columns of a node."""
    count = node.count
    for column in range(columns):
        entries = node.entries[FANOUT * column :]
        for index in range(count - 1, at - 1, -1):
            entries[index + 1] = entries[index]
    node.count = count + 1


@kernel
def remove_entry(node: TreeNode, at: int, columns: int) -> None:
    """Remove an entry from the first columns of a node."""
    count = node.count - 1
    for column in range(columns):
        entries = node.entries[FANOUT * column :]
        for index in range(at, count):
            entries[index] = entries[index + 1]
    node.count = count


@kernel
def append_from(target: TreeNode, source: TreeNode, start: int) -> None:
    """Move the entries of a node from `start` on to the end of another."""
    end, count = target.count, source.count
    for column in range(INNER_COLUMNS):
        entries, appended = source.entries[FANOUT * column :], target.entries[FANOUT * column + end :]
        for index in range(start, count):
            appended[index - start] = entries[index]
    target.count = end + count - start
    source.count = start


@kernel
def set_first(parent: TreeNode, at: int, child: TreeNode) -> None:
    """Let a parent's entry name the first record below its child."""
    parent.entries[at] = child.entries[0]
    slots_of(parent)[at] = slots_of(child)[0]


MAX_DEPTH = 32
"""Levels for which `path` has room."""


class BTree(Block):
    """The order of the records of a table; nodes are numbered from 1."""

    records: Array
    record_words: int
    first_word: int
    """The word of a record by which records are compared first."""
    compared_words: int
    """The number of words that are compared."""
    are_texts: Array
    """For each compared word whether it is the number of a text; the word before it holds the text's first bytes."""
    pool: TextPool = NONE
    """The pool of these texts."""
    nodes: Array
    root: int = 1
    depth: int = 0
    """The number of levels above the leaves."""
    next_node: int = 2
    """The first node that was never used."""
    free_node: int = 0
    """The first free node; `left` links it to the next one."""
    path: Array
    """Scratch, a pair for each level from the leaf up: an index in a node, and the number of this node."""
    items: int = 0
    """The words of the sums of a node, or 0 for a tree without sums; the first one is the number of rows."""
    kinds: Array = NONE
    """The kind of the sum that begins at each word; ROWS at the other words of a sum of doubles."""
    arguments: Array = NONE
    """For each sum, at its first word, the word of a record that it reads."""
    copies_word: int = 0
    """The word of a record with its weight in version 0; the next one has that in version 1."""
    sums: Array = NONE
    """For each node its sums in version 0, and then in version 1."""
    pending: Array = NONE
    """Scratch, three words for each node that is partly summed up: its number, its level, and the rows before it."""


@inline
def _node(tree: BTree, number: int) -> TreeNode:
    return TreeNode(tree.nodes[NODE_WORDS * number :].address)


@inline
def _compared(tree: BTree, slot: int) -> Array:
    """Return the compared words of a record."""
    return tree.records[tree.record_words * slot + tree.first_word :]


@kernel
def precedes(tree: BTree, a: int, b: int) -> bool:
    """Return whether the record of slot a comes before that of slot b."""
    return _precedes(tree, a, b, tree.compared_words, b)


@kernel
def _precedes(tree: BTree, a: int, b: int, words: int, tie: int) -> bool:
    """Return whether the first words of slot a come before those of slot b, or are equal and a is less than `tie`."""
    a_words, b_words = _compared(tree, a), _compared(tree, b)
    for index in range(words):
        left, right = a_words[index], b_words[index]
        if left != right:
            if tree.are_texts[index] and not (is_missing(left) or is_missing(right)):
                return text_precedes(tree.pool, left, right)
            return left < right
    return a < tie


@inline
def is_missing(value: int) -> bool:
    """Return whether a value is NULL, or NULL complemented."""
    return value == NULL or value == -1 - NULL


@kernel
def _index_in(tree: BTree, node: TreeNode, slot: int) -> int:
    """Return the number of entries of a node that precede a record."""
    first, count, low = _compared(tree, slot)[0], node.count, 0
    firsts, slots = node.entries, slots_of(node)
    for at in range(count):
        low += firsts[at] < first
    high = low
    while high < count and firsts[high] == first:
        high += 1
    while low < high:
        middle = (low + high) >> 1
        if precedes(tree, slots[middle], slot):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def insert(tree: BTree, slot: int) -> None:
    """Insert a record. Full nodes on the way are split, so that a parent always has room."""
    if _node(tree, tree.root).count == FANOUT:
        _split_root(tree)
    number, level = tree.root, tree.depth
    while level > 0:
        node = _node(tree, number)
        at = max(_index_in(tree, node, slot) - 1, 0)
        if _node(tree, children_of(node)[at]).count == FANOUT:
            _split(tree, node, at, level - 1)
            at += not precedes(tree, slot, slots_of(node)[at + 1])
        if at == 0 and precedes(tree, slot, slots_of(node)[0]):
            _set_entry(tree, node, 0, slot)
        number = children_of(node)[at]
        level -= 1
    node = _node(tree, number)
    at = _index_in(tree, node, slot)
    open_gap(node, at, LEAF_COLUMNS)
    _set_entry(tree, node, at, slot)


@inline
def _set_entry(tree: BTree, node: TreeNode, at: int, slot: int) -> None:
    node.entries[at] = _compared(tree, slot)[0]
    slots_of(node)[at] = slot


@kernel
def _new_node(tree: BTree) -> int:
    number = tree.free_node
    if number != 0:
        tree.free_node = _node(tree, number).left
    else:
        number = tree.next_node
        tree.next_node = number + 1
    node = _node(tree, number)
    node.count = 0
    node.left = 0
    node.right = 0
    return number


@kernel
def _free(tree: BTree, number: int) -> None:
    _node(tree, number).left = tree.free_node
    tree.free_node = number


@kernel
def _split(tree: BTree, parent: TreeNode, at: int, level: int) -> None:
    """Move half of a child to a new neighbour on its right."""
    number, new = children_of(parent)[at], _new_node(tree)
    child, neighbour = _node(tree, number), _node(tree, new)
    append_from(neighbour, child, FANOUT // 2)
    if level == 0:
        right = child.right
        neighbour.left = number
        neighbour.right = right
        child.right = new
        if right != 0:
            _node(tree, right).left = new
    open_gap(parent, at + 1, INNER_COLUMNS)
    set_first(parent, at + 1, neighbour)
    children_of(parent)[at + 1] = new
    if tree.items != 0:
        _sum_up(tree, number, level)
        _sum_up(tree, new, level)


@kernel
def _split_root(tree: BTree) -> None:
    """Put a new root above the old one, and split the old one."""
    old, new = tree.root, _new_node(tree)
    root = _node(tree, new)
    root.count = 1
    children_of(root)[0] = old
    set_first(root, 0, _node(tree, old))
    _split(tree, root, 0, tree.depth)
    tree.root = new
    tree.depth += 1
    if tree.items != 0:
        _sum_up(tree, new, tree.depth)


@kernel
def _descend(tree: BTree, slot: int) -> int:
    """Record the path to the leaf to which a record belongs; return the index in the leaf."""
    number, level, path = tree.root, tree.depth, tree.path
    while level > 0:
        node = _node(tree, number)
        at = _index_in(tree, node, slot)
        at -= at == node.count or slots_of(node)[at] != slot
        at = max(at, 0)
        path[2 * level] = at
        path[2 * level + 1] = number
        number = children_of(node)[at]
        level -= 1
    path[1] = number
    return _index_in(tree, _node(tree, number), slot)


@kernel
def delete(tree: BTree, slot: int) -> None:
    """Delete a record of the tree, whose words must not have changed since it was inserted."""
    at, path = _descend(tree, slot), tree.path
    remove_entry(_node(tree, path[1]), at, LEAF_COLUMNS)
    for level in range(tree.depth):
        number, at = path[2 * level + 1], path[2 * level + 2]
        node, parent = _node(tree, number), _node(tree, path[2 * level + 3])
        count = node.count
        if count > 0:
            set_first(parent, at, node)
            if count < FANOUT // 4:
                _merge(tree, parent, at, level)
        else:
            if level == 0:
                _unlink(tree, node)
            _free(tree, number)
            remove_entry(parent, at, INNER_COLUMNS)
    while tree.depth > 0 and _node(tree, tree.root).count == 1:
        old = tree.root
        tree.root = children_of(_node(tree, old))[0]
        tree.depth -= 1
        _free(tree, old)


@kernel
def _merge(tree: BTree, parent: TreeNode, at: int, level: int) -> None:
    """Merge a child with its right neighbour, else with its left one, if the result leaves room for insertions."""
    left = at if at + 1 < parent.count else at - 1
    if left < 0:
        return
    number = children_of(parent)[left + 1]
    target, source = _node(tree, children_of(parent)[left]), _node(tree, number)
    if target.count + source.count > FANOUT * 3 // 4:
        return
    append_from(target, source, 0)
    if tree.items != 0:
        _sum_up(tree, children_of(parent)[left], level)
    if level == 0:
        _unlink(tree, source)
    _free(tree, number)
    remove_entry(parent, left + 1, INNER_COLUMNS)


@kernel
def _unlink(tree: BTree, leaf: TreeNode) -> None:
    """Remove a leaf from the list of leaves."""
    left, right = leaf.left, leaf.right
    if left != 0:
        _node(tree, left).right = right
    if right != 0:
        _node(tree, right).left = left


@kernel
def seek(tree: BTree, slot: int) -> int:
    """Return the position of the first record that does not precede that of a slot."""
    at = _descend(tree, slot)
    return _position(tree, tree.path[1], at)


@kernel
def start(tree: BTree) -> int:
    """Return the position of the first record."""
    number = tree.root
    for _ in range(tree.depth):
        number = children_of(_node(tree, number))[0]
    return _position(tree, number, 0)


@kernel
def _position(tree: BTree, number: int, at: int) -> int:
    node = _node(tree, number)
    return number * FANOUT + at if at < node.count else node.right * FANOUT


@inline
def following(tree: BTree, position: int) -> int:
    """Return the position after this one."""
    return _position(tree, position // FANOUT, position % FANOUT + 1)


@kernel
def preceding(tree: BTree, position: int) -> int:
    """Return the position before this one, which is not the end; 0 if there is none."""
    if position % FANOUT > 0:
        return position - 1
    left = _node(tree, position // FANOUT).left
    return left * FANOUT + _node(tree, left).count - 1 if left != 0 else 0


@inline
def slot_at(tree: BTree, position: int) -> int:
    """Return the slot of the record at a position."""
    return slots_of(_node(tree, position // FANOUT))[position % FANOUT]


@inline
def sums_of(tree: BTree, number: int, version: int) -> Array:
    """Return the sums of a node in a version."""
    return tree.sums[(VERSIONS * number + version) * tree.items :]


@inline
def copies_of(tree: BTree, slot: int, version: int) -> int:
    """Return the weight of a record in a version."""
    return tree.records[tree.record_words * slot + tree.copies_word + version]


@kernel
def _combined(kind: int, a: int, b: int) -> int:
    """Return the sum of two sums of a kind, either of which may be NULL, the sum of no values."""
    if kind <= COUNT:
        return a + b
    if a == NULL:
        return b
    if b == NULL:
        return a
    if kind == SUM:
        return a + b
    return min(a, b) if kind == SMALLEST else max(a, b)


@kernel
def clear_sums(tree: BTree, sums: Array) -> None:
    """Let sums be those of no rows."""
    for item in range(tree.items):
        sums[item] = NULL if tree.kinds[item] in (SUM, SMALLEST, LARGEST) else 0


@inline
def _width(kind: int) -> int:
    """Return the words of a sum."""
    return COUNTED_WORDS if kind == SUM_OF_DOUBLES else 1


@kernel
def _add_sums(tree: BTree, sums: Array, others: Array) -> None:
    item = 0
    while item < tree.items:
        kind = tree.kinds[item]
        if kind == SUM_OF_DOUBLES:
            add_counted(sums[item:], others[item:])
        else:
            sums[item] = _combined(kind, sums[item], others[item])
        item += _width(kind)


@kernel
def _add_copies(tree: BTree, sums: Array, slot: int, copies: int) -> None:
    """Add copies of a record, at least one, to sums."""
    record, item = tree.records[tree.record_words * slot :], 0
    while item < tree.items:
        kind = tree.kinds[item]
        value = record[tree.arguments[item]] if kind != ROWS else 0
        if value == NULL:
            pass
        elif kind == SUM_OF_DOUBLES:
            add_double(sums[item:], value, copies)
            sums[item + SUM_WORDS] += copies
        else:
            if kind <= COUNT:
                value = copies
            elif kind == SUM:
                value *= copies
            sums[item] = _combined(kind, sums[item], value)
        item += _width(kind)


@kernel
def _sum_up(tree: BTree, number: int, level: int) -> None:
    """Compute the sums of a node anew."""
    node = _node(tree, number)
    for version in range(VERSIONS):
        sums = sums_of(tree, number, version)
        clear_sums(tree, sums)
        for at in range(node.count):
            if level > 0:
                _add_sums(tree, sums, sums_of(tree, children_of(node)[at], version))
                continue
            slot = slots_of(node)[at]
            copies = copies_of(tree, slot, version)
            if copies != 0:
                _add_copies(tree, sums, slot, copies)


@kernel
def clear_copies(tree: BTree, slot: int) -> None:
    """Let a record that is not in the tree have no weight."""
    record = tree.records[tree.record_words * slot + tree.copies_word :]
    record[0] = 0
    record[1] = 0


@kernel
def set_copies(tree: BTree, slot: int, old: int, new: int) -> None:
    """Change the weights of a record of the tree in both versions."""
    record = tree.records[tree.record_words * slot + tree.copies_word :]
    record[0] = old
    record[1] = new
    _descend(tree, slot)
    for level in range(tree.depth + 1):
        _sum_up(tree, tree.path[2 * level + 1], level)


@kernel
def rows_before(tree: BTree, slot: int, version: int, words: int, tie: int) -> int:
    """Count the rows whose first words come before those of a slot, or are equal and in a slot below `tie`.

    tie: 0 leaves out all equal ones, LAST_SLOT none, and the slot itself those that do not precede it.
    """
    number, rows = tree.root, 0
    for level in range(tree.depth, -1, -1):
        node = _node(tree, number)
        slots, low, high = slots_of(node), 0, node.count
        while low < high:
            middle = (low + high) >> 1
            if _precedes(tree, slots[middle], slot, words, tie):
                low = middle + 1
            else:
                high = middle
        if level == 0:
            for at in range(low):
                rows += copies_of(tree, slots[at], version)
        else:
            child = max(low - 1, 0)
            for at in range(child):
                rows += sums_of(tree, children_of(node)[at], version)[0]
            number = children_of(node)[child]
    return rows


@kernel
def add_rows_between(tree: BTree, version: int, start: int, stop: int, sums: Array) -> None:
    """Add the rows of a version from one place of the order up to another to sums."""
    if start >= stop:
        return
    pending, size = tree.pending, 1
    pending[0] = tree.root
    pending[1] = tree.depth
    pending[2] = 0
    while size > 0:
        size -= 1
        node, level, before = _node(tree, pending[3 * size]), pending[3 * size + 1], pending[3 * size + 2]
        for at in range(node.count):
            if before >= stop:
                break
            if level == 0:
                slot = slots_of(node)[at]
                rows = copies_of(tree, slot, version)
                copies = min(stop, before + rows) - max(start, before)
                if copies > 0:
                    _add_copies(tree, sums, slot, copies)
            else:
                child = children_of(node)[at]
                below = sums_of(tree, child, version)
                rows = below[0]
                if start <= before and before + rows <= stop:
                    _add_sums(tree, sums, below)
                elif start < before + rows:
                    pending[3 * size] = child
                    pending[3 * size + 1] = level - 1
                    pending[3 * size + 2] = before
                    size += 1
            before += rows


@kernel
def _is_within(kind: int, value: int, bound: int) -> bool:
    """Return whether a value or an extreme is at least as small as a bound, or as large."""
    return value != NULL and (value <= bound if kind == SMALLEST else value >= bound)


@kernel
def nearest_within(tree: BTree, version: int, item: int, start: int, stop: int, bound: int, step: int) -> int:
    """Return the place of the first row (step 1) or the last one (step -1) whose value is within a bound, or -1.

    The rows are those of a version from one place up to another. item: a sum that is an extreme.

    A node that lies between both places and has an extreme within the bound has such a row. So few nodes of each level
    are read.
    """
    kind, pending, size = tree.kinds[item], tree.pending, int(start < stop)
    pending[0] = tree.root
    pending[1] = tree.depth
    pending[2] = 0
    while size > 0:
        size -= 1
        number, level, low = pending[3 * size], pending[3 * size + 1], pending[3 * size + 2]
        node, found, is_last_whole = _node(tree, number), -1, False
        high = low + sums_of(tree, number, version)[0]
        for index in range(node.count):  # the nearest entry is the last one
            at = index if step < 0 else node.count - 1 - index
            child = slots_of(node)[at] if level == 0 else children_of(node)[at]
            if level == 0:
                rows, value = (
                    copies_of(tree, child, version),
                    tree.records[tree.record_words * child :][tree.arguments[item]],
                )
            else:
                below = sums_of(tree, child, version)
                rows = below[0]
                value = below[item]
            first = low if step < 0 else high - rows
            if rows > 0 and start < first + rows and first < stop and _is_within(kind, value, bound):
                found = max(first, start)
                if level > 0:
                    is_whole = start <= first and first + rows <= stop
                    size -= is_whole and is_last_whole
                    pending[3 * size] = child
                    pending[3 * size + 1] = level - 1
                    pending[3 * size + 2] = first
                    size += 1
                    is_last_whole = is_whole
            low += rows
            high -= rows
        if level == 0 and found >= 0:
            return found
    return -1


@kernel
def slot_at_place(tree: BTree, version: int, item: int, place: int) -> int:
    """Return the slot of the record at a place of a version, counting by a sum that is a number of rows."""
    number = tree.root
    for _ in range(tree.depth):
        node, at = _node(tree, number), 0
        number = children_of(node)[0]
        while place >= sums_of(tree, number, version)[item] and at + 1 < node.count:
            place -= sums_of(tree, number, version)[item]
            at += 1
            number = children_of(node)[at]
    node, at = _node(tree, number), 0
    while at + 1 < node.count:
        slot = slots_of(node)[at]
        is_counted = item == 0 or tree.records[tree.record_words * slot + tree.arguments[item]] != NULL
        place -= copies_of(tree, slot, version) if is_counted else 0
        if place < 0:
            break
        at += 1
    return slots_of(node)[at]
