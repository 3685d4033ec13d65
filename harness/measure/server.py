"""The measurement server: a process that has loaded data and kernels, and forks a child for each cell.

    python -m harness.measure.server DIRECTORY

It reads a request (harness/measure/messages.py) from each line of its input, and writes a line of JSON as the reply.
It has no thread pool except Arrow's for files, which a fork recreates. It ends, with the cell that it measures, at the
end of its input.
"""

from __future__ import annotations

import gc
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Generic, TypeVar

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workload import workload
from deltamark.harness.check.oracle import Answers, oracle_answers
from deltamark.harness.check.run_check import open_check
from deltamark.harness.compare.sample import query_run, sample
from deltamark.harness.engines.registry import capabilities, open_engine
from deltamark.harness.measure import control_work, messages
from deltamark.harness.measure.cell import Cell
from deltamark.harness.measure.cell_job import CellJob, measured
from deltamark.harness.measure.child import AbandonedError, Child, LimitError, Result, Stages, run_in_child
from deltamark.harness.results.record import MEASURING

R = TypeVar("R", bound=messages.Reply)

WARM_UP_ROUNDS = 100


class Server(ABC, Generic[messages.CellT]):
    """Replies to requests about cells of one class. watched: a file whose end ends the work on a request."""

    cell_type: type[messages.CellT]

    def __init__(self, watched: int | None) -> None:
        self._watched = watched

    def serve(self) -> None:
        """Reply to each line of the input."""
        for line in sys.stdin:
            try:
                reply = self.reply(messages.decode_request(json.loads(line), self.cell_type))
            except AbandonedError:
                break
            print(json.dumps(messages.encode(reply)), flush=True)
        self.close()

    def reply(self, request: messages.Request[messages.CellT]) -> messages.Reply:
        match request:
            case messages.WarmRequest():
                return self.warm()
            case messages.AskRequest():
                return self.ask(request)
            case messages.CellRequest():
                return self.cell(request)
            case messages.SampleRequest():
                return self.sample(request)

    @abstractmethod
    def warm(self) -> messages.WarmReply: ...

    @abstractmethod
    def ask(self, request: messages.AskRequest[messages.CellT]) -> messages.AskReply: ...

    @abstractmethod
    def cell(self, request: messages.CellRequest[messages.CellT]) -> messages.CellReply: ...

    @abstractmethod
    def sample(self, request: messages.SampleRequest[messages.CellT]) -> messages.SampleReply: ...

    def close(self) -> None:
        """End all children."""

    def _in_child(self, work: Callable[[Stages], Result], limit: float) -> Result:
        return run_in_child(work, limit, self._watched)


def guarded(work: Callable[[], R], kind: type[R]) -> R:
    """Return the reply of some work, or the reply that a child failed or exceeded its time."""
    try:
        return work()
    except LimitError as error:
        return kind(status="timeout", problem=str(error))
    except ChildProcessError as error:
        return kind(status="failed", problem=str(error))


class QueryServer(Server[Cell]):
    """Measures TPC-H queries at one scale factor."""

    cell_type = Cell

    def __init__(self, dataset: Dataset, watched: int | None = None) -> None:
        super().__init__(watched)
        self._dataset = dataset
        self._answers: dict[tuple[object, ...], Answers] = {}
        self._begun: tuple[messages.CellRequest[Cell], Child[messages.CellReply]] | None = None
        """The next request, whose check was made beside another cell's."""
        self._session: tuple[tuple[object, ...], Child[messages.CellReply]] | None = None
        """The child with an open session, kept for the next cells with the same engine, master and workers."""

    def warm(self) -> messages.WarmReply:
        """Compile or load the kernels with the first rows of a query."""
        cell = Cell("q06", self._dataset.manifest.sf)
        work = workload(self._dataset, "insert")
        check = open_check(cell, self._dataset, work, {})
        with closing(check), closing(open_engine(cell, self._dataset, work, check.add)) as engine:
            engine.take(WARM_UP_ROUNDS)
            engine.apply()
            check.finish(engine)
        control_work.seconds()
        gc.freeze()  # a collection would copy these pages in every child
        return messages.WarmReply(measuring=MEASURING)

    def ask(self, request: messages.AskRequest[Cell]) -> messages.AskReply:
        """Compute and keep the oracle's answers to a query."""
        cell = request.cell
        work = workload(self._dataset, cell.workload)

        def reply() -> messages.AskReply:
            oracle = self._in_child(lambda _: oracle_answers(cell, self._dataset, work, request.rounds), request.limit)
            self._answers[_answers_key(cell)] = oracle.answers
            return messages.AskReply(once=oracle.once)

        return guarded(reply, messages.AskReply)

    def cell(self, request: messages.CellRequest[Cell]) -> messages.CellReply:
        """Measure a cell. The check of the request beside it runs at the same time; the timed runs are alone."""
        if capabilities(request.cell.engine).has_session:
            return self._cell_in_session(request)
        begun, self._begun = self._begun, None
        if begun is not None and begun[0] == _alone(request):
            child = begun[1]
        else:
            child = self._begin(request)
            if begun is not None:
                begun[1].close()
        self._end_session()
        if request.beside is not None:
            self._begun = request.beside, self._begin(request.beside)
        with closing(child):
            child.reach(request.limit)
            if self._begun is not None:
                self._begun[1].reach(request.limit)
            return guarded(lambda: child.result(request.limit), messages.CellReply)

    def close(self) -> None:
        if self._begun is not None:
            self._begun[1].close()
        self._end_session()

    def _begin(self, request: messages.CellRequest[Cell]) -> Child[messages.CellReply]:
        job = self._job(request)
        return Child(lambda stages: measured(job, self._dataset, stages), self._watched)

    def _job(self, request: messages.CellRequest[Cell]) -> CellJob:
        known = self._answers.get(_answers_key(request.cell), {})
        answers = {rounds: known[rounds] for rounds in request.compare}
        return CellJob(request.cell, request.sample, request.runs, answers, request.checked)

    def _cell_in_session(self, request: messages.CellRequest[Cell]) -> messages.CellReply:
        """Measure a cell in the child with its session."""
        job, cell = self._job(request), request.cell
        key = cell.engine, cell.master, cell.workers
        if self._session is None or self._session[0] != key:
            self._end_session()
            self._session = key, Child(self._serve_session, self._watched)
        child = self._session[1]
        reply = guarded(lambda: child.serve(job, request.limit), messages.CellReply)
        if reply.status != "ok":
            self._end_session()
        return reply

    def _serve_session(self, stages: Stages) -> messages.CellReply:
        stages.serve(lambda job: measured(job, self._dataset, stages))

    def _end_session(self) -> None:
        if self._session is not None:
            self._session[1].close()
        self._session = None

    def sample(self, request: messages.SampleRequest[Cell]) -> messages.SampleReply:
        """Time a cell, and compare nothing."""
        run = query_run(request.cell, self._dataset)
        return guarded(
            lambda: self._in_child(lambda stages: sample(run, stages.begin), request.limit), messages.SampleReply
        )


def _alone(request: messages.CellRequest[Cell]) -> messages.CellRequest[Cell]:
    return replace(request, beside=None)


def _answers_key(cell: Cell) -> tuple[object, ...]:
    return cell.query, cell.workload, cell.seed, cell.given


if __name__ == "__main__":
    QueryServer(Dataset.open(Path(sys.argv[1])), sys.stdin.fileno()).serve()
