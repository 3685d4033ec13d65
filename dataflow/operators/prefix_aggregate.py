"""Scan: an aggregate that each worker keeps as a whole, of a stream that each has a slice of."""

from __future__ import annotations

from deltamark.dataflow.codegen.program import LOOSE, Program
from deltamark.dataflow.kernels import interpreter as vm
from deltamark.dataflow.kernels.groups import aggregate as sums_kernel
from deltamark.dataflow.kernels.parallel import exchange as mail_kernel


def scan(program: Program, code: int, *fields: int) -> int:
    """Append the scan that runs an aggregate, given its opcode and fields; return the aggregate's block."""
    words, until = [code, *fields], program.cell()
    words[sums_kernel.FRONTIER] = until
    block, workers = program.table(words), program.workers
    mails = program.table([program.memory.share(LOOSE) for _ in range(mail_kernel.SLOTS * workers)])
    post, index = program.memory.share(mail_kernel.LINE * workers), program.memory.reserve(LOOSE)
    program.op(
        vm.SCAN, block, program.worker, workers, program.frontier, until, 0, 0, post, mails, index, program.spins
    )
    return block
