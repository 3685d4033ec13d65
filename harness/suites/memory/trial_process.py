"""The process of a trial: it runs a cell once, checks the output, and replies with figures.

    python -m deltamark.harness.suites.memory.trial_process < REQUEST > REPLY

It is a new process, so that all of its memory counts. If the engine is a program, that program alone is in the group
with the limit, and this process is outside.
"""

from __future__ import annotations

import os
import pickle
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workloads.registry import workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.oracle import Answers
from deltamark.harness.engines.external import program
from deltamark.harness.engines.registry import capabilities
from deltamark.harness.measure.client import CellReply, WrongError
from deltamark.harness.measure.runs import FIRST_ROUNDS, checked_run, load_code, warm_up
from deltamark.harness.results.record import Figures


@dataclass(frozen=True)
class TrialRequest:
    """The work of a trial. launcher: the words before the command of a program that is to run in the group."""

    cell: Cell
    answers: Answers
    data: Path
    launcher: tuple[str, ...]


def reply_to(request: TrialRequest) -> CellReply:
    """Run the cell of a request; return figures, or the reason why there are none.

    opened_bytes: the memory of the process of the engine before the first batch.
    """
    cell, dataset = request.cell, Dataset.open(request.data)
    work = workload(dataset, cell.workload)
    capabilities(cell.engine)  # a program says what it can do in a process of its own, outside the group
    program.launcher[:] = request.launcher
    try:
        if not request.launcher:
            small = cell.but(logical=1, physical=FIRST_ROUNDS)
            (warm_up if capabilities(cell.engine).has_session else load_code)(small, dataset, work)
        run, check = checked_run(cell, request.answers, dataset, work)
    except (WrongError, DeltamarkError) as error:
        return CellReply.of(error)
    figures: Figures = {
        "seconds": [run.seconds], "opened_bytes": [run.opened_bytes], "state_rows": [run.state_rows],
        "state_bytes": [run.state_bytes],
    }  # fmt: skip
    return CellReply(digest=check.digest, figures=figures)


if __name__ == "__main__":
    output = os.dup(1)
    os.dup2(2, 1)  # the output is the reply alone
    with os.fdopen(output, "wb") as file:
        file.write(msgspec.json.encode(reply_to(pickle.load(sys.stdin.buffer))))  # noqa: S301 (from its parent)
