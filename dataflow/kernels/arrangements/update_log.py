"""Logged updates of arrangements: the latest updates are taken out of the pending ones of their keys, and put back.

In between, the earlier updates can be settled as if they were the updates of one slice: see `arrangement`.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.arrangements.arrangement import ArrangementBlock
from deltamark.dataflow.kernels.core.dispatcher import kernel
from deltamark.dataflow.kernels.hashing.hash_map import id_for, id_of


@kernel
def unlink(op: ArrangementBlock, first: int) -> None:
    """Take out the updates from number `first` on, each of which is then the newest of its key."""
    for at in range(op.first - 1, first - 1, -1):
        op.pending[id_of(op.keys, op.log_key[at])] = op.next[op.mark + at]


@kernel
def link(op: ArrangementBlock) -> None:
    """Add all updates of the log to the pending ones of their keys."""
    pending, mark = op.pending, op.mark
    for at in range(op.first):
        key_id = id_for(op.keys, op.log_key[at])
        op.next[mark + at] = pending[key_id]
        pending[key_id] = mark + at + 1
    op.has_pending = op.first > 0
