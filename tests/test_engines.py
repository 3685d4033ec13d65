"""Every engine's answers are DuckDB's over the rows that are live, and the measurer counts the same in each run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from datagen.workload import workload
from deltamark import DeltamarkError
from harness import measure
from harness.cell import Cell
from harness.checks import ask, checkpoints
from harness.job import Job, measured
from harness.subjects import known, open_check, open_subject
from harness.windows import spans
from queries.catalogue import QUERIES

EXAMPLE = f"exec:{Path(__file__).parent.parent / 'examples' / 'recompute.py'}"


def job(dataset, cell, runs=2, sample=0):
    work = workload(dataset, cell.workload)
    return Job(cell, sample, runs, ask(cell, dataset, work, checkpoints(work.rounds, cell.logical)))


@pytest.mark.parametrize("work", ["insert", "window:100"])
@pytest.mark.parametrize("name", QUERIES)
def test_recomputing_is_right(chunked, name, work):
    cell = Cell(name, "0.001", work, 1000, 1, engine="duckdb")
    found = measured(job(chunked, cell), chunked, lambda: None)
    assert found["status"] == "ok", found


@pytest.mark.parametrize(("name", "work"), [("q04", "insert"), ("q13", "window:100"), ("q15", "refresh:5")])
def test_a_program_behind_pipes_is_right(chunked, name, work):
    cell = Cell(name, "0.001", work, 2000, 1, engine=EXAMPLE)
    found = measured(job(chunked, cell, runs=1), chunked, lambda: None)
    assert found["status"] == "ok", found
    assert found["verified"] == "oracle"


@pytest.mark.parametrize(
    "cell", [Cell("q01", "0.001", physical=700), Cell("q01", "0.001", physical=9, variant="diffs")]
)
def test_ours_is_digested_and_compared(chunked, cell):
    found = measured(job(chunked, cell), chunked, lambda: None)
    assert found["status"] == "ok", found
    assert found["changes"] == int(found["digest"].split()[0])
    assert found["tuples"] == chunked.rows("lineitem")


def test_a_sample_ends_where_the_whole_does(chunked):
    cell = Cell("q15", "0.001", physical=1)
    whole, part = (measured(job(chunked, cell, 1, sample), chunked, lambda: None) for sample in (0, 50))
    assert whole["digest"] == part["digest"]
    assert (whole["whole"], part["whole"], part["batches"]) == (True, False, 50)
    assert whole["state_rows"] == part["state_rows"]


def test_a_wrong_answer_says_where(chunked):
    right = job(chunked, Cell("q06", "0.001", physical=1000))
    last = max(right.answers)
    wrong = replace(right, answers=right.answers | {last: [(1,)]})
    found = measured(wrong, chunked, lambda: None)
    assert found["status"] == "wrong"
    assert "python -m harness answer q06 --sf 0.001" in found["problem"]
    assert f"--rounds {last}" in found["problem"]


@pytest.mark.parametrize("engine", ["duckdb", EXAMPLE])
def test_a_wrong_answer_of_another_engine_is_seen(chunked, engine):
    right = job(chunked, Cell("q06", "0.001", logical=9000, physical=1, engine=engine))
    found = measured(replace(right, answers={max(right.answers): [(1,)]}), chunked, lambda: None)
    assert found["status"] == "wrong"


def test_several_workers_cut_their_batches(chunked):
    cell = Cell("q04", "0.001", physical=500, workers=2)
    found = measured(job(chunked, cell), chunked, lambda: None)
    assert found["status"] == "ok", found


def test_windows_lie_evenly(chunked):
    work = workload(chunked, "insert")
    rounds = chunked.rows("lineitem")
    assert spans(work, ["lineitem"], 1000, 100) == [(0, rounds)]
    found = spans(work, ["lineitem"], 10, 100)
    assert len(found) == 5
    assert all(last - first == 200 and first % 10 == 0 for first, last in found)
    middle = sum(first + last for first, last in found) / 10
    assert abs(middle - rounds / 2) < 20
    assert spans(work, ["supplier"], 1, 0) == [(0, chunked.rows("supplier"))]


def test_unknown_engines_and_programs_are_named(chunked):
    with pytest.raises(DeltamarkError, match="unknown engine: duckbd; did you mean duckdb"):
        known("duckbd")
    with pytest.raises(DeltamarkError, match="no such program: nowhere.py"):
        open_subject(Cell("q04", "0.001", engine="exec:nowhere.py"), chunked, workload(chunked, "insert"))


def test_a_program_that_ends_fails_its_cell(chunked, tmp_path):
    program = tmp_path / "ends.py"
    program.write_text("import sys; sys.stdin.readline()")
    cell = Cell("q06", "0.001", engine=f"exec:{program}")
    with pytest.raises(DeltamarkError, match="failed to open: it has ended"):
        open_check(cell, chunked, workload(chunked, "insert"), {})


def test_one_run_counts_what_another_does(chunked):
    cell, work = Cell("q04", "0.001", physical=100), workload(chunked, "insert")
    runs = [measure.run(cell, 0, work, lambda: open_subject(cell, chunked, work)) for _ in range(2)]
    assert runs[0].changes == runs[1].changes > 0
    assert len(runs[0].latencies) == -(-chunked.rows("lineitem") // 100)
