"""The interpreter of programs: it divides the feed into slices, and runs every operator on each of them.

Slices are small, so that the vectors between operators stay in the cache. A slice ends between two times if it can. A
time with more rows than a slice passes in pieces, and the frontier says that it is still open: operators that look at
the end of a time wait until the frontier has passed it.
"""

from __future__ import annotations

from deltamark.dataflow.kernels import expressions
from deltamark.dataflow.kernels.arrangements.arrangement import ArrangementBlock, insert, settle
from deltamark.dataflow.kernels.arrangements.consolidate import ConsolidateBlock, consolidate
from deltamark.dataflow.kernels.arrangements.join import JoinBlock, join
from deltamark.dataflow.kernels.arrangements.merge import MergeBlock, merge
from deltamark.dataflow.kernels.core.blocks import NONE, Array, Arrays, Block, Cell, Cells, Operator, Vectors
from deltamark.dataflow.kernels.core.hash_map import KeyMap, needs_rehash
from deltamark.dataflow.kernels.core.interner import InternBlock, intern
from deltamark.dataflow.kernels.core.memory import heed_signals, inline, kernel
from deltamark.dataflow.kernels.expressions import (
    BinaryBlock,
    ChooseBlock,
    FillBlock,
    FilterRangeBlock,
    FilterTrueBlock,
    LookupBlock,
    MemberBlock,
    PackBlock,
    SetBitBlock,
    TakeBlock,
    UnpackBlock,
)
from deltamark.dataflow.kernels.groups.aggregate import AggregateBlock, aggregate
from deltamark.dataflow.kernels.groups.bucket import BucketBlock, bucket
from deltamark.dataflow.kernels.groups.group_changes import update_groups
from deltamark.dataflow.kernels.groups.grouped_rows import GroupedRowsBlock
from deltamark.dataflow.kernels.groups.threshold import ThresholdBlock, threshold
from deltamark.dataflow.kernels.loops.iterate import (
    BACK,
    FORWARD,
    IterateBlock,
    LoopSourceBlock,
    RepeatBlock,
    enter,
    iterate,
)
from deltamark.dataflow.kernels.loops.join import LoopJoinBlock, loop_join
from deltamark.dataflow.kernels.loops.reduce import buffer_updates
from deltamark.dataflow.kernels.loops.reduce_state import ReduceInputBlock
from deltamark.dataflow.kernels.motifs import index as index_kernel
from deltamark.dataflow.kernels.motifs import index_settle
from deltamark.dataflow.kernels.motifs.extend import extend
from deltamark.dataflow.kernels.motifs.extension import ExtendBlock
from deltamark.dataflow.kernels.motifs.index import IndexBlock
from deltamark.dataflow.kernels.parallel.exchange import ExchangeBlock, receive, send
from deltamark.dataflow.kernels.parallel.key_partition import CompactBlock, ExpandBlock, compact, expand
from deltamark.dataflow.kernels.parallel.prefix_aggregate import WAITING, PrefixAggregateBlock, prefix_aggregate
from deltamark.dataflow.kernels.text import functions as text
from deltamark.dataflow.kernels.text import pool as text_pool
from deltamark.dataflow.kernels.text.functions import InputTextsBlock, MatchBlock, SubstringBlock, TextFunctionBlock
from deltamark.dataflow.kernels.text.pool import NumberedTextsBlock, NumberTextsBlock

(FILTER_RANGE, FILTER_TRUE, TAKE, ADD, SUBTRACT, MULTIPLY, EQUAL, LESS, AND, OR, NEGATION, COALESCE, LOOKUP, MEMBER,
 CHOOSE, FILL, PACK, UNPACK, INSERT, SETTLE, JOIN, AGGREGATE, THRESHOLD, MERGE, CONSOLIDATE, COLLECT, ROOM, WATCH,
 BUCKET, INTERN, REFER, REFER_NUMBERS, NUMBER, MATCH, SUBSTRING, PREFIX, HASH, SEND, RECEIVE, COMPACT,
 EXPAND, SCAN, ENTER, ITERATE, MEET, CLOSE, REPEAT, INDEX, SETTLE_INDEX, EXTEND, MARK) = range(51)  # fmt: skip
"""Opcodes: the first word of each block."""

NAMES = {code: name for name, code in list(globals().items()) if name.isupper() and isinstance(code, int)}
"""The name of each opcode."""


class InputBlock(Block):
    """An input of the program: the rows of the feed, and the cells of the current slice."""

    times: Array = NONE
    diffs: Array = NONE
    rows: int = 0
    position: int = 0
    """The first row behind the current slice."""
    size: Cell
    time: Cell
    diff: Cell
    columns: int = 0
    bases: Array = NONE
    """Where the rows of each column lie."""
    widths: Array = NONE
    """The bytes of a value of each column."""
    cells: Cells = NONE
    """The cell of each column, which holds the address of its values in the current slice."""


class ProgramBlock(Block):
    """A program: its inputs, and its operators in the order in which they run."""

    inputs: int
    input_blocks: Array
    ops: int
    op_blocks: Array
    frontier: Cell
    """The end of the round."""
    slice_rows: int
    more: int = 0
    """Whether rows are left after this slice."""
    workers: int
    """Workers run the same program over the same feed; each takes every `workers`-th slice. Together such slices are a
    round.
    """
    worker: Cell
    fan_out: Cell
    """The most rows that an operator has made of the slice, where it may make many of one."""
    max_slice_rows: int
    running: int = 0
    """The number of the operator that runs."""


class RoomBlock(Operator):
    """Makes room in a map for as many keys as `coming`."""

    keys: KeyMap
    coming: Cell


class LateBlock(Operator):
    """Refers to the block of another operator, of which it is a second half."""

    block: int


class CollectBlock(Operator):
    """Counts the changes of an answer, and keeps them unless `drop` is set."""

    collected: int = 0
    size: Cell
    columns: int
    inputs: Vectors
    out: Arrays
    drop: int = 0


STEPS = 8
"""Operators that run between two looks for signals."""

MAX_FAN_OUT = 1 << 18
"""Rows that an operator may make of a slice before slices become smaller."""

DONE, GROW, FAILED, WAIT = 0, 1, 2, 3
FOREVER = 2**62


@kernel
def run(address: int, start: int) -> int:
    """Run from an operator, or from the next slice (start -1), to the end of the feed; return DONE.

    If an operator cannot go on, return 4 * its number + the reason. Once the reason is removed, start there again.
    """
    program = ProgramBlock(address)
    at, steps = start, 0
    while True:
        heed_signals()
        if at < 0:
            _cut(program)
            at = 0
        while at < program.ops:
            op = program.op_blocks[at]
            program.running = at
            reason = _step(op)
            steps += 1
            if steps & (STEPS - 1) == 0:
                heed_signals()
            if reason == FORWARD:
                at += IterateBlock(op).length
            elif reason == BACK:
                at -= RepeatBlock(op).length + 1
            elif reason != 0:
                return 4 * at + reason
            at += 1
        _adapt_slice(program)
        if program.more == 0:
            return DONE
        at = -1


@kernel
def _adapt_slice(program: ProgramBlock) -> None:
    """Make slices smaller while operators make too many rows of them, so that memory does not follow a motif's size.

    Several workers must cut alike without communication, so their slices keep their size.
    """
    rows, size = program.fan_out, program.slice_rows
    program.fan_out = 0
    if program.workers == 1 and rows > MAX_FAN_OUT:
        program.slice_rows = max(size >> 1, 1)
    elif 8 * rows < MAX_FAN_OUT and size < program.max_slice_rows:
        program.slice_rows = min(2 * size, program.max_slice_rows)


@kernel
def _cut(program: ProgramBlock) -> None:
    """Take the next round: a slice for each worker, of which this worker runs its own."""
    limit = program.slice_rows if program.workers == 1 else _rows_per_worker(program)
    for turn in range(program.workers):
        _cut_slice(program, limit, turn == program.worker)


@kernel
def _rows_per_worker(program: ProgramBlock) -> int:
    """Return how many rows of an input a slice may have so that the last round occupies all workers."""
    longest = 1
    for index in range(program.inputs):
        block = InputBlock(program.input_blocks[index])
        longest = max(longest, block.rows - block.position)
    return min(program.slice_rows, -(-longest // program.workers))


@kernel
def _cut_slice(program: ProgramBlock, limit: int, mine: bool) -> None:
    """Take or pass the next slice: the rows of all inputs before a horizon that keeps each to `limit` rows."""
    horizon = first = FOREVER
    for index in range(program.inputs):
        block = InputBlock(program.input_blocks[index])
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
        size = min(_count_before(block.times, position, rows, horizon) - position, limit)
        if mine:
            _bind(block, position, size)
        block.position = position + size
        more |= position + size < rows
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
    block.diff = block.diffs[position:].address
    for column in range(block.columns):
        block.cells[column] = block.bases[column] + block.widths[column] * position


@kernel
def _collect(op: CollectBlock) -> None:
    """Append the changes of the slice to those of the feed."""
    size, collected = op.size, op.collected
    for column in range(0 if op.drop != 0 else op.columns):
        source, target = op.inputs[column], op.out[column][collected:]
        for at in range(size):
            target[at] = source[at]
    op.collected = collected + size


@inline
def _scanned(status: int) -> int:
    if status == 0:
        return 0
    return WAIT if status == WAITING else FAILED


@kernel
def _step(op: int) -> int:
    """Run one operator."""
    code = Operator(op).opcode
    if code == FILTER_RANGE:
        expressions.filter_range(FilterRangeBlock(op))
    elif code == FILTER_TRUE:
        expressions.filter_true(FilterTrueBlock(op))
    elif code == TAKE:
        expressions.take(TakeBlock(op))
    elif code == ADD:
        expressions.add(BinaryBlock(op))
    elif code == SUBTRACT:
        expressions.subtract(BinaryBlock(op))
    elif code == MULTIPLY:
        expressions.multiply(BinaryBlock(op))
    elif code == EQUAL:
        expressions.equal(BinaryBlock(op))
    elif code == LESS:
        expressions.less(BinaryBlock(op))
    elif code == AND:
        expressions.both(BinaryBlock(op))
    elif code == OR:
        expressions.either(BinaryBlock(op))
    elif code == NEGATION:
        expressions.subtract_from(BinaryBlock(op))
    elif code == COALESCE:
        expressions.coalesce(BinaryBlock(op))
    elif code == LOOKUP:
        expressions.lookup(LookupBlock(op))
    elif code == MEMBER:
        expressions.member(MemberBlock(op))
    elif code == CHOOSE:
        expressions.choose(ChooseBlock(op))
    elif code == FILL:
        expressions.fill(FillBlock(op))
    elif code == MARK:
        expressions.set_bit(SetBitBlock(op))
    elif code == PACK:
        expressions.pack(PackBlock(op))
    elif code == UNPACK:
        expressions.unpack(UnpackBlock(op))
    elif code == REFER:
        text.input_texts(InputTextsBlock(op))
    elif code == REFER_NUMBERS:
        text_pool.numbered_texts(NumberedTextsBlock(op))
    elif code == NUMBER:
        return GROW if text_pool.number(NumberTextsBlock(op)) != 0 else 0
    elif code == MATCH:
        text.match(MatchBlock(op))
    elif code == SUBSTRING:
        return FAILED if text.substring(SubstringBlock(op)) != 0 else 0
    elif code == PREFIX:
        text.prefix(TextFunctionBlock(op))
    elif code == HASH:
        text.hashes(TextFunctionBlock(op))
    elif code == ROOM:
        return GROW if needs_rehash(RoomBlock(op).keys, RoomBlock(op).coming) else 0
    elif code == INTERN:
        return GROW if intern(InternBlock(op)) != 0 else 0
    elif code == INSERT:
        insert(ArrangementBlock(op))
    elif code == SETTLE:
        return settle(ArrangementBlock(LateBlock(op).block))
    elif code == JOIN:
        return FAILED if join(JoinBlock(op)) != 0 else 0
    elif code == AGGREGATE:
        return FAILED if aggregate(AggregateBlock(op)) != 0 else 0
    elif code == THRESHOLD:
        return FAILED if threshold(ThresholdBlock(op)) != 0 else 0
    elif code == MERGE:
        merge(MergeBlock(op))
    elif code == CONSOLIDATE:
        return consolidate(ConsolidateBlock(op))
    elif code == WATCH:
        return update_groups(GroupedRowsBlock(op))
    elif code == BUCKET:
        bucket(BucketBlock(op))
    elif code == COLLECT:
        _collect(CollectBlock(op))
    elif code == SEND:
        return WAIT if send(ExchangeBlock(op)) != 0 else 0
    elif code == RECEIVE:
        return WAIT if receive(ExchangeBlock(LateBlock(op).block)) != 0 else 0
    elif code == COMPACT:
        compact(CompactBlock(op))
    elif code == EXPAND:
        expand(ExpandBlock(op))
    elif code == SCAN:
        return _scanned(prefix_aggregate(PrefixAggregateBlock(op)))
    elif code == ENTER:
        enter(LoopSourceBlock(op))
    elif code == ITERATE:
        return iterate(IterateBlock(op))
    elif code == MEET:
        return loop_join(LoopJoinBlock(op))
    elif code == CLOSE:
        return buffer_updates(ReduceInputBlock(op).reduce)
    elif code == REPEAT:
        return BACK
    elif code == INDEX:
        index_kernel.insert(IndexBlock(op))
    elif code == SETTLE_INDEX:
        return index_settle.settle(index_settle.SettleIndexBlock(op).index)
    elif code == EXTEND:
        return FAILED if extend(ExtendBlock(op)) != 0 else 0
    return 0
