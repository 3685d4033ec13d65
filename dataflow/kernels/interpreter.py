"""The interpreter of programs: it divides the feed into slices, and runs every operator on each of them.

Slices are small, so that the vectors between operators stay in the cache. A slice ends between two times if it can. A
time with more rows than a slice passes in pieces, and the frontier says that it is still open: operators that look at
the end of a time wait until the frontier has passed it.
"""

from __future__ import annotations

from deltamark.dataflow.kernels import expressions
from deltamark.dataflow.kernels.arrangements.arrangement import Arrangement, insert, settle
from deltamark.dataflow.kernels.arrangements.consolidate import Consolidate, consolidate
from deltamark.dataflow.kernels.arrangements.join import Join, join
from deltamark.dataflow.kernels.arrangements.merge import Merge, merge
from deltamark.dataflow.kernels.core.blocks import NONE, Array, Arrays, Block, Cell, Cells, Operator, Vectors
from deltamark.dataflow.kernels.core.hash_map import KeyMap, needs_rehash
from deltamark.dataflow.kernels.core.interner import Intern, intern
from deltamark.dataflow.kernels.core.memory import heed_signals, inline, kernel, load
from deltamark.dataflow.kernels.expressions import (
    Binary,
    Choose,
    Fill,
    FilterRange,
    FilterTrue,
    Lookup,
    Member,
    Pack,
    SetBit,
    Take,
    Unpack,
)
from deltamark.dataflow.kernels.groups.aggregate import Aggregate, aggregate
from deltamark.dataflow.kernels.groups.bucket import Bucket, bucket
from deltamark.dataflow.kernels.groups.group_changes import update_groups
from deltamark.dataflow.kernels.groups.grouped_rows import GroupedRows
from deltamark.dataflow.kernels.groups.threshold import Threshold, threshold
from deltamark.dataflow.kernels.loops.iterate import BACK, FORWARD, LENGTH, enter, iterate
from deltamark.dataflow.kernels.loops.join import meet
from deltamark.dataflow.kernels.loops.reduce import take_in
from deltamark.dataflow.kernels.motifs import index as index_kernel
from deltamark.dataflow.kernels.motifs import index_settle
from deltamark.dataflow.kernels.motifs.extend import extend
from deltamark.dataflow.kernels.motifs.extension import Extend
from deltamark.dataflow.kernels.motifs.index import Index
from deltamark.dataflow.kernels.parallel.exchange import Exchange, receive, send
from deltamark.dataflow.kernels.parallel.key_partition import Compact, Expand, compact, expand
from deltamark.dataflow.kernels.parallel.prefix_aggregate import WAITING, PrefixAggregate, prefix_aggregate
from deltamark.dataflow.kernels.text import functions as text
from deltamark.dataflow.kernels.text import pool as text_pool
from deltamark.dataflow.kernels.text.functions import InputTexts, Match, Substring, TextFunction
from deltamark.dataflow.kernels.text.pool import NumberedTexts, NumberTexts

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


class Room(Operator):
    """Makes room in a map for as many keys as `coming`."""

    keys: KeyMap
    coming: Cell


class Late(Operator):
    """Refers to the block of another operator, of which it is a second half."""

    block: int


class Repeat(Operator):
    """Goes back to the head of a loop, `length` operators before."""

    length: int


class Collect(Operator):
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
                at += load(op, LENGTH)
            elif reason == BACK:
                at -= Repeat(op).length + 1
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
def _collect(op: Collect) -> None:
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
        expressions.filter_range(FilterRange(op))
    elif code == FILTER_TRUE:
        expressions.filter_true(FilterTrue(op))
    elif code == TAKE:
        expressions.take(Take(op))
    elif code == ADD:
        expressions.add(Binary(op))
    elif code == SUBTRACT:
        expressions.subtract(Binary(op))
    elif code == MULTIPLY:
        expressions.multiply(Binary(op))
    elif code == EQUAL:
        expressions.equal(Binary(op))
    elif code == LESS:
        expressions.less(Binary(op))
    elif code == AND:
        expressions.both(Binary(op))
    elif code == OR:
        expressions.either(Binary(op))
    elif code == NEGATION:
        expressions.subtract_from(Binary(op))
    elif code == COALESCE:
        expressions.coalesce(Binary(op))
    elif code == LOOKUP:
        expressions.lookup(Lookup(op))
    elif code == MEMBER:
        expressions.member(Member(op))
    elif code == CHOOSE:
        expressions.choose(Choose(op))
    elif code == FILL:
        expressions.fill(Fill(op))
    elif code == MARK:
        expressions.set_bit(SetBit(op))
    elif code == PACK:
        expressions.pack(Pack(op))
    elif code == UNPACK:
        expressions.unpack(Unpack(op))
    elif code == REFER:
        text.input_texts(InputTexts(op))
    elif code == REFER_NUMBERS:
        text_pool.numbered_texts(NumberedTexts(op))
    elif code == NUMBER:
        return GROW if text_pool.number(NumberTexts(op)) != 0 else 0
    elif code == MATCH:
        text.match(Match(op))
    elif code == SUBSTRING:
        return FAILED if text.substring(Substring(op)) != 0 else 0
    elif code == PREFIX:
        text.prefix(TextFunction(op))
    elif code == HASH:
        text.hashes(TextFunction(op))
    elif code == ROOM:
        return GROW if needs_rehash(Room(op).keys, Room(op).coming) else 0
    elif code == INTERN:
        return GROW if intern(Intern(op)) != 0 else 0
    elif code == INSERT:
        insert(Arrangement(op))
    elif code == SETTLE:
        return settle(Arrangement(Late(op).block))
    elif code == JOIN:
        return FAILED if join(Join(op)) != 0 else 0
    elif code == AGGREGATE:
        return FAILED if aggregate(Aggregate(op)) != 0 else 0
    elif code == THRESHOLD:
        return FAILED if threshold(Threshold(op)) != 0 else 0
    elif code == MERGE:
        merge(Merge(op))
    elif code == CONSOLIDATE:
        return consolidate(Consolidate(op))
    elif code == WATCH:
        return update_groups(GroupedRows(op))
    elif code == BUCKET:
        bucket(Bucket(op))
    elif code == COLLECT:
        _collect(Collect(op))
    elif code == SEND:
        return WAIT if send(Exchange(op)) != 0 else 0
    elif code == RECEIVE:
        return WAIT if receive(Exchange(Late(op).block)) != 0 else 0
    elif code == COMPACT:
        compact(Compact(op))
    elif code == EXPAND:
        expand(Expand(op))
    elif code == SCAN:
        return _scanned(prefix_aggregate(PrefixAggregate(op)))
    elif code == ENTER:
        enter(op)
    elif code == ITERATE:
        return iterate(op)
    elif code == MEET:
        return meet(op)
    elif code == CLOSE:
        return take_in(op)
    elif code == REPEAT:
        return BACK
    elif code == INDEX:
        index_kernel.insert(Index(op))
    elif code == SETTLE_INDEX:
        return index_settle.settle(index_settle.SettleIndex(op).index)
    elif code == EXTEND:
        return FAILED if extend(Extend(op)) != 0 else 0
    return 0
