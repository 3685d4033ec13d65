"""Logged updates of arrangements: the latest updates are taken out of the lists of their keys, and put back.

In between, the earlier updates can be settled as if they were the updates of one slice: see `arrangement`.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.arrangements.arrangement import ArrangementBlock
from deltamark.dataflow.kernels.core.dispatcher import kernel
from deltamark.dataflow.kernels.hashing.hash_map import id_for, id_of


@kernel
def unlink(op: ArrangementBlock, first: int) -> None:
    """Take the updates from number `first` on out of their lists, in which each is then the newest of its key."""
    for at in range(op.first - 1, first - 1, -1):
        op.lists[2 * id_of(op.keys, op.log_key[at])] = op.next[op.mark + at]


@kernel
def link(op: ArrangementBlock) -> None:
    """Put all updates of the log into the lists of their keys."""
    lists, mark = op.lists, op.mark
    for at in range(op.first):
        key_id = id_for(op.keys, op.log_key[at])
        op.next[mark + at] = lists[2 * key_id]
        lists[2 * key_id] = mark + at + 1
