"""The one loop over a compiled plan: cut the feed into slices, and run every operator on each.

A slice is what keeps the vectors between operators in the cache. It ends between two times where it can; a time of
more rows than a slice goes through in pieces, and FRONTIER says that it is still open: what looks at the end of a
time waits until FRONTIER has passed it.
"""

from __future__ import annotations

from deltamark.dataflow.kernels import expressions
from deltamark.dataflow.kernels.arrangements.arrangement import Arrangement, insert, settle
from deltamark.dataflow.kernels.arrangements.consolidate import consolidate
from deltamark.dataflow.kernels.arrangements.join import Join, join
from deltamark.dataflow.kernels.arrangements.merge import merge
from deltamark.dataflow.kernels.core import text
from deltamark.dataflow.kernels.core.hash_map import needs_rehash
from deltamark.dataflow.kernels.core.interner import intern
from deltamark.dataflow.kernels.core.memory import heed_signals, inline, kernel, load, store
from deltamark.dataflow.kernels.groups.aggregate import aggregate
from deltamark.dataflow.kernels.groups.group_changes import watch
from deltamark.dataflow.kernels.groups.grouped_rows import bucket
from deltamark.dataflow.kernels.groups.threshold import threshold
from deltamark.dataflow.kernels.loops.iterate import BACK, FORWARD, Iterate, LoopSource, Repeat, enter, iterate
from deltamark.dataflow.kernels.loops.join import LoopJoin, loop_join
from deltamark.dataflow.kernels.loops.reduce import buffer_updates
from deltamark.dataflow.kernels.loops.reduce_state import ReduceInput
from deltamark.dataflow.kernels.motifs import index as index_kernel
from deltamark.dataflow.kernels.motifs.extend import extend
from deltamark.dataflow.kernels.parallel import prefix_aggregate as scan_kernel
from deltamark.dataflow.kernels.parallel.exchange import receive, send
from deltamark.dataflow.kernels.parallel.key_partition import compact, expand
from deltamark.dataflow.kernels.parallel.prefix_aggregate import scan

(FILTER_RANGE, FILTER_TRUE, TAKE, ADD, SUBTRACT, MULTIPLY, EQUAL, LESS, AND, OR, NEGATION, COALESCE, LOOKUP, MEMBER,
 CHOOSE, FILL, PACK, UNPACK, INSERT, SETTLE, JOIN, AGGREGATE, THRESHOLD, MERGE, CONSOLIDATE, COLLECT, ROOM, WATCH,
 BUCKET, INTERN, REFER, REFER_NUMBERS, NUMBER, MATCH, SUBSTRING, PREFIX, HASH, SEND, RECEIVE, COMPACT,
 EXPAND, SCAN, ENTER, ITERATE, MEET, CLOSE, REPEAT, INDEX, SETTLE_INDEX, EXTEND, MARK) = range(51)  # fmt: skip
"""Opcodes: the first word of each block."""

NAMES = {code: name for name, code in list(globals().items()) if name.isupper() and isinstance(code, int)}
"""The name of each opcode."""

# the program's block
INPUTS, INPUT_BLOCKS, OPS, OP_BLOCKS, FRONTIER, SLICE, MORE, WORKERS, WORKER, CROWD, MOST_SLICE, AT = range(12)
"""FRONTIER, WORKER, CROWD: cells. MORE: whether rows are left after this slice. Of WORKERS that run the same program
over the same feed, number WORKER takes every WORKERS-th slice; together such slices are a round; FRONTIER is where it
ends. CROWD: the most rows that an operator has made of the slice, where it may make many of one. AT: which operator
runs.
"""

# an input's block
TIMES, DIFFS, ROWS, POSITION, SIZE, TIME, DIFF, COLUMNS, BASES, WIDTHS, CELLS = range(11)
"""Where the feed's rows lie, how many, how far we are; the cells of the slice; and the same for each column."""

# the blocks of operators that are only here
POOL = 1
KEYS, COMING = 1, 2
"""ROOM: a map of keys, and the cell of how many may come."""
ARRANGEMENT = EXCHANGE = INDEXED = 1
COLLECTED, COLLECT_SIZE, COLLECT_COLUMNS, COLLECT_INPUTS, COLLECT_OUT, DROP = range(1, 7)
"""COLLECT: counts the answer's changes, and keeps them unless DROP is set."""

STEPS = 8
"""Operators that run between two looks for signals."""

CROWDED_ROWS = 1 << 18
"""Rows that an operator may make of a slice before slices become smaller."""

DONE, GROW, FAILED, WAIT = 0, 1, 2, 3
FOREVER = 2**62


@kernel
def run(program: int, start: int) -> int:
    """Run from an operator, or from the next slice (start -1), to the end of the feed; return DONE.

    Or return 4 * operator + a reason why it stopped there; with room made, start there again.
    """
    at, steps = start, 0
    while True:
        heed_signals()
        if at < 0:
            _cut(program)
            at = 0
        while at < load(program, OPS):
            op = load(load(program, OP_BLOCKS), at)
            store(program, AT, at)
            reason = _step(op)
            steps += 1
            if steps & (STEPS - 1) == 0:
                heed_signals()
            if reason == FORWARD:
                at += Iterate(op).length
            elif reason == BACK:
                at -= Repeat(op).length + 1
            elif reason != 0:
                return 4 * at + reason
            at += 1
        _fit(program)
        if load(program, MORE) == 0:
            return DONE
        at = -1


@kernel
def _fit(program: int) -> None:
    """Let slices be smaller while operators make too many rows of them, so that memory does not follow a motif's size.

    Several workers must cut alike without asking each other, so theirs stay as they are.
    """
    rows, size = load(load(program, CROWD), 0), load(program, SLICE)
    store(load(program, CROWD), 0, 0)
    if load(program, WORKERS) == 1 and rows > CROWDED_ROWS:
        store(program, SLICE, max(size >> 1, 1))
    elif 8 * rows < CROWDED_ROWS and size < load(program, MOST_SLICE):
        store(program, SLICE, min(2 * size, load(program, MOST_SLICE)))


@kernel
def _cut(program: int) -> None:
    """Take the next round: a slice for each worker, of which ours is the one that is run."""
    workers, worker = load(program, WORKERS), load(load(program, WORKER), 0)
    most = load(program, SLICE) if workers == 1 else _share(program, workers)
    for turn in range(workers):
        _cut_slice(program, most, turn == worker)


@kernel
def _share(program: int, workers: int) -> int:
    """Return how many rows of an input a slice may have for the last round to occupy all workers."""
    longest = 1
    for index in range(load(program, INPUTS)):
        block = load(load(program, INPUT_BLOCKS), index)
        longest = max(longest, load(block, ROWS) - load(block, POSITION))
    return min(load(program, SLICE), -(-longest // workers))


@kernel
def _cut_slice(program: int, most: int, mine: bool) -> None:
    """Take the next slice of every input, or pass it: all rows before a horizon that keeps each to `most` rows."""
    inputs, horizon, first = load(program, INPUTS), FOREVER, FOREVER
    for index in range(inputs):
        block = load(load(program, INPUT_BLOCKS), index)
        position, rows, times = load(block, POSITION), load(block, ROWS), load(block, TIMES)
        if position + most < rows:
            horizon = min(horizon, load(times, position + most))
        if position < rows:
            first = min(first, load(times, position))
    whole, more = first < horizon, 0
    frontier = horizon
    if not whole:  # one time alone is more than a slice
        horizon += 1
    for index in range(inputs):
        block = load(load(program, INPUT_BLOCKS), index)
        position, rows, times = load(block, POSITION), load(block, ROWS), load(block, TIMES)
        size = _before(times, position, rows, horizon) - position
        size = min(size, most)
        if mine:
            _aim(block, position, size)
        store(block, POSITION, position + size)
        more |= position + size < rows
    store(load(program, FRONTIER), 0, frontier if more != 0 else FOREVER)
    store(program, MORE, more)


@kernel
def _before(times: int, low: int, high: int, horizon: int) -> int:
    """Return how many times are less than the horizon; they are in order."""
    while low < high:
        middle = (low + high) >> 1
        if load(times, middle) < horizon:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _aim(block: int, position: int, size: int) -> None:
    """Point an input's cells at its rows from `position` on."""
    store(load(block, SIZE), 0, size)
    store(load(block, TIME), 0, load(block, TIMES) + 8 * position)
    store(load(block, DIFF), 0, load(block, DIFFS) + 8 * position)
    for column in range(load(block, COLUMNS)):
        cell = load(load(block, CELLS), column)
        store(cell, 0, load(load(block, BASES), column) + load(load(block, WIDTHS), column) * position)


@kernel
def _collect(op: int) -> int:
    """Append the slice's answer to what the feed hands out."""
    size, collected = load(load(op, COLLECT_SIZE), 0), load(op, COLLECTED)
    for column in range(0 if load(op, DROP) != 0 else load(op, COLLECT_COLUMNS)):
        source = load(load(load(op, COLLECT_INPUTS), column), 0)
        target = load(load(op, COLLECT_OUT), column) + 8 * collected
        for at in range(size):
            store(target, at, load(source, at))
    store(op, COLLECTED, collected + size)
    return 0


@inline
def _scanned(status: int) -> int:
    if status == 0:
        return 0
    return WAIT if status == scan_kernel.WAITING else FAILED


@kernel
def _step(op: int) -> int:
    """Run one operator."""
    code = load(op, 0)
    if code == FILTER_RANGE:
        expressions.filter_range(op)
    elif code == FILTER_TRUE:
        expressions.filter_true(op)
    elif code == TAKE:
        expressions.take(op)
    elif code == ADD:
        expressions.add(op)
    elif code == SUBTRACT:
        expressions.subtract(op)
    elif code == MULTIPLY:
        expressions.multiply(op)
    elif code == EQUAL:
        expressions.equal(op)
    elif code == LESS:
        expressions.less(op)
    elif code == AND:
        expressions.both(op)
    elif code == OR:
        expressions.either(op)
    elif code == NEGATION:
        expressions.negation(op)
    elif code == COALESCE:
        expressions.coalesce(op)
    elif code == LOOKUP:
        expressions.lookup(op)
    elif code == MEMBER:
        expressions.member(op)
    elif code == CHOOSE:
        expressions.choose(op)
    elif code == FILL:
        expressions.fill(op)
    elif code == MARK:
        expressions.mark(op)
    elif code == PACK:
        expressions.pack(op)
    elif code == UNPACK:
        expressions.unpack(op)
    elif code == REFER:
        text.refer(op)
    elif code == REFER_NUMBERS:
        text.refer_numbers(op)
    elif code == NUMBER:
        return GROW if text.number(op) != 0 else 0
    elif code == MATCH:
        text.match(op)
    elif code == SUBSTRING:
        return FAILED if text.substring(op) != 0 else 0
    elif code == PREFIX:
        text.prefix(op)
    elif code == HASH:
        text.hashes(op)
    elif code == ROOM:
        return GROW if needs_rehash(load(op, KEYS), load(load(op, COMING), 0)) else 0
    elif code == INTERN:
        return GROW if intern(op) != 0 else 0
    elif code == INSERT:
        insert(Arrangement(op))
    elif code == SETTLE:
        return settle(Arrangement(load(op, ARRANGEMENT)))
    elif code == JOIN:
        return FAILED if join(Join(op)) != 0 else 0
    elif code == AGGREGATE:
        return FAILED if aggregate(op) != 0 else 0
    elif code == THRESHOLD:
        return FAILED if threshold(op) != 0 else 0
    elif code == MERGE:
        merge(op)
    elif code == CONSOLIDATE:
        return consolidate(op)
    elif code == WATCH:
        return watch(op)
    elif code == BUCKET:
        bucket(op)
    elif code == COLLECT:
        _collect(op)
    elif code == SEND:
        return WAIT if send(op) != 0 else 0
    elif code == RECEIVE:
        return WAIT if receive(load(op, EXCHANGE)) != 0 else 0
    elif code == COMPACT:
        compact(op)
    elif code == EXPAND:
        expand(op)
    elif code == SCAN:
        return _scanned(scan(op))
    elif code == ENTER:
        enter(LoopSource(op))
    elif code == ITERATE:
        return iterate(Iterate(op))
    elif code == MEET:
        return loop_join(LoopJoin(op))
    elif code == CLOSE:
        return buffer_updates(ReduceInput(op).reduce)
    elif code == REPEAT:
        return BACK
    elif code == INDEX:
        index_kernel.insert(op)
    elif code == SETTLE_INDEX:
        return index_kernel.settle(load(op, INDEXED))
    elif code == EXTEND:
        return FAILED if extend(op) != 0 else 0
    return 0
