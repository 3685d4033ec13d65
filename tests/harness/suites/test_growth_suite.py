"""The suite of growth: an engine is certified by its times, whatever it declares."""

from __future__ import annotations

import runpy

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.harness.programs import EXAMPLE, EXAMPLE_FILE, example_in_thread
from support.harness.suite_records import base, growths, record, suite_tables, texts
from support.harness.tiny_data import tiny
from support.harness.written_workloads import listed, swap

from deltamark.datagen.tpch import RELATIONS
from deltamark.datagen.workloads.registry import workload
from deltamark.datagen.workloads.swap import BLOCK, swapped
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.cli.main import main
from deltamark.harness.engines.external import named
from deltamark.harness.suites import growth
from deltamark.harness.tables.growth import recorded_grades, undisturbed

ORDERS = (100, 200, 400, 1000, 2000)
LINES = 2


class Counting(runpy.run_path(str(EXAMPLE_FILE))["Engine"]):
    """The engine that runs the query again, which declares that it does not. Its seconds are counted rows."""

    @staticmethod
    def seconds(live):
        return 1e-9 * live

    def hello(self, request):
        return {**super().hello(request), "maintains": True}

    def apply(self, request):
        reply = super().apply(request)
        return {**reply, "seconds": self.seconds(self.state(request)["rows"])}


class Steady(Counting):
    @staticmethod
    def seconds(live):
        del live
        return 1e-6


@pytest.fixture(autouse=True)
def _greetings_of_each_test():
    """Forget what the example has said of itself in other tests, where it declares that it recomputes."""
    named.greeting.cache_clear()
    yield
    named.greeting.cache_clear()


@pytest.fixture
def bases(tmp_path):
    """Return data of several sizes, by the number of orders."""
    return {orders: tiny(tmp_path / str(orders), [LINES] * orders, 5, 1024) for orders in ORDERS}


def measured(bases, monkeypatch, engine):
    """Return the records of q06 over all bases."""
    monkeypatch.setattr(growth, "MAX_RUNS", 1)
    monkeypatch.setattr(growth, "RUN_SECONDS", 0.0)
    example_in_thread(monkeypatch, engine)
    cell = Cell("q06", "0.001", engine=EXAMPLE)
    found = []
    for orders, dataset in bases.items():
        (reply,) = growth.measure(cell.but(physical=1), dataset.directory, 2)
        assert reply.verified == "oracle"
        found.append(base(f"q06 {orders} mine", reply.figures))
    return found


def graded(name="q06 mine"):
    return record(
        name, {"grade": [2], "recomputed": [0], "compared": [9]}, suite="coverage", dataset="SF 0.1",
        table="coverage", cell="x",
    )  # fmt: skip


def test_an_engine_that_recomputes_is_certified_as_such_although_it_declares_to_maintain(bases, monkeypatch):
    found = measured(bases, monkeypatch, Counting)
    assert recorded_grades(found) == {("tpch", "q06", "mine"): "recomputed"}
    assert texts(suite_tables([graded()], "coverage")[0]) == [["q06", "maintained, declared"]]
    assert texts(suite_tables([graded(), *found], "coverage")[0]) == [["q06", "recomputed"]]


def test_an_engine_whose_batches_take_a_constant_time_is_maintained(bases, monkeypatch):
    found = measured(bases, monkeypatch, Steady)
    assert recorded_grades(found) == {("tpch", "q06", "mine"): "maintained"}
    sizes = [each.figures["base"] for each in found]
    assert sizes == [[LINES * orders] for orders in ORDERS]
    assert {tuple(each.figures["rows"]) for each in found} == {(growth.MIN_BATCHES * LINES,)}
    assert {tuple(each.figures["batches"]) for each in found} == {(growth.MIN_BATCHES,)}


def test_a_cycle_of_swap_takes_rows_of_every_relation_away_and_brings_them_back(tmp_path):
    dataset = tiny(tmp_path, [1, 2, 3], 4)
    cycle = BLOCK * len(swapped(RELATIONS))
    work = workload(dataset, f"swap:{2 * cycle}")
    changes = sorted(listed(work))
    assert changes == sorted(swap(dataset, 2 * cycle))
    moved = [change for change in changes if change[0] >= work.load_rounds]
    assert {name for _, name, _, _ in moved} == {*RELATIONS} - {"nation", "region"}
    assert sum(diff for *_, diff in moved) == 0
    first, second = (
        [(at % cycle, *rest) for at, *rest in moved if (at - work.load_rounds) // cycle == n] for n in (0, 1)
    )
    assert sorted(first) == sorted(second)


def test_the_table_has_the_exponent_the_steepest_input_the_state_and_the_amplification():
    (table,) = suite_tables(growths("q01", "mine", 0.04), "growth")
    assert table.headers[2:4] == ["change at 1", "change at 50"]
    assert texts(table) == [[
        "q01", "mine", "30.0 \u00b5s", "35.1 \u00b5s", "0.04 [0.04, 0.04]", "-", "maintained", "customer 0.04", "25",
        "0.00", "0.25",
    ]]  # fmt: skip
    (table,) = suite_tables(growths("q01", "mine", 1.0), "growth")
    assert texts(table)[0][4:7] == ["1.00 [1.00, 1.00]", "1.00 [1.00, 1.02]", "recomputed"]


def test_the_steepest_input_is_the_relation_with_the_largest_exponent():
    rows = growths("q01", "mine", 0.04)
    for each in rows:
        each.figures["seconds_customer"] = [2e-3]
    (table,) = suite_tables(rows, "growth")
    assert texts(table)[0][7] == "orders 0.04"


def test_a_size_without_a_time_leaves_no_certificate():
    rows = [*growths("q01", "mine", 0.04)[:-1], base("q01 50 mine", status="timeout", limit=5.0)]
    assert recorded_grades(rows) == {}
    assert texts(suite_tables(rows, "growth")[0])[0][2:7] == [">5s"] * 5
    refused = [base(f"q01 {scale} mine", note="refused: too hard") for scale in (1, 2, 3)]
    assert texts(suite_tables(refused, "growth")[0])[0][2:7] == ["refused"] * 5


def test_a_query_that_reads_nothing_that_moves_has_no_certificate():
    rows = [base(f"q01 {scale} mine", {"rows": [0], "batches": [0], "base": [5], "bytes": [0]})
            for scale in (1, 2, 3)]  # fmt: skip
    assert recorded_grades(rows) == {}
    assert texts(suite_tables(rows, "growth")[0])[0][2:7] == ["-"] * 5


def test_a_run_has_as_many_batches_as_fit():
    def fitting(seconds):
        return growth._fitting([[growth.Applied(4, 4, 0, each)] for each in (9e9, seconds)])

    assert [fitting(seconds) for seconds in (1e-5, 0.0, 1000.0)] == [BLOCK, BLOCK, growth.MIN_BATCHES]
    assert fitting(growth.RUN_SECONDS / 5) == 5 * growth.MIN_BATCHES
    assert fitting(growth.RUN_SECONDS / 5.2) % 2 == 0


def test_runs_that_other_programs_disturb_are_left_out():
    assert undisturbed([1.4, 1.2, 9.0]) == 1.2
    assert undisturbed([1.0, 1.2, 9.0, 1.1, 7.0, 8.0, 9.0, 5.0, 6.0]) == 1.1


def test_the_command_prints_the_table_and_refuses_other_sizes(chunked, tmp_path, capsys):
    words = ["bench", "SUITE=growth", f"DATA={chunked.directory.parent}", f"RESULTS={tmp_path}"]
    assert main([*words, "QUERIES=q12", "ENGINES=embedded,duckdb", "SIZES=0.001"]) == 0
    out = capsys.readouterr().out
    assert "Certificates of incrementality" in out
    assert out.count("checked oracle") == 2
    assert main([*words, "SIZES=0.0001"]) == 2
    assert "not a scale factor: '0.0001'" in capsys.readouterr().err
    assert main(["bench", "SUITE=windows", "SIZES=0.5", f"RESULTS={tmp_path}"]) == 2
    assert "no value of a setting of the suite windows" in capsys.readouterr().err


def test_a_benchmark_of_one_size_has_no_growth(tmp_path, capsys):
    (tmp_path / "one").mkdir()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "one" / "t.parquet")
    (tmp_path / "one" / "q.sql").write_text("SELECT count(*) AS n FROM t")
    assert main(["plan", "SUITE=growth", f"BENCHMARK={tmp_path / 'one'}", f"RESULTS={tmp_path}"]) == 2
    assert "no growth of a benchmark of one size" in capsys.readouterr().err
