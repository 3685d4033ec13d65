"""Aggregate: the sums of each group, whose changes are emitted as rows.

At the end of a time a changed group's old row is retracted and its new row is inserted. A group has a row while its
number of input rows is not zero; the id of its key is free again once all of its numbers are zero.

A time saves the groups that it touches, and compares them when it ends. A time that a slice leaves open stays open.
Most times touch one group: those save nothing.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array, Arrays, Block, Cell, Inline, Operator, Vector, Vectors
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import add_product, prefetch
from deltamark.dataflow.kernels.core.steps import step
from deltamark.dataflow.kernels.groups.double_moments import add_values, moment
from deltamark.dataflow.kernels.groups.double_sums import add_double, rounded_sum
from deltamark.dataflow.kernels.hashing.hash_map import KeyMap, add, key_of, prefetch_entry, remove
from deltamark.dataflow.kernels.status import FAILED

AHEAD = 16
"""The number of updates, or of touched groups, ahead at which the state of a group is prefetched. Not measured."""


class Group(Block):
    """The state of a group: 128-bit numbers, low word first, so that no sum wraps unnoticed."""

    place: int
    """1 + its place among the touched groups, or 0."""
    padding: int
    """With it, the state of a group with two sums fills a cache line."""
    numbers: Inline
    """The number of rows, then the sums, then the exact sums and moments of doubles: see `double_sums` and
    `double_moments`. One of these is stored twice, and its number is the rounded one as of the end of a time."""


class AggregateBlock(Operator):
    """The sums of each group."""

    size: Cell
    time: Vector
    diff: Vector
    key: Vector
    keys: KeyMap
    frontier: Cell
    sums: int
    """The number of sums."""
    values: Vectors
    """For each sum the summed column, or no address if it counts rows."""
    state: Array
    """A `Group` for each key id."""
    saved: Array
    """The touched groups as they were before `open_time`."""
    touched: Array
    """The key ids of the groups that `open_time` has touched."""
    touched_count: int = 0
    open_time: int = 0
    out_size: Cell
    out_time: Vector
    out_diff: Vector
    out_key: Vector
    out: Vectors
    """For each sum its column."""
    bounds: Array
    """For each sum the least and the largest value of its column."""
    slice_values: Arrays
    slice_out: Arrays
    """Scratch: the arrays of `values` and `out` during a slice; no address in `slice_values` for doubles."""
    doubles: int = 0
    """The number of sums and moments of doubles."""
    double_words: int = 0
    """The words of their exact states."""
    double_sums: Array
    """For each of them its place among the sums, the first word of its state behind these, and its function."""
    others: Vectors
    """For each of them its second column, or no address if it has one."""
    slice_doubles: Arrays
    """Scratch: the arrays of the doubles during a slice, two for each of them."""
    scratch: Array
    """Scratch of `double_moments.moment`."""
    live: int = 0
    """The number of groups that have a row."""
    error_group: int = 0
    """The key id whose number of rows is negative, or one of whose sums is out of bounds, after a failure."""


PLACE, STATE, FUNCTION, DOUBLE_SUM_WORDS = range(4)
"""The words of an entry of `double_sums`. The function is that of a moment, or SUM."""
SUM = -1


@inline
def group_words(sums: int, double_words: int = 0) -> int:
    """Return the size of a group's state."""
    return 2 * sums + 4 + double_words


@inline
def group_at(groups: Array, words: int, index: int) -> Group:
    return Group(groups[words * index :].address)


@kernel
def aggregate(op: AggregateBlock) -> int:
    """Add the updates of the slice, and emit what the times that end have changed."""
    resolve(op)
    size, times, diffs, key, keys = op.size, op.time, op.diff, op.key, op.keys
    sums, values, out, frontier = op.sums, op.slice_values, op.slice_out, op.frontier
    state, saved, touched = op.state, op.saved, op.touched
    doubles = op.doubles
    words, hashed, low = group_words(sums, op.double_words), keys.hashed != 0, keys.low
    opened, now, rows, live, status = op.touched_count, op.open_time, 0, op.live, 0
    for at in range(size):
        ahead = key[min(at + AHEAD, size - 1)]
        if hashed:
            prefetch_entry(keys, ahead)
        else:
            prefetch(group_at(state, words, ahead - low).address)
        time = times[at]
        if time != now:
            if opened > 0:
                rows, live, status = end_time(op, out, rows, live, opened)
                opened = 0
                if status != 0:
                    break
            now = time
            op.open_time = now
        key_id = add(keys, key[at]) if hashed else key[at] - low  # after the end of a time, which frees ids
        group = group_at(state, words, key_id)
        alone = opened == 0 and doubles == 0 and (times[at + 1] != time if at + 1 < size else time < frontier)
        if alone:
            rows, live, status = _apply_lone_row(op, rows, live, group, key_id, at)
            if status != 0:
                break
        else:
            if group.place == 0:
                opened = save(group, group_at(saved, words, opened), words, touched, key_id, opened)
            _add_row(group, values, sums, at, diffs[at])
            if doubles > 0:
                _add_doubles(op, group, at, diffs[at])
    if status == 0 and opened > 0 and now < frontier:
        rows, live, status = end_time(op, out, rows, live, opened)
        opened = 0
    op.out_size = rows
    op.touched_count = opened
    op.live = live
    return status


@kernel
def resolve(op: AggregateBlock) -> None:
    """Load the addresses of the arrays of this slice from their cells."""
    values, out = Array(op.values.address), Array(op.out.address)
    slice_values, slice_out = op.slice_values, op.slice_out
    for index in range(op.sums):
        slice_values[index] = _array_of(values[index])
        slice_out[index] = Array(Array(out[index])[0])
    for index in range(op.doubles):
        place = op.double_sums[DOUBLE_SUM_WORDS * index + PLACE]
        first, other = slice_values[place], _array_of(Array(op.others.address)[index])
        op.slice_doubles[2 * index] = first
        op.slice_doubles[2 * index + 1] = other if other.address != 0 else first
        slice_values[place] = Array(0)


@inline
def _array_of(cell: int) -> Array:
    """Return the array whose address a cell holds; no address if there is no cell."""
    return Array(0 if cell == 0 else Array(cell)[0])


@inline
def save(group: Group, saved: Group, words: int, touched: Array, key_id: int, opened: int) -> int:
    """Save a group that the open time touches for the first time; return the number of touched groups."""
    for word in range(words - 2):
        saved.numbers[word] = group.numbers[word]
    touched[opened] = key_id
    group.place = opened + 1
    return opened + 1


@inline
def _add_row(group: Group, values: Arrays, sums: int, at: int, diff: int) -> None:
    """Add an update to the numbers of its group."""
    numbers = group.numbers
    add_product(numbers.address, diff, 1)
    for index in range(sums):
        column = values[index]
        if column.address != 0:
            add_product(numbers[2 * index + 2 :].address, diff, column[at])


@inline
def _double_state(op: AggregateBlock, group: Group, index: int) -> Array:
    """Return the exact state of a sum or a moment of doubles."""
    return group.numbers[2 * op.sums + 2 + op.double_sums[DOUBLE_SUM_WORDS * index + STATE] :]


@kernel
def _add_doubles(op: AggregateBlock, group: Group, at: int, diff: int) -> None:
    """Add the doubles of an update to the exact sums of its group."""
    for index in range(op.doubles):
        state, function = _double_state(op, group, index), op.double_sums[DOUBLE_SUM_WORDS * index + FUNCTION]
        value = op.slice_doubles[2 * index][at]
        if function == SUM:
            add_double(state, value, diff)
        else:
            add_values(state, function, value, op.slice_doubles[2 * index + 1][at], diff)


@kernel
def _round_doubles(op: AggregateBlock, group: Group) -> None:
    """Round the exact sums and moments of a group."""
    numbers = group.numbers
    for index in range(op.doubles):
        state, function = _double_state(op, group, index), op.double_sums[DOUBLE_SUM_WORDS * index + FUNCTION]
        place = 2 * op.double_sums[DOUBLE_SUM_WORDS * index + PLACE] + 2
        number = rounded_sum(state) if function == SUM else moment(state, function, op.scratch)
        numbers[place] = number
        numbers[place + 1] = number >> 63


@inline
def _apply_lone_row(
    op: AggregateBlock, rows: int, live: int, group: Group, key_id: int, at: int
) -> tuple[int, int, int]:
    """Apply the only update of a time, and emit what it changes.

    Return the size of the output, the number of live groups, and a status.
    """
    numbers, diff, bounds, out, values = group.numbers, op.diff[at], op.bounds, op.slice_out, op.slice_values
    size = numbers[0]
    add_product(numbers.address, diff, 1)
    had_row, has_row = size != 0, numbers[0] != 0
    old, new = rows, rows + had_row
    changed, outside = had_row != has_row, False
    for index in range(op.sums):
        column, before, number = values[index], size, numbers
        if column.address != 0:
            number = numbers[2 * index + 2 :]
            before = number[0]
            add_product(number.address, diff, column[at])
        after, result = number[0], out[index]
        result[old] = before
        result[new] = after
        changed |= after != before
        outside |= _is_outside(number, bounds, index)
    if numbers[1] != 0 or (has_row and outside):
        op.error_group = key_id
        return rows, live, FAILED
    if changed:
        key, now = key_of(op.keys, key_id), op.open_time
        if had_row:
            _begin_row(op, old, key, now, -1)
        if has_row:
            _begin_row(op, new, key, now, 1)
        else:
            _forget(op, key_id, group)
        rows += had_row + has_row
    return rows, live + has_row - had_row, 0


@kernel
def end_time(op: AggregateBlock, out: Arrays, rows: int, live: int, opened: int) -> tuple[int, int, int]:
    """Emit what the open time has changed; return the size of the output, the number of live groups, and a status."""
    sums, keys, now, values = op.sums, op.keys, op.open_time, Array(op.values.address)
    words = group_words(sums, op.double_words)
    for place in range(opened):
        prefetch(group_at(op.state, words, op.touched[min(place + AHEAD, opened - 1)]).address)
        key_id = op.touched[place]
        new, old = group_at(op.state, words, key_id), group_at(op.saved, words, place)
        new.place = 0
        if op.doubles > 0:
            _round_doubles(op, new)
        had_row, has_row = old.numbers[0] != 0, new.numbers[0] != 0
        key, overflow = key_of(keys, key_id), False
        if _differ(values, sums, old, new) or had_row != has_row:
            if had_row:
                _emit(op, out, rows, key, old, now, -1)
                rows += 1
            if has_row:
                overflow = _emit(op, out, rows, key, new, now, 1)
                rows += 1
        if overflow or new.numbers[1] != 0:
            op.error_group = key_id
            return rows, live, FAILED
        live += has_row - had_row
        if not has_row:
            _forget(op, key_id, new)
    return rows, live, 0


@inline
def _number(values: Array, group: Group, index: int) -> Array:
    """Return the number that is the value of a sum, given the cells of the summed columns: no cell stands for a count.

    The cells decide, not the arrays of the slice: a slice without rows may have no arrays.
    """
    return group.numbers[(2 * index + 2 if values[index] != 0 else 0) :]


@inline
def _differ(values: Array, sums: int, old: Group, new: Group) -> bool:
    """Return whether two states of a group have different sums."""
    differ = False
    for index in range(sums):
        a, b = _number(values, old, index), _number(values, new, index)
        differ |= a[0] != b[0] or a[1] != b[1]
    return differ


@inline
def _emit(op: AggregateBlock, out: Arrays, at: int, key: int, group: Group, time: int, diff: int) -> bool:
    """Write an output row; return whether a sum is out of bounds."""
    _begin_row(op, at, key, time, diff)
    values, bounds, outside = Array(op.values.address), op.bounds, False
    for index in range(op.sums):
        number = _number(values, group, index)
        out[index][at] = number[0]
        outside |= _is_outside(number, bounds, index)
    return outside


@inline
def _begin_row(op: AggregateBlock, at: int, key: int, time: int, diff: int) -> None:
    """Write the time, the weight and the key of an output row."""
    op.out_time[at] = time
    op.out_diff[at] = diff
    op.out_key[at] = key


@inline
def _is_outside(number: Array, bounds: Array, index: int) -> bool:
    """Return whether a 128-bit sum is out of the bounds of its column."""
    low = number[0]
    return number[1] != low >> 63 or low < bounds[2 * index] or low > bounds[2 * index + 1]


@kernel
def _forget(op: AggregateBlock, key_id: int, group: Group) -> None:
    """Free the id of a group without rows, unless it has sums, as it may while weights of both signs are live."""
    for word in range(group_words(op.sums, op.double_words) - 2):
        if group.numbers[word] != 0:
            return
    remove(op.keys, key_of(op.keys, key_id))


AGGREGATE = step(aggregate, idle=("size", "touched_count", "out_size"), ends_times=True)
