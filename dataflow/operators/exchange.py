"""Exchange: a stream's rows go to the workers that must have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dataflow.kernels import exchange as kernel
from dataflow.kernels import run as vm
from dataflow.kernels.deal import reciprocal
from dataflow.kernels.memory import view
from dataflow.placement import Delivery, Placement
from dataflow.program import LOOSE, Program
from dataflow.stream import Stream


@dataclass(frozen=True)
class Exchange:
    """Its block, and its mails: SLOTS addresses a worker."""

    block: int
    mails: tuple[int, ...]


def exchange(stream: Stream, origin: Placement, delivery: Delivery, names: Sequence[str]) -> tuple[Stream, Exchange]:
    """Append the sending of a stream's columns, and their receiving."""
    program = stream.program
    keys = [stream.column(name) for name in delivery.by]
    inputs = [stream.time, stream.diff, *map(stream.column, names)]
    out, size = [program.vector() for _ in inputs], program.cell()
    workers, owned = program.workers, delivery.to == "owner"
    senders = 1 if origin.kind == "first" else workers
    receivers = 1 if delivery.to == "first" else workers
    mails = tuple(program.memory.share(LOOSE) for _ in range(kernel.SLOTS * workers))
    block = program.op(
        vm.SEND, stream.size, len(inputs), program.table(inputs), len(keys) if owned else 0, program.table(keys),
        delivery.low or 0, 0 if delivery.low is None else reciprocal(workers), program.worker, workers, senders,
        receivers, int(origin.in_order), 0,
        program.memory.share(kernel.LINE * workers), program.table(mails), program.memory.reserve(LOOSE),
        program.words(workers), program.memory.reserve(LOOSE), program.memory.reserve(LOOSE),
        program.words(2 * workers),
        program.words(2 * workers), size, program.table(out), program.spins, 0,
    )  # fmt: skip
    program.op(vm.RECEIVE, block)
    made = dict(zip(names, out[2:], strict=True))
    return Stream(program, size, out[0], out[1], made.__getitem__, made), Exchange(block, mails)


def trim(program: Program, made: Exchange, limit: int) -> None:
    """Give back what a worker's mails have grown to beyond a limit in bytes. Nobody may still read them."""
    words = view(made.block, kernel.MOST + 1)
    if words[kernel.MOST] <= limit:
        return
    worker = int(view(program.worker, 1)[0])
    for mail in made.mails[kernel.SLOTS * worker : kernel.SLOTS * (worker + 1)]:
        program.memory.clear(mail, int(words[kernel.MOST]))
    words[kernel.MOST] = 0
