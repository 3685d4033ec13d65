"""The warm parent: a process that has loaded data and kernels, and forks a child for every cell. It has no thread pool
but Arrow's for files, which a fork makes anew.

    python -m harness.measure.server DIRECTORY      with a JSON line a request on its input, and one a reply on its
    output

    {"do": "warm"}                                                        ->  {"status": "ok", "measuring": 1}
    {"do": "ask", "cell": {...}, "rounds": [500, 1000], "limit": 600}     ->  {"status": "ok", "once": 0.1}
    {"do": "cell", "cell": {...}, "sample": 0, "runs": 3, "limit": 600,
     "compare": [500, 1000], "checked": true, "beside": {...}}            ->  what a record says of a cell
    {"do": "sample", "cell": {...}, "limit": 600}                         ->  harness/compare/sample.py

`beside` (or nothing) is the next such request, whose check is made at the same time; what is timed is alone. A reply's
status is ok, wrong, failed or timeout, which have a problem. `harness/measure/client.py` speaks to it, to that of
another commit too: whatever changes the meaning of a request or of a number raises MEASURING
(harness/results/record.py). It ends with its input, and so does the cell that it is at.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Feed
from deltamark.datagen.workload import workload
from deltamark.harness.check.checked_run import Answers, Asked, StreamCheck, ask
from deltamark.harness.compare.sample import query_run, sample
from deltamark.harness.engines.spark import SPARK
from deltamark.harness.engines.spark_sql import SPARK_SQL
from deltamark.harness.measure import child as fork
from deltamark.harness.measure import control_work
from deltamark.harness.measure.cell import Cell
from deltamark.harness.measure.cell_job import Job, measured
from deltamark.harness.measure.timing import wanted
from deltamark.harness.results.record import MEASURING

ON_SPARK = (SPARK, SPARK_SQL)
Key = tuple[str, str, str, str]


class Forking:
    """Replies to requests with what children find. watched: a file whose end means that nobody waits for that."""

    def __init__(self, watched: int | None) -> None:
        self._watched = watched

    def serve(self) -> None:
        """Answer what comes in."""
        for line in sys.stdin:
            request = json.loads(line)
            try:
                reply = getattr(self, request["do"])(*([] if request["do"] == "warm" else [request]))
            except fork.AbandonedError:
                break
            print(json.dumps(reply), flush=True)
        self.close()

    def close(self) -> None:
        """End what was begun and nobody has asked for."""

    def _forked(self, request: dict[str, Any], work: fork.Work) -> Any:
        return self._told(lambda: fork.forked(work, request["limit"], self._watched))

    @staticmethod
    def _told(result: Callable[[], Any]) -> Any:
        try:
            return result()
        except fork.LimitError as error:
            return {"status": "timeout", "problem": str(error)}
        except ChildProcessError as error:
            return {"status": "failed", "problem": str(error)}


class Parent(Forking):
    """Of the queries over a scale factor."""

    def __init__(self, dataset: Dataset, watched: int | None = None) -> None:
        super().__init__(watched)
        self._dataset = dataset
        self._answers: dict[Key, Answers] = {}
        self._begun: dict[str, fork.Child] = {}
        """The cell whose check was made beside another's, and which is asked for next."""
        self._spark: tuple[tuple[str, ...], fork.Child] | None = None
        """The child that has a session on Spark, and for which cells: it stays for the next of them."""

    def warm(self) -> dict[str, Any]:
        """Compile or load the kernels, by feeding a query a few rows, and make what cells have in common."""
        cell = Cell("q06", self._dataset.manifest.sf)
        work = workload(self._dataset, "insert")
        with closing(StreamCheck(cell, self._dataset, work, {})) as subject:
            feed = Feed(self._dataset, work, wanted(subject), until=100)
            subject.push(subject.prepare(feed.take(100)))
        control_work.seconds()
        gc.freeze()  # collecting what is here would copy it, in every child
        return {"status": "ok", "measuring": MEASURING}

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Have DuckDB answer a cell's query after some numbers of rounds, and keep the answers."""
        cell = _cell(request)
        work = workload(self._dataset, cell.workload)
        asked = self._forked(request, lambda _: ask(cell, self._dataset, work, request["rounds"]))
        if not isinstance(asked, Asked):
            return {**asked}
        self._answers[_key(cell)] = asked.answers
        return {"status": "ok", "once": asked.once}

    def cell(self, request: dict[str, Any]) -> dict[str, Any]:
        """Measure a cell, and before it is timed check another one beside it, if there is one."""
        beside = request.pop("beside", None)
        if _cell(request).engine in ON_SPARK:
            return self._on_spark(request)
        child = self._begun.pop(_words(request), None) or self._begin(request)
        self.close()
        self._begun = {_words(beside): self._begin(beside)} if beside else {}
        with closing(child):
            for each in (child, *self._begun.values()):
                each.reach(request["limit"])
            found: dict[str, Any] = self._told(lambda: child.result(request["limit"]))
            return found

    def close(self) -> None:
        for each in self._begun.values():
            each.close()
        self._end_spark()

    def _begin(self, request: dict[str, Any]) -> fork.Child:
        job = self._job(request)
        return fork.Child(lambda stage: measured(job, self._dataset, stage), self._watched)

    def _job(self, request: dict[str, Any]) -> Job:
        cell = _cell(request)
        known = self._answers.get(_key(cell), {})
        answers = {rounds: known[rounds] for rounds in request["compare"]}
        return Job(cell, request["sample"], request["runs"], answers, request["checked"])

    def _on_spark(self, request: dict[str, Any]) -> dict[str, Any]:
        """Measure a cell in the child that has its session: a session takes longer to start than most cells."""
        job = self._job(request)
        session = (job.cell.engine, job.cell.master, str(job.cell.workers))
        if self._spark is None or self._spark[0] != session:
            self._end_spark()
            self._spark = session, fork.Child(self._serve, self._watched)
        child = self._spark[1]
        found: dict[str, Any] = self._told(lambda: child.ask(job, request["limit"]))
        if found["status"] != "ok":
            self._end_spark()
        return found

    def _serve(self, stage: fork.Stages) -> None:
        stage.serve(lambda job: measured(job, self._dataset, stage))

    def _end_spark(self) -> None:
        if self._spark is not None:
            self._spark[1].close()
        self._spark = None

    def sample(self, request: dict[str, Any]) -> dict[str, Any]:
        """Time a cell, and compare nothing."""
        cell = _cell(request)
        found: dict[str, Any] = self._forked(request, lambda stage: sample(query_run(cell, self._dataset), stage))
        return found


def _words(request: dict[str, Any]) -> str:
    return json.dumps(request, sort_keys=True)


def _cell(request: dict[str, Any]) -> Cell:
    raw = request["cell"]
    return Cell(**{**raw, "given": tuple(map(tuple, raw.get("given", ())))})


def _key(cell: Cell) -> Key:
    return cell.query, cell.workload, str(cell.seed), str(cell.given)


if __name__ == "__main__":
    Parent(Dataset.open(Path(sys.argv[1])), sys.stdin.fileno()).serve()
