"""The answers of every engine equal DuckDB's over the live rows, and all runs of a cell count the same changes."""

from __future__ import annotations

from contextlib import closing
from unittest.mock import Mock

import numpy as np
import pytest
from support.harness.programs import EXAMPLE

from deltamark.dataflow.kernels.parallel.key_partition import MAX_WORKERS
from deltamark.datagen.feed import TIMES_PER_ROUND, Feed, last_time
from deltamark.datagen.tpch import RELATIONS
from deltamark.datagen.workloads.registry import workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import benchmark
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.verify import digest_of
from deltamark.harness.engines.base import AnswerEngine, StreamEngine
from deltamark.harness.engines.embedded import EmbeddedEngine
from deltamark.harness.engines.inputs import relation_source
from deltamark.harness.engines.plans import columns_read
from deltamark.harness.engines.registry import BUILT_IN, engine_class, known_engine, open_engine
from deltamark.harness.measure.client import CellRequest
from deltamark.harness.measure.runs import answers_of, measured, timed_run
from deltamark.harness.measure.windows import spans
from deltamark.harness.results.record import Record
from deltamark.harness.system import resources


def answers(dataset, cell):
    return answers_of(cell, workload(dataset, cell.workload))


@pytest.fixture(autouse=True)
def _all_runs(monkeypatch):
    """A run that took long on a busy machine is repeated, too."""
    monkeypatch.setattr("deltamark.harness.measure.runs.MAX_REPEATED_S", float("inf"))


def outcome(dataset, cell, runs=2, compared=None):
    """Measure a cell; return its record."""
    expected = answers(dataset, cell) if compared is None else compared
    return measured(CellRequest(cell, runs, 60.0), expected, dataset, Mock()).fill(Record())


@pytest.mark.parametrize("work", ["insert", "update:2", "churn:50"])
def test_a_feed_has_numbers_of_the_width_that_the_engine_reads(chunked, work):
    """The engine does not check the batches of a feed, so other widths would be read as other numbers."""
    work = workload(chunked, work)
    feed = Feed(work, {name: [each.name for each in of.columns] for name, of in RELATIONS.items()})
    for _ in range(3):
        for delta in feed.take(500):
            schema = relation_source(delta.relation, work).schema
            numbers = {name: each for name, each in delta.columns.items() if schema[name].kind != "text"}
            assert {name: each.dtype.itemsize for name, each in numbers.items()} == {
                name: schema[name].width for name in numbers
            }


@pytest.mark.draws(8)
@pytest.mark.parametrize("name", benchmark().queries)
def test_recomputed_answers_are_right(chunked, name):
    cell = Cell(name, "0.001", "window:100", 1000, 1, engine="duckdb")
    found = outcome(chunked, cell, runs=1)
    assert found.status == "ok", found


@pytest.mark.draws(15)
@pytest.mark.parametrize("physical", [1, 70])
@pytest.mark.parametrize("name", benchmark().queries)
def test_several_batches_at_once_count_the_changes_of_each(chunked, name, physical):
    cell = Cell(name, "0.001", "window:100", 3, physical)
    work = workload(chunked, cell.workload)
    with closing(EmbeddedEngine(cell, chunked, work)) as one, closing(EmbeddedEngine(cell, chunked, work)) as several:
        while not several.feed.done:
            rows = several.take_several(physical, 200)
            applied = several.apply_several() if rows else []
            wanted = [(taken, one.apply()) for _ in range(200) if (taken := one.take(physical))]
            assert [(size, changes) for size, (changes, _) in zip(rows, applied, strict=True)] == wanted
        assert one.state_rows() == several.state_rows()


def test_a_query_reads_the_columns_that_it_names():
    names = [RELATIONS["orders"], RELATIONS["lineitem"]]
    exists = (
        "SELECT o_orderpriority FROM orders WHERE EXISTS (\n SELECT *\n FROM lineitem WHERE l_orderkey = o_orderkey)"
    )
    assert columns_read(exists, names) == {"orders": ("orderkey", "orderpriority"), "lineitem": ("orderkey",)}
    assert columns_read("SELECT count(*) FROM orders", names[:1]) == {"orders": ("orderkey",)}
    assert len(columns_read("SELECT\n* FROM orders", names[:1])["orders"]) == 9


@pytest.mark.parametrize("variant", ["", "diffs"])
@pytest.mark.parametrize("compared", [True, False])
def test_a_stream_is_digested_and_compared(chunked, variant, compared):
    cell = Cell("q01", "0.001", physical=700, variant=variant)
    found = outcome(chunked, cell, compared=None if compared else {})
    assert found.status == "ok", found
    assert found.digest == str(digest_of(cell, chunked))
    assert found.changes == int(found.digest.split()[0])
    assert found.tuples == chunked.rows("lineitem")
    assert found.verified == ("oracle" if compared else "")


@pytest.mark.parametrize("workers", [1, 2])
def test_the_memory_of_a_checked_run_is_touched_before_the_first_timed_run_and_is_no_part_of_the_peak(
    chunked, monkeypatch, workers
):
    cell, touched = Cell("q04", "0.001", physical=500, workers=workers), []
    alone = outcome(chunked, cell, compared={})
    touch = resources.touch

    def recorded(size):
        touched.append(size)
        touch(1 << 29)

    monkeypatch.setattr(resources, "touch", recorded)
    found = outcome(chunked, cell, compared={})
    assert len(found.seconds) == len(touched) == 2
    assert touched[0] > 0
    assert found.peak_bytes < alone.peak_bytes + (1 << 28)


@pytest.mark.parametrize(("seconds", "runs"), [(1e-9, 1), (float("inf"), 2)])
def test_a_slow_cell_is_run_again_if_there_is_time_because_its_first_run_has_fresh_memory(
    chunked, monkeypatch, seconds, runs
):
    monkeypatch.setattr("deltamark.harness.measure.runs.MAX_REPEATED_S", 1e-9)
    monkeypatch.setattr("deltamark.harness.measure.runs.MAX_TIMED_S", seconds)
    assert len(outcome(chunked, Cell("q04", "0.001", physical=500), runs=3).seconds) == runs


def test_a_sampled_run_ends_in_the_state_of_a_full_run(chunked):
    cell = Cell("q15", "0.001", physical=1)
    whole, part = (outcome(chunked, cell.but(sample=sample), 1) for sample in (0, 50))
    assert whole.digest == part.digest
    assert (whole.fully_timed, part.fully_timed, part.batches) == (True, False, 50)
    assert whole.state_rows == part.state_rows


def test_a_wrong_answer_names_the_round_and_the_command(chunked):
    cell = Cell("q06", "0.001", physical=1000)
    last = last_time(rounds := chunked.rows("lineitem"), 1)
    found = outcome(chunked, cell, compared={last: [(1,)]})
    assert found.status == "wrong"
    assert found.problem.startswith(f"after {rounds} rounds:\n")
    assert "python -m harness answer q06 --sf 0.001" in found.problem
    assert f"--at {last}" in found.problem


@pytest.mark.parametrize(("engine", "at"), [("duckdb", 0), ("duckdb", -1), (EXAMPLE, 0), (EXAMPLE, -1)])
def test_a_wrong_answer_of_an_engine_without_a_stream_is_found(chunked, engine, at):
    cell = Cell("q06", "0.001", logical=2000, physical=1, engine=engine)
    right = answers(chunked, cell)
    time = sorted(right)[at]
    found = outcome(chunked, cell, compared=right | {time: [(1,)]})
    assert found.status == "wrong"
    rounds = min((time // TIMES_PER_ROUND + 1) * cell.logical, chunked.rows("lineitem"))
    assert found.problem.startswith(f"after {rounds} rounds")
    assert (
        f"--queries q06 --workload insert --logical 2000 --physical 1 --workers 1 --engines '{engine}'" in found.problem
    )


def test_several_workers_cut_their_own_batches(chunked):
    cell = Cell("q04", "0.001", physical=500, workers=2)
    found = outcome(chunked, cell)
    assert found.status == "ok", found


def test_windows_are_spread_evenly(chunked):
    work = workload(chunked, "insert")
    rounds = chunked.rows("lineitem")
    assert spans(work, ["lineitem"], 1000, 100) == [(0, rounds)]
    found = spans(work, ["lineitem"], 10, 100)
    assert len(found) == 5
    assert all(last - first == 200 and first % 10 == 0 for first, last in found)
    middle = sum(first + last for first, last in found) / 10
    assert abs(middle - rounds / 2) < 20
    assert spans(work, ["supplier"], 1, 0) == [(0, chunked.rows("supplier"))]


def test_a_load_is_not_timed(chunked):
    work, rounds = workload(chunked, "update:30"), chunked.rows("lineitem")
    assert spans(work, ["lineitem"], 7, 0) == [(rounds // 7 * 7, rounds + 30)]
    assert all(rounds // 2 * 2 <= first for first, _ in spans(work, ["orders"], 2, 10))
    assert spans(work, ["part"], 7, 0) == [(0, chunked.rows("part"))], "nothing changes after the load"
    cell = Cell("q01", "0.001", work.name, physical=7)
    found = outcome(chunked, cell)
    changed = sum(len(piece.rows) for piece in work.pieces("lineitem", rounds // 7 * 7, rounds + 30))
    assert (found.status, found.fully_timed, found.tuples) == ("ok", False, changed)


def test_unknown_engines_and_programs_are_named():
    with pytest.raises(DeltamarkError, match=r"unknown engine: duckbd; did you mean duckdb"):
        known_engine("duckbd")
    with pytest.raises(DeltamarkError, match=r"no such program: exec:nowhere\.py"):
        known_engine("exec:nowhere.py")


def test_all_runs_count_the_same_changes(chunked):
    cell, work = Cell("q04", "0.001", physical=100), workload(chunked, "insert")
    runs = [timed_run(cell, work, lambda: open_engine(cell, chunked, work)) for _ in range(2)]
    assert runs[0].changes == runs[1].changes > 0
    assert len(runs[0].latencies) == -(-chunked.rows("lineitem") // 100)


def test_the_state_of_our_engine_leaves_out_other_memory_of_the_process(chunked):
    cell, work, others = Cell("q18", "0.001", physical=100), workload(chunked, "insert"), []

    def opened():
        others.append(np.ones(1 << 23))
        return open_engine(cell, chunked, work)

    assert 0 < timed_run(cell, work, opened).state_bytes < others[0].nbytes


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_engine_has_its_own_name_and_a_known_output(name):
    engine = engine_class(name)
    assert engine.name == name
    assert (engine.capabilities.output == "stream") == issubclass(engine, StreamEngine)
    assert (engine.capabilities.output == "answers") == issubclass(engine, AnswerEngine)


def test_more_workers_than_an_engine_supports_are_refused(chunked):
    cell = Cell("q06", "0.001", workers=MAX_WORKERS + 1)
    message = rf"no such number of workers: {MAX_WORKERS + 1}; give from 1 to {MAX_WORKERS}"
    with pytest.raises(DeltamarkError, match=message):
        open_engine(cell, chunked, workload(chunked, "insert"))
