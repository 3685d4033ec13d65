"""The interpreter divides a feed into slices, and runs every operator of a program on each of them.

Slices are small, so that the vectors between operators stay in the cache. A slice ends between two times if it can. A
time with more rows than a slice passes in pieces, and the frontier stays at it: operators that emit at the end of a
time wait until the frontier has passed it.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.batches import complete_batch
from deltamark.dataflow.kernels.core.dispatcher import kernel
from deltamark.dataflow.kernels.core.intrinsics import heed_signals, run_step
from deltamark.dataflow.kernels.loops.iterate import IterateBlock, RepeatBlock
from deltamark.dataflow.kernels.program import IDLE_BLOCK_WORDS, IdleBlock, ProgramBlock, adapt_slice, cut
from deltamark.dataflow.kernels.status import BACK, DONE, FORWARD, WAITING
from deltamark.dataflow.kernels.unread import skip_unread

STEPS_PER_POLL = 8
"""Operators that run between two calls of `heed_signals`. Not measured."""


@kernel
def run(address: int, start: int) -> int:
    """Run from an operator, or from the next slice (start -1), to the end of the feed or its last batch; return DONE.

    If an operator cannot go on, return 4 * its number + its status. Once the reason is removed, start there again. So
    the first operator of each superstep waits once a worker has failed.
    """
    program = ProgramBlock(address)
    at, steps = start, 0
    while True:
        heed_signals()
        if at < 0:
            skip_unread(program)
            cut(program)
            at = 0
            program.running = 0
            if program.stop != 0:
                return WAITING
        while at < program.ops:
            idle = IdleBlock(program.idle[IDLE_BLOCK_WORDS * at :].address)
            if idle.first == 0 and idle.second == 0 and idle.third == 0 and idle.fourth == 0:
                at += idle.skipped
                continue
            call = program.calls[2 * at :]
            program.running = at
            status = run_step(call[0], call[1])
            steps += 1
            if steps & (STEPS_PER_POLL - 1) == 0:
                heed_signals()
            if status == FORWARD:
                at += IterateBlock(call[1]).length
            elif status == BACK:
                at -= RepeatBlock(call[1]).length + 1
            elif status != DONE:
                return 4 * at + status
            at += 1
        adapt_slice(program)
        if program.more == 0 and not (program.batches != 0 and complete_batch(program)):
            return DONE
        at = -1
