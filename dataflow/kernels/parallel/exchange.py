"""Exchange: the rows of a stream go to the worker that owns their key, to one worker, or to every worker.

In each superstep a sender writes one message with a part for each receiver. A receiver merges the parts of all senders
by time: see `meeting`.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array, Cell, Operator, Vectors
from deltamark.dataflow.kernels.core.dispatcher import kernel
from deltamark.dataflow.kernels.core.steps import step
from deltamark.dataflow.kernels.hashing.mixing import GOLDEN
from deltamark.dataflow.kernels.parallel.key_partition import owner_of, scaled
from deltamark.dataflow.kernels.parallel.meeting import (
    Meeting,
    complete,
    may_read,
    may_write,
    own_message,
    publish,
    written_by,
)
from deltamark.dataflow.kernels.status import DONE, WAITING


class ExchangeBlock(Meeting):
    """The rows of a stream, and their receivers."""

    size: Cell
    columns: int
    """The number of columns, of which the first two are the time and the diff."""
    inputs: Vectors
    keys: int
    """The number of key columns by which rows are partitioned; 0 if all rows go to each receiver."""
    key_columns: Vectors
    low: int
    reciprocal: int
    """Not 0 if the keys from `low` up are partitioned in blocks: see `key_partition`."""
    senders: int
    receivers: int
    """The first `senders` workers send, the first `receivers` workers receive."""
    in_order: int
    """Set if no row of a worker is earlier than a row of a worker before it."""
    rows: Array
    """For each receiver the list of its rows, each as long as the slice; `counts` of them are used."""
    counts: Array
    owners: Array
    joined: Array
    parts: Array
    """For each sender the size of its part and its address."""
    places: Array
    """Scratch: `owners`, `joined`, `places`."""
    out_size: Cell
    out: Vectors


@kernel
def send(op: ExchangeBlock) -> int:
    """Partition the slice, and publish it."""
    worker = op.worker
    if worker >= op.senders:
        return DONE
    if not may_write(op, op.receivers):
        return WAITING
    if op.keys == 0:
        _send_to_all(op)
    else:
        _partition(op)
    _write(op, worker, own_message(op))
    publish(op)
    return DONE


@kernel
def _send_to_all(op: ExchangeBlock) -> None:
    rows = op.rows
    for at in range(op.size):
        rows[at] = at
    op.counts[0] = op.size


@kernel
def _partition(op: ExchangeBlock) -> None:
    """List the rows of the slice by the worker that owns them, each list in the order of the slice."""
    size, workers, rows, counts, owners = op.size, op.workers, op.rows, op.counts, op.owners
    inverse, low, values = op.reciprocal, op.low, op.key_columns[0]
    if inverse == 0:
        hash_owners(op.key_columns, op.keys, workers, owners, 0, size)
    if workers > 2:
        for worker in range(workers):
            counts[worker] = 0
        for at in range(size):
            owner = owner_of(values[at], low, workers, inverse) if inverse != 0 else owners[at]
            place = counts[owner]
            rows[owner * size + place] = at
            counts[owner] = place + 1
        return
    zeros = ones = 0
    if inverse != 0:
        for at in range(size):
            owner = owner_of(values[at], low, 2, inverse)
            rows[size + ones if owner != 0 else zeros] = at
            ones += owner
            zeros += 1 - owner
    else:
        for at in range(size):
            owner = owners[at]
            rows[size + ones if owner != 0 else zeros] = at
            ones += owner
            zeros += 1 - owner
    counts[0] = zeros
    counts[1] = ones


@kernel
def hash_owners(key_columns: Vectors, keys: int, workers: int, owners: Array, start: int, stop: int) -> None:
    """Find the owner of each row in a range by a hash of its keys."""
    for key in range(keys):
        values, last = key_columns[key], key == keys - 1
        for at in range(start, stop):
            mixed = ((owners[at] if key > 0 else 0) ^ values[at]) * GOLDEN
            owners[at] = scaled(mixed, workers) if last else mixed ^ ((mixed >> 32) & 0xFFFFFFFF)


@kernel
def _write(op: ExchangeBlock, worker: int, message: Array) -> None:
    """Write a message: for each receiver the place and the size of its part, then the columns of the parts."""
    receivers, columns, to_all, slice_size = op.receivers, op.columns, op.keys == 0, op.size
    place, written = 2 * receivers, False
    for receiver in range(receivers):
        rows = op.rows[0 if to_all else receiver * slice_size :]
        size = op.counts[0 if to_all else receiver]
        message[2 * receiver] = place
        message[2 * receiver + 1] = size
        if receiver == worker or size == 0 or (to_all and written):
            continue
        written = True
        for column in range(columns):
            source, target = op.inputs[column], message[place + column * size :]
            for at in range(size):
                target[at] = source[rows[at]]
        if not to_all:
            place += columns * size


@kernel
def receive(op: ExchangeBlock) -> int:
    """Merge the parts that all senders have sent to this worker."""
    worker, senders = op.worker, op.senders
    if worker >= op.receivers:
        op.out_size = 0
        op.superstep += 1
        return DONE
    if not may_read(op, senders):
        return WAITING
    nonempty = total = 0
    for sender in range(senders):
        size = _find_part(op, worker, sender)
        total += size
        nonempty += size > 0
    if nonempty < 2 or op.in_order != 0:
        for column in range(op.columns):
            _join_column(op, worker, column, op.out[column])
    else:
        _pick(op, worker, total)
        for column in range(op.columns):
            _join_column(op, worker, column, op.joined)
            out, joined, picks = op.out[column], op.joined, op.owners
            for at in range(total):
                out[at] = joined[picks[at]]
    op.out_size = total
    complete(op)
    return DONE


@kernel
def _find_part(op: ExchangeBlock, worker: int, sender: int) -> int:
    """Find a sender's part, or the list of the worker's own rows; return its size."""
    part = op.parts[2 * sender :]
    if sender == worker:
        mine = worker if op.keys != 0 else 0
        part[0] = op.counts[mine]
        part[1] = op.rows[mine * op.size :].address
    else:
        message = written_by(op, sender)
        part[0] = message[2 * worker + 1]
        part[1] = message[message[2 * worker] :].address
    return part[0]


@kernel
def _join_column(op: ExchangeBlock, worker: int, column: int, target: Array) -> None:
    """Copy a column of all parts, one part after the other."""
    for sender in range(op.senders):
        size, data = op.parts[2 * sender], Array(op.parts[2 * sender + 1])
        if sender == worker:
            own = op.inputs[column]
            for at in range(size):
                target[at] = own[data[at]]
        else:
            source = data[column * size :]
            for at in range(size):
                target[at] = source[at]
        target = target[size:]


@kernel
def _pick(op: ExchangeBlock, worker: int, total: int) -> None:
    """Merge by time: for each row of the output, find its place among the rows of all parts, one after the other.

    The output's second column holds the times of the parts meanwhile.
    """
    senders, places, picks, times = op.senders, op.places, op.owners, op.out[1]
    _join_column(op, worker, 0, times)
    start = 0
    for sender in range(senders):
        places[2 * sender] = start
        start += op.parts[2 * sender]
        places[2 * sender + 1] = start
    if senders == 2:
        _pick_from_two(picks, times, places[2], total)
        return
    for out in range(total):
        first = -1
        for sender in range(senders):
            place = places[2 * sender]
            if place < places[2 * sender + 1] and (first < 0 or times[place] < times[places[2 * first]]):
                first = sender
        picks[out] = places[2 * first]
        places[2 * first] += 1


@kernel
def _pick_from_two(picks: Array, times: Array, middle: int, total: int) -> None:
    """Merge two parts without branches; the second begins at `middle`."""
    a, b, out = 0, middle, 0
    while a < middle and b < total:
        second = 1 if times[b] < times[a] else 0
        picks[out] = b if second != 0 else a
        a += 1 - second
        b += second
        out += 1
    for at in range(a, middle):
        picks[out + at - a] = at
    out += middle - a
    for at in range(b, total):
        picks[out + at - b] = at


class ReceiveBlock(Operator):
    """The second half of an exchange."""

    exchange: ExchangeBlock


SEND, RECEIVE = step(send), step(receive, field_of=(ReceiveBlock, "exchange"))
