"""Batches of one feed: compiled code completes them one after another, and measures the time of each."""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array, Block
from deltamark.dataflow.kernels.core.dispatcher import kernel
from deltamark.dataflow.kernels.core.intrinsics import nanoseconds
from deltamark.dataflow.kernels.program import CollectBlock, InputBlock, ProgramBlock


class BatchesBlock(Block):
    """Batches of a program, each of which ends with a logical time."""

    count: int
    at: int = 0
    """The batch that runs."""
    ends: Array
    """The last time of each batch."""
    rows: Array
    """The rows of each input in all batches."""
    roots: Array
    """The collectors of the answers."""
    answers: int
    collected: Array
    """Output: the number of changes of all answers up to the end of each batch."""
    clock: Array
    """Output: the nanoseconds of each batch."""
    started: int
    """The time at which the batch began."""


@kernel
def take_batch(program: ProgramBlock) -> None:
    """Let the inputs end with the rows of the next batch."""
    batches = BatchesBlock(program.batches)
    at = batches.at
    for index in range(program.inputs):
        block = InputBlock(program.input_blocks[index])
        if at == 0:
            batches.rows[index] = block.rows
        block.rows = first_after(block.times, block.position, batches.rows[index], batches.ends[at])


@kernel
def first_after(times: Array, low: int, high: int, end: int) -> int:
    """Return the first position from `low` on whose time is later than `end`. Most batches have few rows."""
    step = 1
    while low + step <= high and times[low + step - 1] <= end:
        low += step
        step *= 2
    high = min(high, low + step - 1)
    while low < high:
        middle = (low + high) >> 1
        if times[middle] <= end:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def complete_batch(program: ProgramBlock) -> bool:
    """Complete a batch: record its changes and its time, and begin the next batch. Return whether there is one."""
    batches, collected = BatchesBlock(program.batches), 0
    at = batches.at
    for index in range(batches.answers):
        collected += CollectBlock(batches.roots[index]).collected
    now = nanoseconds()
    batches.collected[at] = collected
    batches.clock[at] = now - batches.started
    batches.started = now
    batches.at = at + 1
    if at + 1 == batches.count:
        return False
    take_batch(program)
    return True
