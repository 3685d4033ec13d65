"""Exchange: moves the rows of a stream to the workers that need them, or deals rows that all workers have.

If rows are dealt, each worker selects those that it owns, so that nothing moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from deltamark.dataflow.builder.program import BlockAddress, CellAddress, Program, VectorAddress
from deltamark.dataflow.builder.stream import Selection, Stream
from deltamark.dataflow.builder.texts import TextCells, hashes, numbers_of, texts_of_numbers
from deltamark.dataflow.kernels.core.blocks import Array32, Cell, SizedOperator, Vector, Vectors
from deltamark.dataflow.kernels.core.dispatcher import kernel
from deltamark.dataflow.kernels.core.intrinsics import CHUNK, prefetch_ahead
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS
from deltamark.dataflow.kernels.core.steps import step
from deltamark.dataflow.kernels.parallel.exchange import LINE, RECEIVE, SEND, SLOTS, ExchangeBlock, hash_owners
from deltamark.dataflow.kernels.parallel.key_partition import owner_of, reciprocal
from deltamark.dataflow.operators.distribution import Distribution, Exchange
from deltamark.dataflow.operators.linear import selected_rows
from deltamark.dataflow.types import Type


@dataclass(frozen=True)
class Mailboxes:
    """The block of an exchange, and the addresses of its messages: SLOTS for each worker."""

    block: BlockAddress
    messages: tuple[int, ...]


def exchange(
    stream: Stream, origin: Distribution, delivery: Exchange, columns: Mapping[str, Type]
) -> tuple[Stream, Mailboxes]:
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
    mailboxes = _append(stream, origin, delivery, keys, _ExchangeCells(inputs, received.size, out))
    cells = iter(out[2:])
    for name in columns:
        is_text = name in texts
        text = TextCells(next(cells), next(cells)) if is_text else None
        received.computed[name] = next(cells) if text is None else numbers_of(program, received.size, text)
    return received, mailboxes


def owned_rows(stream: Stream, delivery: Exchange, types: Mapping[str, Type]) -> Stream:
    """Append the selection of the rows that this worker owns, from a stream that all workers have."""
    program, selected, size = stream.program, stream.program.vector(), stream.program.cell()
    names = delivery.by if delivery.to == "owner" else ()
    in_blocks = delivery.low is not None
    keys = [stream.stored(name) if in_blocks else (hashable(stream, name, types[name]), 8) for name in names]
    program.add(
        DEAL, size=stream.size, keys=len(keys),
        key_columns=program.table([cell for cell, _ in keys] or [program.zeros]), width=keys[0][1] if keys else 8,
        low=delivery.low or 0, reciprocal=reciprocal(program.workers) if in_blocks else 0, worker=program.worker,
        workers=program.workers, owners=program.vector(), out=selected, out_size=size,
    )  # fmt: skip
    rows = Selection(stream, selected, size)
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
) -> Mailboxes:
    program, workers, reserve = stream.program, stream.program.workers, stream.program.memory.reserve
    messages = tuple(program.memory.share(UNBOUNDED_WORDS) for _ in range(SLOTS * workers))
    block = program.add(
        SEND, size=stream.size, columns=len(columns.inputs),
        inputs=program.table(columns.inputs), keys=len(keys) if delivery.to == "owner" else 0,
        key_columns=program.table(keys), low=delivery.low or 0,
        reciprocal=0 if delivery.low is None else reciprocal(workers), worker=program.worker, workers=workers,
        senders=1 if origin.kind == "first" else workers, receivers=1 if delivery.to == "first" else workers,
        in_order=int(origin.in_order), progress=program.memory.share(LINE * workers),
        messages=program.table(messages), rows=reserve(UNBOUNDED_WORDS), counts=program.words(workers),
        owners=reserve(UNBOUNDED_WORDS), joined=reserve(UNBOUNDED_WORDS), parts=program.words(2 * workers),
        places=program.words(2 * workers), out_size=columns.size, out=program.table(columns.out), spins=program.spins,
    )  # fmt: skip
    program.add(RECEIVE, exchange=block)
    return Mailboxes(block, messages)


def trim(program: Program, mailboxes: Mailboxes, limit: int) -> None:
    """Free the memory of this worker's messages if one was larger than a limit in bytes; all must have been read."""
    block = ExchangeBlock(mailboxes.block)
    if block.largest <= limit:
        return
    worker = program.read(program.worker)
    for message in mailboxes.messages[SLOTS * worker : SLOTS * (worker + 1)]:
        program.memory.clear(message, block.largest)
    block.largest = 0


class DealBlock(SizedOperator):
    """Selects the rows that this worker owns."""

    keys: int
    """The number of key columns by which rows are partitioned; 0 if the first worker owns all rows."""
    key_columns: Vectors
    width: int
    """Bytes of a value of the only key column: 8 or 4."""
    low: int
    reciprocal: int
    """Not 0 if the keys from `low` up are partitioned in blocks: see `key_partition`."""
    worker: Cell
    workers: int
    owners: Vector
    """Scratch."""
    out: Vector
    out_size: Cell


@kernel
def deal(op: DealBlock) -> None:
    """Select the rows whose owner is this worker, by loops without branches that process several rows at once."""
    size, worker, workers, out, kept = op.size, op.worker, op.workers, op.out, 0
    inverse, low, values = op.reciprocal, op.low, op.key_columns[0]
    narrow = Array32(values)
    if op.keys == 0:
        kept = size if worker == 0 else 0
        for at in range(kept):
            out[at] = at
    elif inverse == 0:
        hash_owners(op.key_columns, op.keys, workers, op.owners, size)
        owners = op.owners
        for at in range(size):
            out[kept] = at
            kept += owners[at] == worker
    else:
        owners = op.owners
        if op.width == 8:
            for chunk in range(0, size, CHUNK):
                prefetch_ahead(values[chunk:].address, 8)
                for at in range(chunk, min(chunk + CHUNK, size)):
                    owners[at] = owner_of(values[at], low, workers, inverse)
        else:
            for chunk in range(0, size, CHUNK):
                prefetch_ahead(narrow[chunk:].address, 4)
                for at in range(chunk, min(chunk + CHUNK, size)):
                    owners[at] = owner_of(narrow[at], low, workers, inverse)
        for at in range(size):
            out[kept] = at
            kept += owners[at] == worker
    op.out_size = kept


DEAL = step(deal, idle=("size", "out_size"))
