"""Queries on Spark: the change stream equals that of one worker, also after kills; a foreign checkpoint is refused.

`make chaos` kills more processes, and more often.
"""

from __future__ import annotations

import os
import threading
from itertools import product
from pathlib import Path
from random import Random

import numpy as np
import pytest
from pyspark.errors import StreamingQueryException

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.spark.failures import SLOW_START, explained
from deltamark.dataflow.types import (
    DOUBLE,
    NAN,
    NULL,
    SHORT,
    TEXT,
    TIME,
    Field,
    Schema,
    code_type,
    date_type,
    integer,
    pack_short,
    stored_double,
    timestamp_type,
)
from deltamark.datagen.feed import last_time
from deltamark.datagen.workloads.registry import workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check import verify
from deltamark.harness.check.oracle import moments, oracle_answers
from deltamark.harness.check.run_check import open_check
from deltamark.harness.engines.registry import open_engine
from deltamark.harness.engines.spark import SparkEngine
from deltamark.harness.engines.spark_feed import SESSIONS
from deltamark.harness.measure.runs import timed_run
from deltamark.harness.strikes.spark import SparkOutcome, StrikePlan, killing, run_driver, victims

pytestmark = pytest.mark.waits(4)

CELL = Cell("q12", "0.001", "refresh:5", physical=2500, workers=2, engine="spark", master="local[2]")


@pytest.fixture(scope="module")
def finished(chunked, tmp_path_factory):
    """A query of two stages in a directory of its own, whose driver was killed, and whose end is in this process.

    Return its cell and its digest.
    """
    cell, outcome = CELL.but(checkpoint=str(tmp_path_factory.mktemp("spark") / "query")), SparkOutcome()
    assert run_driver(cell, chunked, StrikePlan(killing("driver"), 1, max_delay=1.0), outcome, Random(1)) == ""
    assert len(outcome.strikes) == len(outcome.struck) == 1
    return cell, verify.digest_of(cell, chunked)


@pytest.fixture(scope="module")
def opened_again(finished, chunked):
    """The finished query, which was opened once more and found nothing to do, and its digest."""
    cell, running, start = finished[0], [], SparkEngine.start
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkEngine, "start", lambda *given: running.append(start(*given)) or running[-1])
        digest = verify.digest_of(cell, chunked)
    return running[0], digest


@pytest.fixture
def ended(opened_again, monkeypatch):
    """The ended query, which has not been started again."""
    monkeypatch.setattr(opened_again[0], "_slow_starts", 0)
    return opened_again[0]


def embedded(cell, dataset):
    return verify.digest_of(Cell(cell.query, cell.sf, cell.workload), dataset)


def test_the_change_stream_equals_that_of_one_worker(finished, chunked):
    cell, digest = finished
    assert digest == embedded(cell, chunked)


def test_every_shard_reports_the_state_that_it_has_stored(ended):
    state = ended.state()
    assert [(each.stage, each.shard) for each in state] == list(product(range(1, ended.stages + 1), range(2)))
    assert all(each.size > each.rows > 0 for each in state if each.stage == 1)


def test_a_finished_query_has_the_same_changes_when_it_is_opened_again(finished, opened_again):
    assert opened_again[1] == finished[1]


class Late:
    """A query of Spark that has ended because a Python process started too late."""

    isActive = False  # noqa: N815 (as Spark names it)

    @property
    def _jsq(self):
        return self

    def recentProgress(self):  # noqa: N802 (as Spark names it)
        return []

    def awaitTermination(self):  # noqa: N802 (as Spark names it)
        raise StreamingQueryException(f"[STREAM_FAILED] Query terminated with exception: {SLOW_START}.")


def test_a_query_starts_again_if_a_python_process_was_late(ended):
    ended._query = Late()
    ended.wait()
    assert not ended._query.isActive
    assert not isinstance(ended._query, Late)


def test_the_progress_of_a_query_goes_on_if_a_python_process_was_late(ended, monkeypatch):
    queries = [ended._query, Late()]
    monkeypatch.setattr(ended, "_query", Late())
    monkeypatch.setattr(ended, "_start", queries.pop)
    assert [*ended.progress()] == []
    assert queries == []


def test_a_query_whose_python_processes_are_always_late_fails(ended, monkeypatch):
    monkeypatch.setattr(ended, "_query", Late())
    monkeypatch.setattr(ended, "_start", Late)
    with pytest.raises(DeltamarkError, match=SLOW_START):
        ended.wait()


@pytest.fixture(scope="module")
def timed(chunked):
    """A timed run of the query, whose changes are checked.

    Return its check, its result and the parts of its last micro-batch, which Spark forgets with the session.
    """
    cell, engines = CELL.but(checkpoint=""), []
    work = workload(chunked, cell.workload)
    check = open_check(cell, work, {last_time(work.rounds, cell.logical): [("no", "answer")]})

    def opened():
        engines.append(open_engine(cell, chunked, work, check.add))
        return engines[0]

    run = timed_run(cell, work, opened, check)
    return check, run, engines[0].timeline(engines[0].reports[-1])


def test_a_timed_run_has_the_changes_that_are_checked(timed, chunked):
    check, run, _ = timed
    assert check.digest == str(embedded(CELL, chunked))
    assert check.changes == run.changes
    assert check.problem.startswith("after ")


def test_the_stages_of_a_micro_batch_run_one_after_another(timed):
    stages = [bar for bar in timed[2] if bar.depth == 2]
    assert [bar.name for bar in stages] == ["stage 0", "stage 1", "stage 2"]
    borders = [border for bar in stages for border in (bar.start, bar.end)]
    assert borders == sorted(borders)


def test_recomputation_on_spark_sql_ignores_retracted_rows(chunked):
    cell = CELL.but(workload="window:500", engine="spark-sql", checkpoint="", physical=500)
    work = workload(chunked, cell.workload)
    half = work.rounds // 2 // cell.physical * cell.physical
    wanted = moments(cell, [half, work.rounds], [])
    right = oracle_answers(cell, work, wanted.values()).answers
    check = open_check(cell, work, {time: right[moment] for time, moment in wanted.items()})
    timed_run(cell.but(sample=1), work, lambda: open_engine(cell, chunked, work, check.add), check)
    assert not check.problem


KINDS = {
    "number": integer(-9, 9), "money": integer(-(2**62), 2**62, scale=4), "day": date_type(-9, 9000),
    "code": code_type(("ant", "bee")), "short": SHORT, "text": TEXT, "Text": TEXT,
    "double": DOUBLE, "moment": timestamp_type(-(2**50), 2**50), "zoned": timestamp_type(0, 2**50, zoned=True),
    "time": TIME,
}  # fmt: skip


def test_stored_values_are_read_back_unchanged():
    from deltamark.dataflow.spark import sink  # noqa: PLC0415

    schema = Schema(tuple(Field(name, type_.or_null()) for name, type_ in KINDS.items()), 3)
    columns = {
        "number": [-9, NULL, 0], "money": [2**62, NULL, -1], "day": [-9, NULL, 9000], "code": [1, NULL, 0],
        "short": [pack_short("ab"), NULL, pack_short("")], "text": ["a", None, ""], "Text": ["", "é", None],
        "double": [stored_double(-0.1), NULL, NAN], "moment": [-1, NULL, 2**49 + 1], "zoned": [2**49, NULL, 1],
        "time": [1, NULL, 0],
    }  # fmt: skip
    arrays = {name: np.array(each, dtype=object if "ext" in name else np.int64) for name, each in columns.items()}
    changes = Batch(np.array([7, 8, 9]), np.array([1, -2, 3]), arrays)
    frame = SESSIONS.on(CELL.master).createDataFrame(sink.to_spark(schema, changes), sink.spark_schema(schema))
    values = frame.select(*sink.value_columns(schema)).orderBy(sink.TIME)
    stored = sink.from_stored(schema, values.toArrow())
    assert (stored.time.tolist(), stored.diff.tolist()) == ([7, 8, 9], [1, -2, 3])
    assert {name: each.tolist() for name, each in stored.columns.items()} == columns


OTHER_QUERIES = {"plan": {"query": "q18"}, "workload": {"workload": "window:50"},
                 "physical batch": {"physical": 2501}}  # fmt: skip


@pytest.mark.parametrize("property_", OTHER_QUERIES)
def test_a_checkpoint_of_another_query_is_refused(property_, finished, chunked):
    cell = finished[0].but(**OTHER_QUERIES[property_])
    with pytest.raises(DeltamarkError, match=rf"the checkpoint does not match: its {property_} is .*, not "):
        verify.digest_of(cell, chunked)


def test_a_checkpoint_of_another_format_is_refused(finished, chunked, monkeypatch):
    monkeypatch.setattr("deltamark.dataflow.spark.state_log.FORMAT", 0)
    with pytest.raises(DeltamarkError, match=r"the checkpoint does not match: its format is \d+, not 0"):
        verify.digest_of(finished[0], chunked)


def test_a_checkpoint_of_other_data_is_refused(finished, chunked, monkeypatch):
    monkeypatch.setattr("deltamark.harness.system.machine.data", lambda _: "other")
    with pytest.raises(DeltamarkError, match=r"the checkpoint does not match: its data is \w+, not other"):
        verify.digest_of(finished[0], chunked)


@pytest.mark.parametrize("part", ["identity.json", "checkpoint/offsets/*"])
def test_a_corrupt_checkpoint_is_an_error(part, finished, chunked):
    path = max(Path(finished[0].checkpoint).glob(part), key=lambda path: path.stat().st_mtime_ns)
    content = path.read_bytes()
    path.write_bytes(b"not what was written")
    try:
        with pytest.raises(DeltamarkError, match=r"a corrupt checkpoint: .*; remove"):
            verify.digest_of(finished[0], chunked)
    finally:
        path.write_bytes(content)


def test_a_full_disk_is_an_error_that_names_the_host():
    failed = "Lost task 0.7 in stage 5.0 (TID 16) (worker1 executor 1): java.io.IOException: No space left on device"
    suppressed = "\n\tat java.base/java.io\n\tSuppressed: java.io.IOException: No space left on device"
    error = explained(StreamingQueryException(f"Task 0 failed 8 times: {failed}{suppressed}"))
    assert str(error).startswith("a disk is full: No space left on device, on worker1; make room")


def test_a_query_survives_the_kill_of_a_python_worker(chunked, tmp_path):
    cell, choices = CELL.but(query="q04", checkpoint=str(tmp_path / "query")), Random(4)
    work, failures = workload(chunked, cell.workload), 0
    while True:
        running = SparkEngine(cell, chunked, work).start(work.rounds)
        killer = threading.Timer(choices.uniform(0.5, 4), kill_one_worker, (choices,))
        if not failures:
            killer.start()
        try:
            running.wait()
            break
        except DeltamarkError:
            failures += 1
        finally:
            killer.cancel()
            running.stop()
    assert failures < 2


def kill_one_worker(choices):
    if workers := list(victims(os.getpid(), "worker")):
        choices.choice(workers).kill()
