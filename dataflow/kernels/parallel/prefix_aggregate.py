"""Prefix aggregate: an aggregate of few groups over a stream of which each worker has a slice, without moving rows.

Each worker adds up its slice by group and publishes the sums. Then it adds the sums of the slices before its own to the
state, emits the changes of its own slice, and adds the sums of the slices behind. So every worker has the whole state
at the end of a superstep. The changes of a time are emitted by the last worker that has rows of the time. For this,
sums come in two parts: those of the last time of a slice, which may continue in the next one, and those of the times
before.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array, Block, Cell, Inline
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import add_product, add_wide
from deltamark.dataflow.kernels.core.steps import step
from deltamark.dataflow.kernels.groups.aggregate import (
    AggregateBlock,
    Group,
    aggregate,
    end_time,
    group_at,
    group_words,
    resolve,
    save,
)
from deltamark.dataflow.kernels.parallel.meeting import (
    Meeting,
    complete,
    may_read,
    may_write,
    own_message,
    publish,
    written_by,
)
from deltamark.dataflow.kernels.status import WAITING

NEVER = -(2**62)


class SliceSums(Block):
    """The sums of a slice, which a worker publishes."""

    rows: int
    first_time: int
    last_time: int
    earlier_groups: int
    """The number of groups with rows before the last time."""
    last_groups: int
    """The number of groups with rows of the last time."""
    groups: Inline
    """A `SliceGroup` for each of the earlier groups, then for each of the last ones."""


class SliceGroup(Block):
    """The sums of a group in a part of a slice."""

    key_id: int
    numbers: Inline
    """As in `Group`."""


class PrefixAggregateBlock(Meeting):
    """An aggregate, and the sums that the workers exchange."""

    aggregate: AggregateBlock
    """The aggregate, whose frontier is the cell `until`."""
    frontier: Cell
    """The frontier of the superstep."""
    until: Cell
    """The time before which this worker emits changes."""
    has_published: int = 0
    """Whether the sums of this superstep are published. Each message is a `SliceSums`."""
    places: Array
    """Scratch: for each group 1 + its place in a part; zero between calls."""


@inline
def _slice_group_words(sums: int) -> int:
    return 2 * sums + 3


@kernel
def prefix_aggregate(op: PrefixAggregateBlock) -> int:
    """Publish the sums of the slice, and emit its changes once the sums of all workers are published."""
    workers = op.workers
    if op.has_published == 0:
        if not may_write(op, workers):
            return WAITING
        _sum_slice(op, op.aggregate, SliceSums(own_message(op).address))
        publish(op)
        op.has_published = 1
    if not may_read(op, workers):
        return WAITING
    status = _process_superstep(op, op.worker, workers)
    op.has_published = 0
    complete(op)
    return status


@inline
def _sums_of(op: PrefixAggregateBlock, worker: int) -> SliceSums:
    """Return the sums of a worker in this superstep."""
    return SliceSums(written_by(op, worker).address)


@kernel
def _sum_slice(op: PrefixAggregateBlock, of: AggregateBlock, slice_sums: SliceSums) -> None:
    """Write the sums of the slice."""
    size, times = of.size, of.time
    slice_sums.rows = size
    slice_sums.earlier_groups = 0
    slice_sums.last_groups = 0
    if size == 0:
        return
    last, start = times[size - 1], size - 1
    while start > 0 and times[start - 1] == last:
        start -= 1
    slice_sums.first_time = times[0]
    slice_sums.last_time = last
    resolve(of)
    earlier = _sum_part(op, of, slice_sums.groups, 0, start)
    slice_sums.earlier_groups = earlier
    last_part = slice_sums.groups[earlier * _slice_group_words(of.sums) :]
    slice_sums.last_groups = _sum_part(op, of, last_part, start, size)


@kernel
def _sum_part(op: PrefixAggregateBlock, of: AggregateBlock, part: Array, start: int, stop: int) -> int:
    """Write the sums of some rows; return the number of their groups."""
    key, diffs, low, sums, values = of.key, of.diff, of.keys.low, of.sums, of.slice_values
    places, groups, words = op.places, 0, _slice_group_words(sums)
    for at in range(start, stop):
        key_id = key[at] - low
        place = places[key_id]
        if place == 0:
            groups += 1
            place = groups
            places[key_id] = place
            _begin_group(part[(place - 1) * words :], key_id, words)
        numbers, diff = SliceGroup(part[(place - 1) * words :].address).numbers, diffs[at]
        add_product(numbers.address, diff, 1)
        for index in range(sums):
            column = values[index]
            if column.address != 0:
                add_product(numbers[2 * index + 2 :].address, diff, column[at])
    for place in range(groups):
        places[SliceGroup(part[place * words :].address).key_id] = 0
    return groups


@inline
def _begin_group(group: Array, key_id: int, words: int) -> None:
    group[0] = key_id
    for word in range(1, words):
        group[word] = 0


@kernel
def _process_superstep(op: PrefixAggregateBlock, worker: int, workers: int) -> int:
    """Process the slices of the superstep in order; return the status of the aggregate."""
    of, own, frontier = op.aggregate, _sums_of(op, worker), op.frontier
    first_with_rows, until, status = -1, NEVER, 0
    for other in range(workers):
        if _sums_of(op, other).rows > 0:
            if first_with_rows < 0:
                first_with_rows = other
            if other > worker and until == NEVER:
                until = _sums_of(op, other).first_time
    op.until = frontier if until == NEVER else until
    for other in range(worker):
        _add_slice(of, _sums_of(op, other))
    if own.rows > 0:
        if first_with_rows < worker and of.open_time != own.first_time:
            _close_time(of)
        status = aggregate(of) if own.earlier_groups > 0 else _emit_one_time(of, own)
    elif first_with_rows < 0 and worker == 0:
        status = aggregate(of)
    else:
        of.out_size = 0
    if status != 0:
        return status  # the state describes the error
    for other in range(worker + 1, workers):
        _add_slice(of, _sums_of(op, other))
    if of.open_time < frontier:
        _close_time(of)
    return status


@kernel
def _emit_one_time(of: AggregateBlock, own: SliceSums) -> int:
    """Emit the changes of a slice of one time, whose sums are known."""
    resolve(of)
    rows, status = 0, 0
    if of.touched_count > 0 and of.open_time != own.last_time:
        rows, status = _end_open_time(of, rows)
        if status != 0:
            return status  # the state describes the error
    _add_slice(of, own)
    if own.last_time < of.frontier:
        rows, status = _end_open_time(of, rows)
    of.out_size = rows
    return status


@kernel
def _end_open_time(of: AggregateBlock, rows: int) -> tuple[int, int]:
    """Emit what the open time has changed; return the size of the output, and a status."""
    rows, live, status = end_time(of, of.slice_out, rows, of.live, of.touched_count)
    of.touched_count = 0
    of.live = live
    return rows, status


@kernel
def _add_slice(of: AggregateBlock, slice_sums: SliceSums) -> None:
    """Add the sums of a slice to the state; then its last time is open, and the changes of those before are emitted."""
    if slice_sums.rows == 0:
        return
    if slice_sums.earlier_groups > 0 or of.open_time != slice_sums.first_time:
        _close_time(of)
    sums, state, saved, touched, live = of.sums, of.state, of.saved, of.touched, of.live
    words, own_words, earlier = group_words(sums), _slice_group_words(sums), slice_sums.earlier_groups
    for place in range(earlier):
        source = SliceGroup(slice_sums.groups[place * own_words :].address)
        group = group_at(state, words, source.key_id)
        live -= group.numbers[0] != 0
        _add_numbers(group, source, sums)
        live += group.numbers[0] != 0
    of.live = live
    of.open_time = slice_sums.last_time
    opened = of.touched_count
    for place in range(earlier, earlier + slice_sums.last_groups):
        source = SliceGroup(slice_sums.groups[place * own_words :].address)
        group = group_at(state, words, source.key_id)
        if group.place == 0:
            opened = save(group, group_at(saved, words, opened), words, touched, source.key_id, opened)
        _add_numbers(group, source, sums)
    of.touched_count = opened


@inline
def _add_numbers(group: Group, source: SliceGroup, sums: int) -> None:
    """Add the numbers of a group in a slice to its state."""
    for number in range(sums + 1):
        add_wide(group.numbers[2 * number :].address, source.numbers[2 * number :].address)


@kernel
def _close_time(of: AggregateBlock) -> None:
    """End the open time without emitting its changes, which another worker does."""
    words, live = group_words(of.sums), of.live
    for place in range(of.touched_count):
        group, saved = group_at(of.state, words, of.touched[place]), group_at(of.saved, words, place)
        group.place = 0
        live += (group.numbers[0] != 0) - (saved.numbers[0] != 0)
    of.touched_count = 0
    of.live = live


PREFIX_AGGREGATE = step(prefix_aggregate, ends_times=True)
