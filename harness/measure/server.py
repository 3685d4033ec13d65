"""The measurement server: a process that has loaded data and kernels, and forks a child for each cell.

    python -m deltamark.harness.measure.server DIRECTORY

It reads a request (harness/measure/client.py) from each line of its input, and writes a line of JSON as the reply.
It has no thread pool except Arrow's for files, which a fork recreates. It ends, with the cell that it measures, at the
end of its input.
"""

from __future__ import annotations

import gc
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import ClassVar, Generic

import msgspec
from msgspec.structs import replace

from deltamark.dataflow.interpreter.compilation import load_kernels
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workloads.registry import workload
from deltamark.harness.benchmarks.cell import Cell, cells_of
from deltamark.harness.check.oracle import Answers, Moment, moment_after, moments, oracle_answers
from deltamark.harness.engines.base import REFUSALS, Row
from deltamark.harness.engines.registry import capabilities, open_engine
from deltamark.harness.measure.child import AbandonedError, ForkedChild, LimitError, Phases, Result, run_in_child
from deltamark.harness.measure.client import (
    CellReply,
    CellRequest,
    CellT,
    OracleReply,
    OracleRequest,
    Reply,
    Request,
    SampleRequest,
    WarmReply,
    WarmRequest,
)
from deltamark.harness.measure.runs import FIRST_ROUNDS, SampledRun, load_code, measured, query_run, sample
from deltamark.harness.results.record import MEASURING
from deltamark.harness.system.clock import control_seconds


class Server(ABC, Generic[CellT]):
    """Replies to requests about cells of one class. watched: a file whose end ends the work on a request."""

    request_type: ClassVar[object]
    """The type of its requests."""

    def __init__(self, watched: int | None) -> None:
        self._watched = watched

    def serve(self) -> None:
        """Reply to each line of the input."""
        for line in sys.stdin:
            try:
                reply = self.reply(msgspec.json.decode(line, type=self.request_type))
            except AbandonedError:
                break
            print(msgspec.json.encode(reply).decode(), flush=True)
        self.close()

    def reply(self, request: Request[CellT]) -> Reply:
        """Return the reply to a request, which has no figures if its child failed or exceeded its time."""
        try:
            return self._figures(request)
        except (LimitError, ChildProcessError) as error:
            return Reply.of(error)

    def _figures(self, request: Request[CellT]) -> Reply:
        match request:
            case WarmRequest():
                return self.warm(request.benchmark)
            case OracleRequest():
                return self.oracle_answers(request)
            case CellRequest():
                return self.cell(request)
            case SampleRequest():
                run_once = self.runner(request.cell)
                return self._in_child(lambda phases: sample(run_once, phases.begin), request.limit)

    @abstractmethod
    def warm(self, benchmark: str) -> WarmReply: ...

    @abstractmethod
    def oracle_answers(self, request: OracleRequest[CellT]) -> OracleReply: ...

    @abstractmethod
    def cell(self, request: CellRequest[CellT]) -> CellReply: ...

    @abstractmethod
    def runner(self, cell: CellT) -> Callable[[], SampledRun]:
        """Return a function that runs a cell once, and compares nothing."""

    def close(self) -> None:
        """End all children."""

    def _in_child(self, work: Callable[[Phases], Result], limit: float) -> Result:
        return run_in_child(work, limit, self._watched)


class QueryServer(Server[Cell]):
    """Measures the queries of a benchmark at one scale factor."""

    request_type = Request[Cell]

    def __init__(self, dataset: Dataset, watched: int | None = None) -> None:
        super().__init__(watched)
        self._dataset = dataset
        self._answers: dict[tuple[object, ...], Mapping[Moment, list[Row]]] = {}
        self._begun: tuple[CellRequest[Cell], ForkedChild[CellReply]] | None = None
        """The next request, whose check ran beside that of another cell."""
        self._session: tuple[tuple[object, ...], ForkedChild[CellReply]] | None = None
        """The child with an open session, kept for the next cells with the same engine, master and workers."""

    def warm(self, benchmark: str) -> WarmReply:
        """Compile or load all kernels, and run the first rows of a query."""
        load_kernels()
        for cell in cells_of(benchmark, self._dataset.manifest.sf):
            with suppress(*REFUSALS):
                self._warm(cell)
                break
        control_seconds()
        gc.freeze()  # a collection would copy these pages in every child
        return WarmReply(measuring=MEASURING)

    def _warm(self, cell: Cell) -> None:
        work = workload(self._dataset, cell.workload)
        load_code(cell, self._dataset, work)
        with closing(open_engine(cell, self._dataset, work)) as engine:
            if engine.take_several(1, FIRST_ROUNDS):
                engine.apply_several()

    def oracle_answers(self, request: OracleRequest[Cell]) -> OracleReply:
        """Compute and keep the oracle's answers to a query."""
        cell = request.cell
        work = workload(self._dataset, cell.workload)
        wanted = [*map(moment_after, request.rounds), *request.moments]
        oracle = self._in_child(lambda _: oracle_answers(cell, work, wanted), request.limit)
        self._answers[_answers_key(cell)] = oracle.answers
        return OracleReply(once=oracle.once)

    def cell(self, request: CellRequest[Cell]) -> CellReply:
        """Measure a cell. The check of the request beside it runs at the same time; the timed runs are alone."""
        if capabilities(request.cell.engine).has_session:
            return self._cell_in_session(request)
        begun, self._begun = self._begun, None
        if begun is not None and begun[0] == replace(request, beside=None):
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
            return child.result(request.limit)

    def runner(self, cell: Cell) -> Callable[[], SampledRun]:
        return query_run(cell, self._dataset)

    def close(self) -> None:
        if self._begun is not None:
            self._begun[1].close()
        self._end_session()

    def _begin(self, request: CellRequest[Cell]) -> ForkedChild[CellReply]:
        answers = self._expected(request)
        return ForkedChild(lambda phases: measured(request, answers, self._dataset, phases), self._watched)

    def _expected(self, request: CellRequest[Cell]) -> Answers:
        """Return the answers that a request is compared with, by logical time."""
        known = self._answers.get(_answers_key(request.cell), {})
        wanted = moments(request.cell, request.compare, request.times)
        return {time: known[moment] for time, moment in wanted.items()}

    def _cell_in_session(self, request: CellRequest[Cell]) -> CellReply:
        """Measure a cell in the child with its session, which ends unless the cell succeeds."""
        cell = request.cell
        key = cell.engine, cell.master, cell.workers
        if self._session is None or self._session[0] != key:
            self._end_session()
            self._session = key, ForkedChild(self._serve_session, self._watched)
        succeeded = False
        try:
            reply = self._session[1].serve((request, self._expected(request)), request.limit)
            succeeded = reply.status in ("ok", "refused")
        finally:
            if not succeeded:
                self._end_session()
        return reply

    def _serve_session(self, phases: Phases) -> CellReply:
        def work(task: tuple[CellRequest[Cell], Answers]) -> CellReply:
            return measured(*task, self._dataset, phases)

        phases.serve(work)

    def _end_session(self) -> None:
        if self._session is not None:
            self._session[1].close()
        self._session = None


def _answers_key(cell: Cell) -> tuple[object, ...]:
    return cell.query, cell.workload, cell.seed, cell.given


if __name__ == "__main__":
    QueryServer(Dataset.open(Path(sys.argv[1])), sys.stdin.fileno()).serve()
