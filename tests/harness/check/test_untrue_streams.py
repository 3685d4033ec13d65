"""An output that is right at the ends of batches or of the stream, but not at all its times, is wrong, also if no other
engine was measured.
"""

from __future__ import annotations

import re
import runpy
from random import Random
from unittest.mock import Mock

import numpy as np
import pytest
from support.harness.near_server import Near
from support.harness.programs import EXAMPLE, EXAMPLE_FILE, example_in_thread, faulty

from deltamark.dataflow.batch import Batch
from deltamark.datagen.feed import TIMES_PER_ROUND, last_time
from deltamark.datagen.tpch import RELATIONS
from deltamark.datagen.workloads.registry import workload
from deltamark.harness.benchmarks.benchmark import benchmark
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.oracle import moments, oracle_answers
from deltamark.harness.check.run_check import InputTimes, open_check
from deltamark.harness.check.verify import every_time
from deltamark.harness.cli.main import main
from deltamark.harness.engines.registry import open_engine
from deltamark.harness.measure.client import CellRequest
from deltamark.harness.measure.runs import answers_of, measured, timed_run
from deltamark.harness.measure.windows import inner_times
from deltamark.harness.suites import throughput

LAST_RANK = TIMES_PER_ROUND - 1


def batch_ends(times, cell, rounds):
    """Return the last time of the batch of each time."""
    ends = (times // TIMES_PER_ROUND // cell.physical + 1) * cell.physical - 1
    return np.minimum(ends, (rounds - 1) // cell.logical) * TIMES_PER_ROUND + LAST_RANK


def at_the_end_of_its_batch(changes, cell, work):
    return Batch(batch_ends(changes.time, cell, work.rounds), changes.diff, changes.columns)


def at_the_last_input_of_its_batch(changes, cell, work):
    known = np.array(every_time(work, cell.reads, cell.logical))
    at = np.searchsorted(known, batch_ends(changes.time, cell, work.rounds), side="right") - 1
    return Batch(known[at], changes.diff, changes.columns)


def unchanged(changes, _cell, _work):
    return changes


def problem_of(cell, dataset, moved, answers=None):
    """Run a cell, and check its changes at other times. answers: DuckDB's; None: those at drawn moments."""
    work = workload(dataset, cell.workload)
    check = open_check(cell, work, answers_of(cell, work) if answers is None else answers)

    def sink(changes):
        check.add(moved(changes, cell, work))

    timed_run(cell, work, lambda: open_engine(cell, dataset, work, sink), check)
    return check.problem


@pytest.mark.parametrize(
    ("name", "logical", "physical"), [("q01", 1, 1), ("q01", 7, 1), ("q01", 1, 1000), ("q15", 1, 1), ("q15", 1000, 1)]
)
def test_changes_at_the_end_of_their_batch_are_wrong(chunked, name, logical, physical):
    """Q15 reads suppliers, whose rows do arrive at the last time of a round."""
    cell = Cell(name, "0.001", "window:500", logical, physical)
    assert problem_of(cell, chunked, unchanged) == ""
    assert problem_of(cell, chunked, at_the_end_of_its_batch) != ""


def test_only_times_inside_rounds_show_changes_at_the_last_input_of_their_round(chunked):
    """Batches of one logical time: lines leave before their orders, but the answer changes with the orders."""
    cell = Cell("q04", "0.001", "window:500", logical=100, physical=1)
    work = workload(chunked, cell.workload)
    wanted = moments(cell, [1000, work.rounds], [10 * TIMES_PER_ROUND + RELATIONS["lineitem"].rank])
    right = oracle_answers(cell, work, wanted.values()).answers
    answers = {time: right[moment] for time, moment in wanted.items()}
    problem = problem_of(cell, chunked, at_the_last_input_of_its_batch, answers)
    assert problem.startswith("at time 81, within rounds 1000 to 1099:\n")
    ends = {time: answer for time, answer in answers.items() if time % TIMES_PER_ROUND == LAST_RANK}
    assert problem_of(cell, chunked, at_the_last_input_of_its_batch, ends) == ""


def test_changes_at_the_last_input_of_their_batch_are_wrong(chunked):
    cell = Cell("q01", "0.001", "window:500", physical=1000)
    problem = problem_of(cell, chunked, at_the_last_input_of_its_batch)
    assert re.match(r"(at time \d+, within round|after \d+ rounds)", problem)


@pytest.mark.parametrize("name", ["q01", "q04", "q05"])
def test_drawn_times_are_inside_rounds(name):
    cell, ranks = Cell(name, "1", logical=7), {RELATIONS[each].rank for each in benchmark().reads(name)}
    for seed in range(50):
        times = inner_times(cell, range(70, 700), Random(seed))
        assert {time % TIMES_PER_ROUND for time in times} <= ranks - {LAST_RANK}
        assert all(70 <= time // TIMES_PER_ROUND * 7 < 700 for time in times)


@pytest.mark.parametrize("work", ["insert", "refresh:5", "late:500"])
@pytest.mark.parametrize("logical", [1, 7])
def test_only_times_without_input_are_found(chunked, work, logical):
    stream = workload(chunked, work)
    for name in ("q01", "q09", "q22"):
        cell = Cell(name, "0.001", work, logical)
        known = set(every_time(stream, benchmark().reads(name), logical))
        inputs, times = InputTimes(cell, stream), np.arange(TIMES_PER_ROUND * (-(-stream.rounds // logical)))
        found = [time for part in np.array_split(times, 5) for time in inputs.others(part)]
        assert found == [time for time in times if time and time not in known], name


def test_an_engine_that_is_right_at_the_end_alone_is_wrong(monkeypatch, chunked):
    cell = Cell("q01", "0.001", logical=700, physical=1, engine=EXAMPLE)
    work = workload(chunked, "insert")
    end = last_time(work.rounds, cell.logical)

    class Late(runpy.run_path(str(EXAMPLE_FILE))["Engine"]):
        def difference(self, query):
            return super().difference(query) if self.time == end else []

    example_in_thread(monkeypatch, Late)
    found = measured(CellRequest(cell, 1, 60.0), answers_of(cell, work), chunked, Mock())
    assert found.status == "wrong"
    assert re.match(r"after \d+ rounds", found.problem)


STREAM_OF_BATCHES = {"hello": "return super().hello(request) | {'output': 'stream', 'maintains': True}"}


@pytest.mark.waits(3)
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_an_untrue_stream_is_wrong_also_if_it_is_measured_first(monkeypatch, chunked, tmp_path, capsys):
    monkeypatch.setattr(throughput, "MeasurementClient", Near)
    words = ["bench", "SF=0.001", f"DATA={chunked.directory.parent}", f"RESULTS={tmp_path / 'results'}", "RUNS=1"]
    words += ["QUERIES=q04", "LOGICAL=100", "PHYSICAL=20"]
    assert main([*words, f"ENGINES=untrue={faulty(tmp_path, **STREAM_OF_BATCHES)}"]) == 2
    assert main([*words, "ENGINES=embedded"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"q04 100x20 untrue +WRONG: ", out), out
    assert re.search(r"q04 100x20 .* 1 run, oracle", out), out
