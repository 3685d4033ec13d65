"""Exchange: moves the rows of a stream to the workers that need them, or deals rows that all workers have.

If rows are dealt, each worker selects those that it owns, so that nothing moves. The rows of an input are the same at
all workers, and in the same order: each worker finds the owners of a share of them, or of the rows of its slice that a
filter has chosen, and sends row numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from deltamark.dataflow.builder.program import BlockAddress, CellAddress, VectorAddress
from deltamark.dataflow.builder.stream import Selection, Stream
from deltamark.dataflow.builder.texts import TextCells, hashes, numbers_of, texts_of_numbers
from deltamark.dataflow.kernels.core.blocks import (
    NONE,
    Array,
    Array16,
    Array32,
    Cell,
    Signed8,
    Vector,
    Vectors,
    vector_at,
)
from deltamark.dataflow.kernels.core.dispatcher import kernel
from deltamark.dataflow.kernels.core.intrinsics import CHUNK, prefetch_ahead
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS
from deltamark.dataflow.kernels.core.steps import step
from deltamark.dataflow.kernels.parallel.exchange import RECEIVE, SEND, hash_owners
from deltamark.dataflow.kernels.parallel.key_partition import common_block, owner_of, owner_of_block, reciprocal
from deltamark.dataflow.kernels.parallel.meeting import (
    Meeting,
    complete,
    may_read,
    may_write,
    own_message,
    publish,
    written_by,
)
from deltamark.dataflow.kernels.program import InputBlock
from deltamark.dataflow.kernels.status import DONE, WAITING
from deltamark.dataflow.operators.distribution import Distribution, Exchange
from deltamark.dataflow.operators.linear import selected_rows
from deltamark.dataflow.types import FOREVER, Type

MIN_DIVIDED_ROWS = 512
"""The least rows for each worker of which each worker finds the owners of a share. Not measured."""


def exchange(stream: Stream, origin: Distribution, delivery: Exchange, columns: Mapping[str, Type]) -> Stream:
    """Append the sending and the receiving of a stream's columns. origin: the distribution of the stream.

    A text travels as its address at the sender, where all workers can read it until the next feed.
    """
    program, size = stream.program, stream.size
    texts = {name: texts_of_numbers(program, size, stream.column(name)) for name in columns if _is_text(columns, name)}
    keys = [hashes(program, size, texts[name]) if name in texts else stream.column(name) for name in delivery.by]
    inputs = [stream.time, stream.diff]
    for name in columns:
        inputs += [texts[name].start, texts[name].length] if name in texts else [stream.column(name)]
    received = Stream(program, program.cell(), program.vector(), program.vector(), lambda name: received.computed[name])
    out = [received.time, received.diff, *(program.vector() for _ in inputs[2:])]
    _append(stream, origin, delivery, keys, _ExchangeCells(inputs, received.size, out))
    cells = iter(out[2:])
    for name in columns:
        is_text = name in texts
        text = TextCells(next(cells), next(cells)) if is_text else None
        received.computed[name] = next(cells) if text is None else numbers_of(program, received.size, text)
    return received


def owned_rows(stream: Stream, delivery: Exchange, types: Mapping[str, Type], *, is_divided: bool) -> Stream:
    """Append the selection of the rows that this worker owns, from a stream that all workers have.

    is_divided: whether the rows have the same order at all workers.
    """
    program, selected, size = stream.program, stream.program.vector(), stream.program.cell()
    names = delivery.by if delivery.to == "owner" else ()
    in_blocks = delivery.low is not None
    keys = [stream.stored(name) if in_blocks else (hashable(stream, name, types[name]), 8) for name in names]
    program.add_meeting(
        DEAL, size=stream.size, keys=len(keys),
        least_divided=MIN_DIVIDED_ROWS * program.workers if is_divided else FOREVER,
        key_columns=program.table([cell for cell, _ in keys] or [program.zeros]), width=keys[0][1] if keys else 8,
        low=delivery.low or 0, reciprocal=reciprocal(program.workers) if in_blocks else 0, owners=program.vector(),
        out=selected, out_size=size,
    )  # fmt: skip
    rows = Selection(stream, selected, size)
    return replace(selected_rows(rows), dealt=rows)


def owned_of_selected(
    chosen: Stream, whole: Stream, input_: BlockAddress, delivery: Exchange, types: Mapping[str, Type]
) -> Stream:
    """Append the selection of the rows of an input that this worker owns, of those that some worker has chosen.

    chosen: the rows that this worker has chosen of its slice; whole: the input with the rows of all workers.
    """
    program, selected, size = chosen.program, chosen.program.vector(), chosen.program.cell()
    assert chosen.chosen is not None
    in_blocks = delivery.low is not None
    program.add_meeting(
        DEAL, size=whole.size, keys=len(delivery.by), least_divided=0,
        key_columns=program.table([hashable(chosen, name, types[name]) for name in delivery.by]), width=8,
        low=delivery.low or 0, reciprocal=reciprocal(program.workers) if in_blocks else 0, owners=program.vector(),
        input=input_, chosen=chosen.chosen.selected, chosen_size=chosen.size, out=selected, out_size=size,
    )  # fmt: skip
    rows = Selection(whole, selected, size)
    return replace(selected_rows(rows), dealt=rows)


def hashable(stream: Stream, name: str, type_: Type) -> VectorAddress:
    """Return the cell of a column by which workers can agree on owners: texts have other numbers at each."""
    if type_.kind != "text":
        return stream.column(name)
    return hashes(stream.program, stream.size, texts_of_numbers(stream.program, stream.size, stream.column(name)))


def _is_text(columns: Mapping[str, Type], name: str) -> bool:
    return columns[name].kind == "text"


@dataclass(frozen=True)
class _ExchangeCells:
    """The cells that an exchange reads, and those that it writes: its size and its columns."""

    inputs: Sequence[VectorAddress]
    size: CellAddress
    out: Sequence[VectorAddress]


def _append(
    stream: Stream, origin: Distribution, delivery: Exchange, keys: Sequence[VectorAddress], columns: _ExchangeCells
) -> None:
    program, workers, reserve = stream.program, stream.program.workers, stream.program.memory.reserve
    block = program.add_meeting(
        SEND, size=stream.size, columns=len(columns.inputs),
        inputs=program.table(columns.inputs), keys=len(keys) if delivery.to == "owner" else 0,
        key_columns=program.table(keys), low=delivery.low or 0,
        reciprocal=0 if delivery.low is None else reciprocal(workers),
        senders=1 if origin.kind == "first" else workers, receivers=1 if delivery.to == "first" else workers,
        in_order=int(origin.in_order), rows=reserve(UNBOUNDED_WORDS), counts=program.words(workers),
        owners=reserve(UNBOUNDED_WORDS), joined=reserve(UNBOUNDED_WORDS), parts=program.words(2 * workers),
        places=program.words(2 * workers), out_size=columns.size, out=program.table(columns.out),
    )  # fmt: skip
    program.add(RECEIVE, exchange=block)


class DealBlock(Meeting):
    """Selects the rows that this worker owns."""

    size: Cell
    keys: int
    """The number of key columns by which rows are partitioned; 0 if the first worker owns all rows."""
    key_columns: Vectors
    width: int
    """Bytes of a value of the only key column."""
    low: int
    reciprocal: int
    """Not 0 if the keys from `low` up are partitioned in blocks: see `key_partition`."""
    least_divided: int
    """The least rows of which each worker finds the owners of a share only."""
    has_published: int = 0
    """Whether the rows of this worker's share are published: their number for each owner, then the lists."""
    owners: Vector
    """Scratch."""
    input: int = 0
    """If each worker has chosen rows of its slice: the input. The key columns have the keys of these rows."""
    chosen: int = 0
    """The cell of the numbers of the chosen rows in the slice."""
    chosen_size: Cell = NONE
    out: Vector
    out_size: Cell


@kernel
def deal(op: DealBlock) -> int:
    """Select the rows whose owner is this worker."""
    size, worker, workers = op.size, op.worker, op.workers
    if op.keys == 0:
        out = op.out
        kept = size if worker == 0 else 0
        for at in range(kept):
            out[at] = at
        op.out_size = kept
        return DONE
    if size == 0:  # other workers, which had no rows before, are idle
        op.out_size = 0
        return DONE
    if size < op.least_divided:
        _find_owners(op, 0, size)
        _select_own(op, size, worker)
        return DONE
    if op.has_published == 0:
        if not may_write(op, workers):
            return WAITING
        if op.input != 0:
            _list_chosen(op, own_message(op), workers)
        else:
            start, stop = size * worker // workers, size * (worker + 1) // workers
            _list_share(op, start, stop, own_message(op), workers)
        publish(op)
        op.has_published = 1
    if not may_read(op, workers):
        return WAITING
    _join_lists(op, worker, workers)
    op.has_published = 0
    complete(op)
    return DONE


@kernel
def _find_owners(op: DealBlock, start: int, stop: int) -> None:
    """Find the owners of a range of rows, by loops without branches that process several rows at once."""
    width, keys = op.width, op.key_columns[0]
    if op.reciprocal == 0:
        hash_owners(op.key_columns, op.keys, op.workers, op.owners, start, stop)
    elif width == 8:
        _find_owners_by(op, keys, start, stop)
    elif width == 4:
        _find_owners_by(op, Array32(keys), start, stop)
    elif width == 2:
        _find_owners_by(op, Array16(keys), start, stop)
    else:
        _find_owners_by(op, Signed8(keys), start, stop)


@kernel
def _find_owners_by(op: DealBlock, keys: Array, start: int, stop: int) -> None:
    low, workers, inverse, owners = op.low, op.workers, op.reciprocal, op.owners
    for at in range(start, stop):
        owners[at] = owner_of(keys[at], low, workers, inverse)


@kernel
def _select_own(op: DealBlock, size: int, worker: int) -> None:
    owners, out, kept = op.owners, op.out, 0
    for at in range(size):
        out[kept] = at
        kept += owners[at] == worker
    op.out_size = kept


@kernel
def _list_share(op: DealBlock, start: int, stop: int, message: Array, workers: int) -> None:
    """List the rows of a share by their owners, in lists that are as long as the share, behind this length.

    Rows that arrive in the order of their keys have one owner for many successive rows, so chunks are listed at once.
    """
    share, lists, width = stop - start, Array32(message[workers + 1 :]), op.width
    for owner in range(workers):
        message[owner] = 0
    message[workers] = share
    for chunk in range(start, stop, CHUNK):
        end = min(chunk + CHUNK, stop)
        prefetch_ahead(op.key_columns[0].address + chunk * width, width)
        owner = _common_owner(op, chunk, end)
        if owner < 0:
            _find_owners(op, chunk, end)
            _list_rows(op.owners, chunk, end, lists, share, message, workers)
            continue
        place = message[owner]
        target = lists[owner * share + place :]
        for at in range(chunk, end):
            target[at - chunk] = at
        message[owner] = place + end - chunk


@kernel
def _list_chosen(op: DealBlock, message: Array, workers: int) -> None:
    """List the chosen rows by their owners, as rows of the superstep."""
    size, chosen, block = op.chosen_size, vector_at(op.chosen), InputBlock(op.input)
    _list_share(op, 0, size, message, workers)
    first, lists = block.own - block.first, Array32(message[workers + 1 :])
    for owner in range(workers):
        rows = lists[owner * size :]
        for at in range(message[owner]):
            rows[at] = chosen[rows[at]] + first


@kernel
def _common_owner(op: DealBlock, start: int, stop: int) -> int:
    """Return the owner of a range of rows whose keys lie in one block; -1 if they do not, or have no blocks."""
    width, keys = op.width, op.key_columns[0]
    if op.reciprocal == 0:
        return -1
    if width == 8:
        block = common_block(keys, op.low, start, stop)
    elif width == 4:
        block = common_block(Array32(keys), op.low, start, stop)
    elif width == 2:
        block = common_block(Array16(keys), op.low, start, stop)
    else:
        block = common_block(Signed8(keys), op.low, start, stop)
    return owner_of_block(block, op.workers, op.reciprocal) if block >= 0 else -1


@kernel
def _list_rows(owners: Array, start: int, stop: int, lists: Array32, share: int, counts: Array, workers: int) -> None:
    """List a range of rows by their owners, of two workers without branches."""
    if workers == 2:
        zeros, ones = counts[0], counts[1]
        for at in range(start, stop):
            owner = owners[at]
            lists[share + ones if owner != 0 else zeros] = at
            ones += owner
            zeros += 1 - owner
        counts[0], counts[1] = zeros, ones
        return
    for at in range(start, stop):
        owner = owners[at]
        place = counts[owner]
        lists[owner * share + place] = at
        counts[owner] = place + 1


@kernel
def _join_lists(op: DealBlock, worker: int, workers: int) -> None:
    """Select the rows that are listed for this worker, share by share."""
    out, kept = op.out, 0
    for sender in range(workers):
        message = written_by(op, sender)
        rows, target = Array32(message[workers + 1 :])[message[workers] * worker :], out[kept:]
        listed = message[worker]
        for at in range(listed):
            target[at] = rows[at]
        kept += listed
    op.out_size = kept


DEAL = step(deal, idle=("size", "out_size"))
