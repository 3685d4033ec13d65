"""Nodes of B+-trees: entries in columns, which are inserted, removed and moved to another node."""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array, Block, Inline
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel

FANOUT = 32
"""Entries of a node. Not measured."""

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
