"""Programs: their blocks, and the division of a feed into slices."""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import NONE, Array, Arrays, Block, Cell, Cells, Operator, Vectors
from deltamark.dataflow.kernels.core.dispatcher import kernel
from deltamark.dataflow.kernels.core.steps import step
from deltamark.dataflow.types import FOREVER

MAX_FAN_OUT = 1 << 18
"""Rows that an operator may make of a slice before slices become smaller."""


class InputBlock(Block):
    """An input of the program: the rows of the feed, and the cells of the current slice."""

    times: Array = NONE
    diffs: Array = NONE
    inserts: int = 0
    """Whether all weights are 1, so that those of any rows are those of the first ones."""
    rows: int = 0
    position: int = 0
    """The first row behind the current slice."""
    skips_unread: int = 0
    """Whether the columns are all that is read of a row, so updates that cancel each other may be skipped."""
    size: Cell
    time: Cell
    diff: Cell
    columns: int = 0
    bases: Array = NONE
    """The address of the rows of each column."""
    widths: Array = NONE
    """The bytes of a value of each column."""
    cells: Cells = NONE
    """The cell of each column, which holds the address of its values in the current slice."""
    first: int = 0
    """The first row of the superstep."""
    own: int = 0
    own_size: int = 0
    """The slice of this worker: its first row, and its number of rows. The cells have the rows of the superstep."""
    is_local: int = 0
    """Whether other workers have other rows, so that these do not decide where the feed is cut."""


class ProgramBlock(Block):
    """A program: its inputs, and its operators in the order in which they run."""

    inputs: int
    input_blocks: Array
    ops: int
    calls: Array
    """For each operator the address of the code of its kernel, and of the block that the kernel takes."""
    frontier: Cell
    """The end of the superstep."""
    slice_rows: int
    more: int = 0
    """Whether rows are left after this slice."""
    supersteps: int = 0
    """The number of supersteps so far."""
    stop: Cell
    """Not 0 once a worker has failed."""
    workers: int
    """Workers run the same program over the same feed. A superstep has a slice for each worker."""
    worker: Cell
    fan_out: Cell
    """The most rows that an operator has made of the slice, where it may make many of one."""
    max_slice_rows: int
    running: int = 0
    """The number of the operator that runs."""
    idle: Array
    """An `IdleBlock` for each operator."""
    batches: int = 0
    """The `BatchesBlock` of the feed, if it has several batches."""


class IdleBlock(Block):
    """The words that are all 0 while an operator is idle. If it has fewer than four, the first is repeated."""

    first: Cell
    second: Cell
    third: Cell
    fourth: Cell
    skipped: int
    """The number of operators, from this one on, that are idle whenever this one is."""


IDLE_BLOCK_WORDS: int = IdleBlock.size_in_words
IDLE_WORDS = IDLE_BLOCK_WORDS - 1


class SliceBlock(Operator):
    """Binds other cells to this worker's slice of an input."""

    input: int
    size: Cell
    time: Cell
    diff: Cell
    columns: int
    cells: Cells


class CollectBlock(Operator):
    """Counts the changes of an answer, and keeps them unless `drop` is set."""

    collected: int = 0
    size: Cell
    columns: int
    inputs: Vectors
    out: Arrays
    drop: int = 0


@kernel
def adapt_slice(program: ProgramBlock) -> None:
    """Make slices smaller while operators make too many rows of them, so that these do not fill the memory.

    Several workers must cut alike without communication, so their slices keep their size, and so do whole feeds.
    """
    rows, size = program.fan_out, program.slice_rows
    program.fan_out = 0
    if program.workers == 1 and rows > MAX_FAN_OUT and size <= program.max_slice_rows:
        program.slice_rows = max(size * MAX_FAN_OUT // rows, 1)
    elif 8 * rows < MAX_FAN_OUT and size < program.max_slice_rows:
        program.slice_rows = min(2 * size, program.max_slice_rows)


@kernel
def cut(program: ProgramBlock) -> None:
    """Take the next superstep, which has a slice for each worker."""
    program.supersteps += 1
    if program.workers == 1:
        _cut_slice(program, program.slice_rows, program.worker == 0)
        for index in range(program.inputs):
            block = InputBlock(program.input_blocks[index])
            _bind(block, block.own, block.own_size)
        return
    limit = _rows_per_worker(program)
    for index in range(program.inputs):
        block = InputBlock(program.input_blocks[index])
        block.first = block.position
    for turn in range(program.workers):
        _cut_slice(program, limit, turn == program.worker)
    for index in range(program.inputs):
        block = InputBlock(program.input_blocks[index])
        _bind(block, block.first, block.position - block.first)


@kernel
def _rows_per_worker(program: ProgramBlock) -> int:
    """Return how many rows of an input a slice may have so that the last superstep occupies all workers."""
    longest = 1
    for index in range(program.inputs):
        block = InputBlock(program.input_blocks[index])
        if block.is_local == 0:
            longest = max(longest, block.rows - block.position)
    return min(program.slice_rows, -(-longest // program.workers))


@kernel
def _cut_slice(program: ProgramBlock, limit: int, mine: bool) -> None:
    """Take the next slice of some worker: the rows of all inputs before a horizon.

    The horizon keeps each input to `limit` rows, but for local ones: all workers find the same horizon.
    """
    horizon = first = FOREVER
    for index in range(program.inputs):
        block = InputBlock(program.input_blocks[index])
        if block.is_local != 0:
            continue
        if block.position + limit < block.rows:
            horizon = min(horizon, block.times[block.position + limit])
        if block.position < block.rows:
            first = min(first, block.times[block.position])
    more, frontier = 0, horizon
    if first >= horizon:  # one time alone is more than a slice
        horizon += 1
    for index in range(program.inputs):
        block = InputBlock(program.input_blocks[index])
        position, rows = block.position, block.rows
        size = _count_before(block.times, position, rows, horizon) - position
        if block.is_local == 0:
            size = min(size, limit)
            more |= position + size < rows
        if mine:
            block.own, block.own_size = position, size
        block.position = position + size
    program.frontier = frontier if more != 0 else FOREVER
    program.more = more


@kernel
def _count_before(times: Array, low: int, high: int, horizon: int) -> int:
    """Return how many times, which are in order, are less than the horizon."""
    while low < high:
        middle = (low + high) >> 1
        if times[middle] < horizon:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _bind(block: InputBlock, position: int, size: int) -> None:
    """Bind an input's cells to its rows from `position` on."""
    block.size = size
    block.time = block.times[position:].address
    block.diff = block.diffs[0 if block.inserts != 0 else position :].address
    for column in range(block.columns):
        block.cells[column] = block.bases[column] + block.widths[column] * position


@kernel
def take_slice(op: SliceBlock) -> None:
    """Bind cells to this worker's slice of an input, whose own cells have the rows of all workers."""
    block = InputBlock(op.input)
    first = block.own
    op.size = block.own_size
    op.time = block.times[first:].address
    op.diff = block.diffs[0 if block.inserts != 0 else first :].address
    for column in range(op.columns):
        op.cells[column] = block.bases[column] + block.widths[column] * first


@kernel
def collect(op: CollectBlock) -> None:
    """Append the changes of the slice to those of the feed."""
    size, collected = op.size, op.collected
    for column in range(0 if op.drop != 0 else op.columns):
        source, target = op.inputs[column], op.out[column][collected:]
        for at in range(size):
            target[at] = source[at]
    op.collected = collected + size


TAKE_SLICE, COLLECT = step(take_slice), step(collect, idle=("size",))
