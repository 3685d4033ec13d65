"""Sweeps with a fake engine: comparisons, resumption, stops, and the output of a plan."""

from __future__ import annotations

import itertools
from decimal import Decimal

import pytest
from support.harness.records import changed
from support.harness.suite_records import Silent, Sink
from support.harness.temporary_query import temporary_query

from deltamark.datagen.feed import TIMES_PER_ROUND, last_time
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.measure.client import CellReply, OracleReply
from deltamark.harness.results import store
from deltamark.harness.results.record import SPREAD, Origin
from deltamark.harness.suites.grid import GridSettings, grid_cells
from deltamark.harness.suites.plan import Effort, Plan
from deltamark.harness.suites.reporter import plan_line
from deltamark.harness.suites.suite import Runner
from deltamark.harness.suites.throughput import Checks, ThroughputSuite

ORIGIN = Origin("code", "versions")
EFFORT = Effort(3, 600.0)
CELLS = [Cell(name, "1", physical=size, data="data") for size in (10, 100) for name in ("q01", "q04")]


FIGURES = {"seconds": [0.5], "tuples": [10], "batches": [9], **{name: [0.1] for name in SPREAD}}


class Fake:
    """A measurement server without an engine, whose replies are given."""

    def __init__(self, **said):
        self.said = {"digest": "1 aa"} | said
        self.requested, self.moments, self.measured, self.beside = [], [], [], []

    def oracle_answers(self, cell, rounds, _limit, moments=()):
        self.requested.append((cell.query, rounds))
        self.moments += moments
        return OracleReply(once=0.25)

    def cell(self, settings, beside=None):
        cell = settings.cell
        compared = sorted([*(last_time(each, cell.logical) for each in settings.compare), *settings.times])
        self.measured.append((cell, compared))
        self.beside.append(beside and beside.cell)
        said = {"verified": "oracle" if compared else "", "compared": compared} | self.said
        said |= {"digest": said["digest"](cell) if callable(said["digest"]) else said["digest"]}
        compared = said.pop("compared")
        return CellReply(**said, figures=FIGURES | ({"compared": compared} if compared else {}))


def run(plan, chunked, fake, sink, *, checks_in_pairs=False):
    Runner(plan, Checks(plan, chunked, fake, checks_in_pairs).measure, sink, Silent()).run()


def sweep(chunked, fake, sink, known=(), cells=CELLS):
    run(Plan(cells, known, ORIGIN, EFFORT), chunked, fake, sink)


def remaining(known, origin=ORIGIN, effort=EFFORT):
    return len(Plan(CELLS, known, origin, effort).remaining)


def test_the_first_of_a_stream_is_compared_with_duckdb_and_the_others_with_it(chunked):
    fake, sink = Fake(), Sink()
    sweep(chunked, fake, sink)
    assert [(record.query, record.physical, record.verified) for record in sink.records] == [
        ("q01", 10, "oracle"), ("q04", 10, "oracle"), ("q01", 100, "digest"), ("q04", 100, "digest"),
    ]  # fmt: skip
    rounds = chunked.rows("lineitem")
    assert fake.requested == [("q01", [rounds // 2, rounds]), ("q04", [rounds // 2, rounds])]


def test_another_stream_is_wrong(chunked):
    sink = Sink()
    sweep(chunked, Fake(digest=lambda cell: f"1 {cell.physical}"), sink)
    wrong = [record for record in sink.records if record.status == "wrong"]
    assert [record.physical for record in wrong] == [100, 100]
    assert wrong[0].problem == (
        "its change stream differs from that of tpch insert q01 data sf1 embedded 1x10 w1: 1 100, not 1 10. "
        f"That one equals DuckDB's answers at the times {', '.join(map(str, sink.records[0].compared))}. "
        "This one was not compared with DuckDB's answers. The first difference, and DuckDB's answer there:\n"
        "  python -m harness verify q01 --sf 1 --workload insert --logical 1 --physical 100"
    )


ENGINES = [Cell("q04", "1", physical=10, engine=name, data="data") for name in ("spark", "embedded")]


def inside(times):
    return [time for time in times if time % TIMES_PER_ROUND != TIMES_PER_ROUND - 1]


@pytest.mark.parametrize("cells", [ENGINES, ENGINES[::-1]], ids=lambda cells: cells[0].engine)
def test_each_engine_is_compared_at_the_same_times_inside_batches_whichever_comes_first(chunked, cells):
    fake, sink = Fake(), Sink()
    sweep(chunked, fake, sink, cells=cells)
    assert [record.verified for record in sink.records] == ["oracle", "oracle"]
    one, other = (times for _, times in fake.measured)
    assert inside(one) == inside(other) == [time for _, time in fake.moments] != []
    assert {logical for logical, _ in fake.moments} == {1}


def test_two_engines_that_both_equal_duckdb_but_differ_are_named_with_the_times_of_each(chunked):
    sink = Sink()
    sweep(chunked, Fake(digest=lambda cell: f"1 {cell.engine}"), sink, cells=ENGINES)
    first, second = sink.records
    assert (first.status, second.status) == ("ok", "wrong")
    times = ", ".join(map(str, first.compared))
    assert second.problem.startswith(
        "its change stream differs from that of tpch insert q04 joined sf1 spark 1x10 w1: 1 embedded, not 1 spark. "
        f"That one equals DuckDB's answers at the times {times}. "
        f"This one equals DuckDB's answers at the times {times}, too, so one of the two is wrong elsewhere. "
    )
    assert second.problem.endswith("verify q04 --sf 1 --workload insert --logical 1 --physical 10 --engine spark")


@pytest.mark.parametrize("compared", [[], [7], [39, 407]], ids=str)
def test_a_stream_that_was_compared_at_ends_of_batches_alone_is_no_reference(chunked, compared):
    """Records of older code have no times at all."""
    sink = Sink()
    sweep(chunked, Fake(digest="1 late", compared=compared), sink, cells=ENGINES[:1])
    assert [record.verified for record in sink.records] == ["oracle"]
    again = Sink()
    sweep(chunked, Fake(), again, sink.records, ENGINES)
    assert [(each.engine, each.status, each.verified) for each in again.records] == [("embedded", "ok", "oracle")]


def test_a_wrong_stream_is_no_reference(chunked):
    sink = Sink()
    sweep(chunked, Fake(status="wrong", digest="1 late"), sink, cells=ENGINES[:1])
    again = Sink()
    sweep(chunked, Fake(), again, sink.records, ENGINES[1:])
    assert [record.status for record in again.records] == ["ok"]


def test_failures_are_records_and_are_tried_again(chunked):
    sink = Sink()
    sweep(chunked, Fake(status="failed", problem="no memory"), sink)
    assert [record.status for record in sink.records] == ["failed"] * 4
    fake = Fake()
    sweep(chunked, fake, Sink(), sink.records)
    assert len(fake.measured) == 4


def test_timeouts_stand_until_more_time_is_given(chunked):
    sink = Sink()
    sweep(chunked, Fake(status="timeout"), sink)
    assert remaining(sink.records) == 0
    assert remaining(sink.records, effort=Effort(3, 900.0)) == 4


@pytest.mark.parametrize("most", range(5))
def test_a_stopped_and_resumed_sweep_equals_an_uninterrupted_one(chunked, most):
    whole, first, second = Sink(), Sink(most), Sink()
    sweep(chunked, Fake(), whole)
    sweep(chunked, Fake(), first)
    sweep(chunked, Fake(), second, first.records)
    same = [changed(record, elapsed=0.0, finished_at="") for record in whole.records]
    assert [changed(record, elapsed=0.0, finished_at="") for record in first.records + second.records] == same


def test_a_cell_is_done_if_the_same_code_measured_it_with_as_many_runs(chunked):
    sink = Sink()
    sweep(chunked, Fake(), sink)
    left = {
        effort.runs: remaining(sink.records, origin, effort)
        for origin, effort in (
            (ORIGIN, EFFORT),
            (ORIGIN, Effort(4, 600.0)),
            (changed(ORIGIN, code="new"), Effort(2, 600.0)),
        )
    }
    assert left == {3: 0, 4: 4, 2: 4}


def test_the_default_grid_has_the_post_s_tables_and_ours():
    cells = grid_cells(GridSettings(sf=Decimal(1)))
    ours = [(cell.logical, cell.physical) for cell in cells if cell.query == "q01" and cell.engine == "embedded"]
    assert len(cells) == len(set(cells))
    assert {(1, 1000), (1, 10**6), (1, 1), (10, 10_000), (100_000, 1), (10**6, 1)} <= set(ours)
    assert {cell.workload for cell in cells} == {"insert", "window:100000", "refresh:10"}
    assert {cell.query for cell in cells if cell.variant} == {"q04", "q13", "q15", "q18"}
    assert {(cell.logical, cell.physical) for cell in cells if cell.engine == "duckdb"} == {
        (1000, 1), (100_000, 1), (10**6, 1),
    }  # fmt: skip


def test_settings_choose_cells():
    settings = GridSettings(
        sf=Decimal(1), queries=("q15",), variants=("all",), logical=(1, 10), physical=(100,), workers=(1, 2),
        engines=("embedded",), workload=("window:10",),
    )  # fmt: skip
    cells = grid_cells(settings)
    assert len(cells) == 5 * 2 * 2
    assert {cell.variant for cell in cells} == {"", "flat", "four-level", "ordered", "sql"}
    product = grid_cells(GridSettings(sf=Decimal(1), queries=("q01",), product=(1000,), engines=("embedded",)))
    assert [(cell.logical, cell.physical) for cell in product] == [(1, 1000), (10, 100), (100, 10), (1000, 1)]


def test_unknown_names_are_errors():
    for settings, message in (
        (GridSettings(sf=Decimal(1), queries=("q41",)), r"unknown query: q41"),
        (
            GridSettings(sf=Decimal(1), queries=("q15",), variants=("flta",)),
            r"unknown variant: flta; did you mean flat",
        ),
        (GridSettings(sf=Decimal(1), product=(1234,)), r"not a power of ten: 1234"),
    ):
        with pytest.raises(DeltamarkError, match=message):
            grid_cells(settings)


def test_an_unknown_workload_is_an_error_before_any_measurement(chunked):
    fake = Fake()
    with pytest.raises(DeltamarkError, match=r"unknown workload: windw:5"):
        sweep(chunked, fake, Sink(), cells=[*CELLS, Cell("q01", "1", "windw:5")])
    assert fake.requested == []


def test_a_plan_has_a_headline(chunked):
    sink = Sink(1)
    sweep(chunked, Fake(), sink)
    known = [changed(record, elapsed=10.0) for record in sink.records]
    plan = Plan(CELLS, known, ORIGIN, EFFORT)
    assert plan_line(plan, ThroughputSuite().headline(plan)) == (
        "4 cells = 2 queries x 2 batchings, up to 3 runs each, about 30 s; 1 already done"
    )


def test_estimates_go_by_the_same_cell_then_the_query_then_the_engine(chunked):
    sink = Sink()
    sweep(chunked, Fake(), sink)
    took = itertools.count(1)
    plan = Plan(CELLS, [changed(record, elapsed=float(next(took))) for record in sink.records], ORIGIN, EFFORT)
    assert plan.estimate(CELLS[:1]).seconds == 1
    assert plan.estimate([Cell("q01", "1", physical=7)]).seconds == 2
    assert plan.estimate([Cell("q09", "1", physical=7)]).seconds == 2.5


def test_digests_of_other_data_or_code_are_not_compared(chunked):
    """A machine has records of all scale factors, and of older code."""
    other_data = [CELLS[0].but(data="other")]
    for cells, origin in ((other_data, ORIGIN), (CELLS[:1], changed(ORIGIN, code="other"))):
        sink = Sink()
        run(Plan(cells, [], origin, EFFORT), chunked, Fake(digest="1 bb"), sink)
        fake, again = Fake(), Sink()
        sweep(chunked, fake, again, sink.records)
        assert [record.status for record in again.records] == ["ok"] * 4


def test_a_resumed_sweep_trusts_compared_digests(chunked, tmp_path):
    with store.writing(tmp_path) as writer:
        sweep(chunked, Fake(), writer, cells=CELLS[:1])
    fake = Fake(digest="another")
    sink = Sink()
    sweep(chunked, fake, sink, store.read(tmp_path).records, CELLS[:1] + CELLS[2:3])
    assert fake.requested == []
    assert [record.status for record in sink.records] == ["wrong"]


def test_records_of_a_removed_query_do_not_stop_a_sweep(chunked, tmp_path):
    sink, again = Sink(), Sink()
    with temporary_query(tmp_path) as name:
        sweep(chunked, Fake(), sink, cells=[CELLS[0].but(query=name, data="")])
    sweep(chunked, Fake(), again, sink.records)
    assert [record.status for record in again.records] == ["ok"] * len(CELLS)


def test_cells_are_checked_in_pairs_if_two_fit(chunked):
    fake, sink = Fake(), Sink()
    plan = Plan([*CELLS, CELLS[0].but(workers=2)], (), ORIGIN, EFFORT)
    run(plan, chunked, fake, sink, checks_in_pairs=True)
    cells = [cell for cell, _ in fake.measured]
    assert cells == plan.cells
    assert fake.beside == [cells[1], None, cells[3], None, None]
    assert [record.verified for record in sink.records] == ["oracle", "oracle", "digest", "digest", "digest"]
