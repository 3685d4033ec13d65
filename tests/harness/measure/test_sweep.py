"""Sweeps, with a fake engine: what is checked with what, resuming, stopping, and what a plan says."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from deltamark.errors import DeltamarkError
from deltamark.harness.console import sweep_lines
from deltamark.harness.measure import grid
from deltamark.harness.measure.cell import Cell
from deltamark.harness.measure.grid import Asked, Task
from deltamark.harness.measure.messages import AskReply, CellReply
from deltamark.harness.measure.sweep import Effort, Plan, Sweep, estimate
from deltamark.harness.results import store
from deltamark.harness.results.record import SPREAD, Origin

ORIGIN = Origin("data", "code", "versions")
EFFORT = Effort(3, 600.0)
TASKS = [Task(Cell(name, "1", physical=size), 0) for size in (10, 100) for name in ("q01", "q04")]


class Fake:
    """Measures nothing, and says what it is told to."""

    def __init__(self, **said):
        self.said = {"seconds": [0.5], "tuples": 10, "batches": 9, "digest": "1 aa"} | said
        self.asked, self.measured, self.beside = [], [], []

    def ask(self, cell, rounds, _limit):
        self.asked.append((cell.query, rounds))
        return AskReply(once=0.25)

    def cell(self, request, beside=None):
        cell, compare = request.cell, list(request.compare)
        self.measured.append((cell, compare))
        self.beside.append(beside and beside.cell)
        digest = self.said["digest"]
        said = self.said | {"digest": digest(cell) if callable(digest) else digest}
        return CellReply(**said, latency=dict.fromkeys(SPREAD, 0.1), verified="oracle" if compare else "")


class Kept:
    """A sink in memory, which asks to stop after so many records."""

    def __init__(self, most=99):
        self.records, self._most = [], most

    def take_stop(self):
        return len(self.records) >= self._most

    def add(self, record):
        self.records.append(record)


def sweep(chunked, fake, sink, known=(), tasks=TASKS):
    made = Sweep(Plan.of(tasks, known, ORIGIN, EFFORT), chunked, fake, sink, lambda *_: None)
    made.run()
    return made


def test_the_first_of_a_stream_is_compared_with_duckdb_and_the_others_with_it(chunked):
    fake, sink = Fake(), Kept()
    sweep(chunked, fake, sink)
    assert [(record.query, record.physical, record.verified) for record in sink.records] == [
        ("q01", 10, "oracle"), ("q04", 10, "oracle"), ("q01", 100, "digest"), ("q04", 100, "digest"),
    ]  # fmt: skip
    rounds = chunked.rows("lineitem")
    assert fake.asked == [("q01", [rounds // 2, rounds]), ("q04", [rounds // 2, rounds])]


def test_another_stream_is_wrong(chunked):
    sink = Kept()
    sweep(chunked, Fake(digest=lambda cell: f"1 {cell.physical}"), sink)
    wrong = [record for record in sink.records if record.status == "wrong"]
    assert [record.physical for record in wrong] == [100, 100]
    assert wrong[0].problem == (
        "another stream than tpch insert q01 data sf1 embedded 1x10 w1: 1 100, not 1 10\n"
        "  python -m harness changes q01 --sf 1 --workload insert --logical 1 --physical 100 --digest"
    )


def test_failures_are_records_and_are_tried_again(chunked):
    sink = Kept()
    sweep(chunked, Fake(status="failed", problem="no memory"), sink)
    assert [record.status for record in sink.records] == ["failed"] * 4
    fake = Fake()
    sweep(chunked, fake, Kept(), sink.records)
    assert len(fake.measured) == 4


def test_timeouts_stand_until_more_time_is_given(chunked):
    sink = Kept()
    sweep(chunked, Fake(status="timeout"), sink)
    assert len(Plan.of(TASKS, sink.records, ORIGIN, EFFORT).left) == 0
    assert len(Plan.of(TASKS, sink.records, ORIGIN, Effort(3, 900.0)).left) == 4


@pytest.mark.parametrize("most", range(5))
def test_stopped_and_resumed_is_uninterrupted(chunked, most):
    whole, first, second = Kept(), Kept(most), Kept()
    sweep(chunked, Fake(), whole)
    sweep(chunked, Fake(), first)
    sweep(chunked, Fake(), second, first.records)
    same = [replace(record, took=0.0, at="") for record in whole.records]
    assert [replace(record, took=0.0, at="") for record in first.records + second.records] == same


def test_done_is_what_the_same_code_did_with_as_many_runs(chunked):
    sink = Kept()
    sweep(chunked, Fake(), sink)
    left = {
        effort.runs: len(Plan.of(TASKS, sink.records, origin, effort).left)
        for origin, effort in (
            (ORIGIN, EFFORT),
            (ORIGIN, Effort(4, 600.0)),
            (replace(ORIGIN, code="new"), Effort(2, 600.0)),
        )
    }
    assert left == {3: 0, 4: 4, 2: 4}


def test_the_default_grid_has_the_post_s_tables_and_ours():
    cells = [task.cell for task in grid.tasks(Asked("1"))]
    ours = [(cell.logical, cell.physical) for cell in cells if cell.query == "q01" and cell.engine == "embedded"]
    assert len(cells) == len(set(cells))
    assert {(1, 1000), (1, 10**6), (1, 1), (10, 10_000), (100_000, 1), (10**6, 1)} <= set(ours)
    assert {cell.workload for cell in cells} == {"insert", "window:100000", "refresh:10"}
    assert {cell.query for cell in cells if cell.variant} == {"q04", "q13", "q15", "q18"}
    assert {(cell.logical, cell.physical) for cell in cells if cell.engine == "duckdb"} == {
        (1000, 1), (100_000, 1), (10**6, 1),
    }  # fmt: skip


def test_settings_choose_cells():
    asked = Asked("1", ("q15",), ("all",), (1, 10), (100,), (), (1, 2), ("embedded",), ("window:10",))
    cells = [task.cell for task in grid.tasks(asked)]
    assert len(cells) == 4 * 2 * 2
    assert {cell.variant for cell in cells} == {"", "flat", "four-level", "ordered"}
    product = [task.cell for task in grid.tasks(Asked("1", ("q01",), product=(1000,), engines=("embedded",)))]
    assert [(cell.logical, cell.physical) for cell in product] == [(1, 1000), (10, 100), (100, 10), (1000, 1)]


def test_unknown_names_are_told():
    for asked, said in (
        (Asked("1", ("q41",)), r"unknown query: q41"),
        (Asked("1", ("q15",), ("flta",)), r"unknown variant: flta; did you mean flat"),
        (Asked("1", product=(1234,)), r"not a power of ten: 1234"),
    ):
        with pytest.raises(DeltamarkError, match=said):
            grid.tasks(asked)


def test_an_unknown_workload_is_told_before_anything_is_measured(chunked):
    fake = Fake()
    with pytest.raises(DeltamarkError, match=r"unknown workload: windw:5"):
        sweep(chunked, fake, Kept(), tasks=[*TASKS, Task(Cell("q01", "1", "windw:5"), 0)])
    assert fake.asked == []


def test_a_plan_says_what_it_is(chunked):
    sink = Kept(1)
    sweep(chunked, Fake(), sink)
    known = [replace(record, took=10.0) for record in sink.records]
    plan = Plan.of(TASKS, known, ORIGIN, EFFORT)
    assert sweep_lines.plan_line(plan, known) == (
        "4 cells = 2 queries x 2 batchings, up to 3 runs each, about 30 s; 1 already done"
    )


def test_estimates_go_by_the_same_cell_then_the_query_then_the_engine(chunked):
    sink = Kept()
    sweep(chunked, Fake(), sink)
    took = itertools.count(1)
    known = [replace(record, took=float(next(took))) for record in sink.records]
    assert estimate(TASKS[:1], known) == 1
    assert estimate([Task(Cell("q01", "1", physical=7), 0)], known) == 2
    assert estimate([Task(Cell("q09", "1", physical=7), 0)], known) == 2.5


def test_records_of_other_data_are_no_measure(chunked):
    """A machine's records are of all scale factors, and of all that the code has been."""
    for other in (replace(ORIGIN, data="other"), replace(ORIGIN, code="other")):
        sink = Kept()
        plan = Plan.of(TASKS[:1], [], other, EFFORT)
        Sweep(plan, chunked, Fake(digest="1 bb"), sink, lambda *_: None).run()
        fake, again = Fake(), Kept()
        sweep(chunked, fake, again, sink.records)
        assert [record.status for record in again.records] == ["ok"] * 4


def test_a_resumed_sweep_trusts_what_was_compared(chunked, tmp_path):
    with store.writing(tmp_path) as writer:
        sweep(chunked, Fake(), writer, tasks=TASKS[:1])
    fake = Fake(digest="another")
    sink = Kept()
    sweep(chunked, fake, sink, store.read(tmp_path).records, TASKS[:1] + TASKS[2:3])
    assert fake.asked == []
    assert [record.status for record in sink.records] == ["wrong"]


def test_where_there_is_room_cells_are_checked_in_pairs(chunked):
    fake, sink = Fake(), Kept()
    plan = Plan.of([*TASKS, Task(TASKS[0].cell.but(workers=2), 0)], (), ORIGIN, EFFORT)
    Sweep(plan, chunked, fake, sink, lambda *_: None, abreast=True).run()
    cells = [cell for cell, _ in fake.measured]
    assert cells == [task.cell for task in plan.tasks]
    assert fake.beside == [cells[1], None, cells[3], None, None]
    assert [record.verified for record in sink.records] == ["oracle", "oracle", "digest", "digest", "digest"]
