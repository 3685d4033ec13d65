"""Prefix aggregate: an aggregate whose whole state every worker keeps, although each has only a slice of the stream."""

from __future__ import annotations

from deltamark.dataflow.builder.program import Program
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS
from deltamark.dataflow.kernels.groups.aggregate import AggregateBlock
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.kernels.parallel import exchange
from deltamark.dataflow.kernels.parallel.prefix_aggregate import PrefixAggregateBlock


def prefix_aggregate(program: Program, code: int, kind: type[AggregateBlock], **fields: int) -> int:
    """Append a prefix aggregate over an aggregate, which is made of `fields`; return the aggregate's block."""
    memory, workers, until = program.memory, program.workers, program.cell()
    block = program.block(kind, opcode=code, **fields | {"frontier": until})
    mails = [memory.share(UNBOUNDED_WORDS) for _ in range(exchange.SLOTS * workers)]
    program.add(
        Opcode.PREFIX_AGGREGATE, PrefixAggregateBlock, aggregate=block, worker=program.worker, workers=workers,
        frontier=program.frontier, until=until, post=memory.share(exchange.LINE * workers), mails=program.table(mails),
        places=memory.reserve(UNBOUNDED_WORDS), spins=program.spins,
    )  # fmt: skip
    return block
