"""The checks of one run of a cell, selected by the output of its engine."""

from __future__ import annotations

from typing import Any, Protocol

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workload import Workload
from deltamark.harness.check.answer_check import AnswerCheck
from deltamark.harness.check.oracle import Answers
from deltamark.harness.check.stream_check import StreamCheck
from deltamark.harness.engines.base import Engine
from deltamark.harness.engines.plans import plan_of
from deltamark.harness.engines.registry import capabilities
from deltamark.harness.measure.cell import Cell


class CellCheck(Protocol):
    """A comparison of the output of an engine, during one run, with the oracle's answers."""

    @property
    def digest(self) -> str:
        """The digest of the change stream, after `finish`; empty if the engine has no stream."""
        ...

    @property
    def changes(self) -> int:
        """The number of changes that were added."""
        ...

    @property
    def problem(self) -> str:
        """The first wrong answer, and the command that reproduces it; empty if there is none."""
        ...

    def add(self, changes: Any) -> None:
        """Take the next changes; the sink of the engine."""
        ...

    def before_batch(self, engine: Engine) -> None:
        """Compare an answer that is due, while the engine has applied all rounds before its next batch."""
        ...

    def finish(self, engine: Engine) -> None:
        """Compare the answers that are left, at the end of the stream."""
        ...

    def close(self) -> None: ...


def open_check(cell: Cell, dataset: Dataset, work: Workload, answers: Answers) -> CellCheck:
    """Open the check of a run. answers: the oracle's; empty: the stream is digested only."""
    engine = capabilities(cell.engine)
    if engine.has_stream:
        return StreamCheck(cell, plan_of(cell, dataset, work).schema, answers)
    return AnswerCheck(cell, answers, engine.tolerance)
