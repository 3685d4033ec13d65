"""Exchange: a stream's rows go to the workers that must have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deltamark.dataflow.codegen.columns import Stream
from deltamark.dataflow.codegen.memory_layout import UNBOUNDED_WORDS
from deltamark.dataflow.codegen.program import Program
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.kernels.parallel import exchange as kernel
from deltamark.dataflow.kernels.parallel.key_partition import reciprocal
from deltamark.dataflow.kernels.program import LateBlock
from deltamark.dataflow.operators.text import Places, hashed, numbered, places_of_numbers
from deltamark.dataflow.plan.distribution import Distribution, Exchange
from deltamark.dataflow.types import Type


@dataclass(frozen=True)
class Mailboxes:
    """The block of an exchange, and its mailboxes: SLOTS addresses per worker."""

    block: int
    mails: tuple[int, ...]


def exchange(
    stream: Stream, origin: Distribution, delivery: Exchange, columns: Mapping[str, Type]
) -> tuple[Stream, Mailboxes]:
    """Append the sending of a stream's columns, and their receiving.

    A text travels as the place where its sender has it, which all can read until the next feed.
    """
    program = stream.program
    texts = {name: _places(stream, name) for name, type_ in columns.items() if type_.kind == "text"}
    keys = [hashed(program, stream.size, texts[name]) if name in texts else stream.column(name) for name in delivery.by]
    inputs = [stream.time, stream.diff]
    for name in columns:
        inputs += [texts[name].start, texts[name].length] if name in texts else [stream.column(name)]
    out, size = [program.vector() for _ in inputs], program.cell()
    made = Mailboxes(*_append(program, stream.size, origin, delivery, keys, inputs, size, out))
    arrived = Stream(program, size, out[0], out[1], lambda name: arrived.made[name])
    rest = iter(out[2:])
    for name in columns:
        arrived.made[name] = numbered(program, size, Places(next(rest), next(rest))) if name in texts else next(rest)
    return arrived, made


def _places(stream: Stream, name: str) -> Places:
    return places_of_numbers(stream.program, stream.size, stream.column(name))


def _append(  # noqa: PLR0913, PLR0917 (the fields of a block)
    program: Program,
    rows: int,
    origin: Distribution,
    delivery: Exchange,
    keys: list[int],
    inputs: list[int],
    size: int,
    out: list[int],
) -> tuple[int, tuple[int, ...]]:
    workers, reserve = program.workers, program.memory.reserve
    senders = 1 if origin.kind == "first" else workers
    receivers = 1 if delivery.to == "first" else workers
    inverse = 0 if delivery.low is None else reciprocal(workers)
    mails = tuple(program.memory.share(UNBOUNDED_WORDS) for _ in range(kernel.SLOTS * workers))
    block = program.add(
        Opcode.SEND, kernel.ExchangeBlock, size=rows, columns=len(inputs), inputs=program.table(inputs),
        keys=len(keys) if delivery.to == "owner" else 0, key_columns=program.table(keys), low=delivery.low or 0,
        reciprocal=inverse, worker=program.worker, workers=workers, senders=senders, receivers=receivers,
        in_order=int(origin.in_order), rounds=program.memory.share(kernel.LINE * workers),
        messages=program.table(mails), rows=reserve(UNBOUNDED_WORDS), counts=program.words(workers),
        owners=reserve(UNBOUNDED_WORDS),
        joined=reserve(UNBOUNDED_WORDS), parts=program.words(2 * workers), places=program.words(2 * workers),
        out_size=size,
        out=program.table(out), spins=program.spins,
    )  # fmt: skip
    program.add(Opcode.RECEIVE, LateBlock, block=block)
    return block, mails


def trim(program: Program, made: Mailboxes, limit: int) -> None:
    """Give back what a worker's mails have grown to beyond a limit in bytes. Nobody may still read them."""
    block = kernel.ExchangeBlock(made.block)
    if block.largest <= limit:
        return
    worker = int(view(program.worker, 1)[0])
    for mail in made.mails[kernel.SLOTS * worker : kernel.SLOTS * (worker + 1)]:
        program.memory.clear(mail, block.largest)
    block.largest = 0
