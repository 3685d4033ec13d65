"""Tables, from records alone: the post's columns, and the entries for missing and wrong numbers."""

from __future__ import annotations

import math
import re
from decimal import Decimal

import pytest
from support.harness.records import changed
from support.harness.table_records import record, texts

from deltamark.harness.console.table import FORMATS, NOTHING, Table, brief, rate, words
from deltamark.harness.results import published
from deltamark.harness.results.record import EngineInfo, latest
from deltamark.harness.suites.grid import GridSettings, grid_cells
from deltamark.harness.tables import cost
from deltamark.harness.tables.cost import Prices
from deltamark.harness.tables.relation import Relations
from deltamark.harness.tables.tpch import crossover_size, tables


def table(records, name):
    (found,) = [each for each in tables(records, "1") if each.name == name]
    return found


def test_the_table_of_physical_batches_has_the_columns_of_the_post():
    made = table([record("q01", 1, 1000, 0.5), record("q01", 1, 10_000, 2.0)], "physical")
    assert made.headers == ["query", "1,000", "10,000", "100,000", "1,000,000", "peak rate", "hot dog"]
    assert texts(made.rows[0]) == ["q01", "500 ms", "2.00 s", "-", "-", "12.00M/s", "1.27M/s"]


OTHER = EngineInfo("Other 1.0", "digest", "stream")


def other(name, logical, physical, took, **changes):
    made = record(name, logical, physical, took, engine="other=exec:./it", **changes)
    return changed(made, external=OTHER, outside=[2 * took])


def test_engines_are_compared_in_the_batches_in_which_both_were_measured():
    ours = [record("q01", 1, 1000, 0.5), record("q02", 1, 1000, 1.0), record("q01", 1, 1, 9.0)]
    theirs = [other("q01", 1, 1000, 2.0), other("q02", 1, 1000, 0.25), other("q01", 1, 10, 9.0)]
    means = table([*ours, *theirs], "engines")
    assert means.headers == ["engine", "queries", "1 x 1000", "to the fastest"]
    assert texts(means.rows[0]) == ["embedded", "2", "8.49M/s", "0.50x"]
    assert texts(means.rows[1]) == ["other", "2", "8.49M/s", "0.50x"]
    assert means.notes[-1] == "other is Other 1.0, timed by its own clock, which leaves out 50.0% (the pipe)"
    assert texts(table([*ours, *theirs], "engines-latency").rows[0]) == ["embedded", "2", "707 ms"]
    by_query = table([*ours, *theirs], "engines-1x1000")
    assert [texts(row) for row in by_query.rows] == [
        ["q01", "12.00M/s", "1.00x", "3.00M/s", "0.25x"], ["q02", "6.00M/s", "0.25x", "24.00M/s", "1.00x"],
    ]  # fmt: skip


def test_the_mean_of_an_engine_is_that_of_the_queries_that_it_answered():
    ours = [record(name, 1, 1000, took) for name, took in (("q01", 0.5), ("q02", 2.0))]
    theirs = [other("q01", 1, 1000, 1.0), changed(other("q02", 1, 1000, 1.0), status="refused", seconds=[])]
    means = table([*ours, *theirs], "engines")
    assert [texts(row)[1:] for row in means.rows] == [["2", "6.00M/s", "1.00x"], ["1", "6.00M/s", "0.50x"]]
    assert texts(table([*ours, *theirs], "engines-1x1000").rows[1]) == ["q02", "3.00M/s", "1.00x", "refused", "refused"]


def test_a_mean_of_fewer_queries_says_so():
    cells = [("q01", 1, 1000, 0.5), ("q02", 1, 1000, 2.0), ("q01", 1, 10, 1.0)]
    means = table([make(*cell) for cell in cells for make in (record, other)], "engines")
    assert texts(means.rows[0]) == ["embedded", "2", "6.00M/s (1)", "1.00x (1)", "6.00M/s", "1.00x"]
    assert any(note.startswith("(n): ") for note in means.notes)


def test_workers_and_workloads_of_engines_have_lines_of_their_own():
    places = [{"workers": 2}, {"workload": "window:9"}, {}]
    records = [make("q01", 1, 1000, 1.0, **place) for place in places for make in (record, other)]
    names = [texts(row)[0] for row in table(records, "engines").rows]
    assert names == [
        "embedded", "other", "embedded, 2 workers", "other, 2 workers", "embedded, window:9", "other, window:9",
    ]  # fmt: skip
    assert [each.name for each in tables(records, "1") if each.name.startswith("engines-1")] == [
        "engines-1x1000", "engines-1x1000-2-workers", "engines-1x1000-window:9",
    ]  # fmt: skip


def test_engines_of_this_project_alone_have_no_table_of_engines():
    records = [record("q01", 1, 1000), record("q01", 1, 1000, engine="duckdb")]
    assert not [each for each in tables(records, "1") if each.name.startswith("engines")]


PRICES = Prices("EUR", "a test", vcpu_hour=36.0, gb_hour=3.6)
"""A hundredth for a second of a core, and a thousandth for that of a GB."""


@pytest.fixture
def priced(monkeypatch):
    monkeypatch.setattr(cost, "prices", lambda: PRICES)


@pytest.mark.usefixtures("priced")
def test_a_cost_is_that_of_the_cpu_time_and_the_memory_of_the_fastest_run():
    ours = changed(record("q01", 1, 1000), seconds=[3.0, 2.0], cpu=[9.0, 6.0], peak_bytes=10**10, tuples=2_000_000)
    made = table([ours], "cost")
    assert made.headers == ["engine", "queries", "1 x 1000", "EUR"]
    assert texts(made.rows[0]) == ["embedded", "1", "3.00 s", "40.0"]


@pytest.mark.usefixtures("priced")
def test_the_cost_of_an_external_engine_is_that_in_its_clock():
    theirs = changed(other("q01", 1, 1000, 2.0), cpu=[90.0], timed_cpu=[6.0], untimed_cpu=[84.0])
    assert table([record("q01", 1, 1000), theirs], "cost").rows[0][2].text == "1.00 s"
    older = changed(theirs, timed_cpu=[], untimed_cpu=[])
    assert table([older], "cost").rows[0][2].text == "15.0 s"


@pytest.mark.usefixtures("priced")
def test_the_cost_of_engines_is_a_mean_over_queries():
    records = [changed(record(name, 1, 100_000), cpu=[cpu]) for name, cpu in (("q01", 6.0), ("q02", 24.0))]
    records.append(changed(record("q01", 100_000, 1), cpu=[6.0]))
    assert texts(table(records, "cost").rows[0]) == ["embedded", "2", "2.00 s", "20.0", "1.00 s (1)", "10.0 (1)"]


def test_nexmark_stands_beside_the_cpu_time_of_flink():
    made = table([record("q0", 1, 100_000, benchmark="nexmark", cpu=[2.0], tuples=920_000)], "cost-flink")
    assert made.headers == ["query", "embedded", "Flink / it", "Flink"]
    assert texts(made.rows[0]) == ["q0", "2.00 s", "3.23x", "6.45 s"]


def test_prices_can_be_read():
    assert cost.prices().vcpu_hour > cost.prices().gb_hour > 0


def test_the_table_of_products_has_the_columns_of_the_post():
    made = table([record("q01", 10**power, 10 ** (5 - power)) for power in range(6)], "product")
    columns = ["1 x 100000", "10 x 10000", "100 x 1000", "1000 x 100", "10000 x 10", "100000 x 1"]
    assert made.headers == ["query", *columns, "peak rate"]


def test_the_tables_of_workers_and_cost_have_the_columns_of_the_post():
    duck = record("q01", 100_000, 1, 0.7, engine="duckdb")
    records = [record("q01", 100_000, 1, 1.0), record("q01", 100_000, 1, 0.5, workers=2)]
    made = table([*records, duck], "workers")
    assert made.headers == ["query", "100000 x 1", "100000 x 1 -w2", "peak rate", "improvement", "COST"]
    assert texts(made.rows[0]) == ["q01", "1.00 s", "500 ms", "12.00M/s", "2.00x", "2"]
    faster = [*records, changed(duck, seconds=[0.1])]
    assert table(faster, "workers").rows[0][-1].text == "more than 2"


@pytest.mark.parametrize(
    ("status", "text"), [("wrong", "WRONG"), ("failed", "failed"), ("timeout", ">600s"), ("ok", "500 ms")]
)
def test_a_number_whose_answer_is_wrong_is_never_shown(status, text):
    made = table([record("q01", 1, 1000, status=status, limit=600.0)], "physical")
    assert made.rows[0][1].text == text
    assert made.rows[0][5].text == ("12.00M/s" if status == "ok" else "-")


def test_the_last_record_of_a_cell_counts_for_any_sample():
    whole, again = record("q01", 1, 1000, 3.0), record("q01", 1, 1000, 1.0)
    part = changed(record("q01", 1, 1000, 2.0), sample=5, cell=f"{whole.cell} sample5")
    assert table([whole, part], "physical").rows[0][1].text == "2.00 s"
    assert table([whole, part, again], "physical").rows[0][1].text == "1.00 s"
    assert latest([whole, part, again]) == [part, again]


def test_a_sample_shows_a_rate():
    assert table([record("q01", 1, 1000, fully_timed=False)], "physical").rows[0][1].text == "12.00M/s"


def test_the_spread_of_a_query_is_that_of_its_cells_with_several_runs():
    records = [
        changed(record("q01", *cell), seconds=seconds)
        for cell, seconds in (((1, 1000), [2.0, 1.0, 3.0]), ((1, 10), [1.0, 1.5]), ((1, 1), [9.0]))
    ]
    made = table([*records, record("q02", 1, 1000)], "spread")
    assert [texts(row) for row in made.rows] == [["q01", "2", "3", "1.50x", "2.25x", "3.00x", "1 x 1000"]]


def test_variants_stand_beside_the_post_s():
    made = table([record("q15", 1, 1000), record("q15", 1, 1000, variant="flat")], "variants")
    assert [(row[0].text, row[-1].text) for row in made.rows] == [
        ("q15 two-level", "query15+"), ("q15 flat", "query15"),
    ]  # fmt: skip


def test_the_tables_show_where_recomputing_overtakes():
    assert crossover_size([(1000.0, 10.0), (100_000.0, 0.1)]).value == 10_000
    assert crossover_size([(1000.0, 2.0), (100_000.0, 4.0)]).text == "above 100,000"
    assert crossover_size([(1000.0, 0.5)]).text == "below 1,000"


def test_recomputing_is_found_for_any_division_of_its_rounds():
    records = [record("q01", 1000, 1, 0.6), record("q01", 1, 1000, 6.0, engine="duckdb")]
    made = table(records, "crossover")
    assert texts(made.rows[0]) == ["q01", "10.0 ms", "100 ms", "-", "-", "-", "-", "above 1,000"]


def test_other_engines_stand_beside_ours():
    duckdb = record("q01", 1000, 1, 6.0, engine="duckdb")
    theirs = [record("q01", 1000, 1, 12.0, engine="exec:it.py"), record("q01", 100_000, 1, 12.0, engine="exec:it.py")]
    made = table([record("q01", 1000, 1, 0.6), duckdb, *theirs], "crossover")
    assert [row[0].text for row in made.rows] == ["q01", "q01 exec:it.py"]
    assert made.rows[1][-1].text == "below 1,000"
    two = [record("q01", 100_000, 1, 5.0, workers=2, engine="exec:it.py")]
    assert texts(table([record("q01", 100_000, 1, 6.0), *theirs, *two], "workers").rows[0])[-1] == "2"


def test_several_workers_are_shown_wherever_they_were_measured():
    records = [record("q01", 1, 1000, 1.0), record("q01", 1, 1000, 0.5, workers=4)]
    made = table(records, "workers-1x1000")
    assert made.headers[1:3] == ["1 x 1000", "1 x 1000 -w4"]
    assert texts(made.rows[0])[-2:] == ["2.00x", "-"]


def on_spark(maintained, *recomputed):
    """Measure a query on Spark, in batches of 10 rows each."""
    trace = [[10 * at, took] for at, took in enumerate(recomputed, 1)]
    cell = {"logical": 1_000_000, "physical": 1, "workers": 2}
    return [
        record("q01", **cell, took=maintained, engine="spark"), record("q01", **cell, engine="spark-sql", trace=trace)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("recomputed", "wins"), [((0.5, 2.0, 0.9, 1.1), "40"), ((2.0, 2.0), "10"), ((2.0, 1.0), "never"), ((), "-")]
)
def test_maintaining_wins_on_spark_from_where_it_never_loses_again(recomputed, wins):
    assert texts(table(on_spark(1.0, *recomputed), "distributed").rows[0])[-4] == wins


@pytest.mark.parametrize(("rows", "shown"), [(1234, ["1,234", "5.0"]), (0, ["-", "-"])])
def test_on_spark_the_spread_of_batches_and_the_stored_state_are_shown(rows, shown):
    maintained = record("q01", 1_000_000, 1, workers=2, engine="spark", state_rows=rows, state_bytes=5_000_000)
    maintained = changed(maintained, p50=2.0, p99=3.0)
    assert texts(table([maintained], "distributed").rows[0])[-3:] == ["1.50x", *shown]


def test_spark_is_compared_with_records_of_its_own_commit():
    cell = {"logical": 1_000_000, "physical": 1}
    spark = changed(record("q01", **cell, took=16.0, workers=2, engine="spark"), commit="new")
    own, last = (record("q01", **cell, took=took) for took in (8.0, 1.0))
    assert texts(table([changed(own, commit="new"), last, spark], "distributed").rows[0])[-6] == "2.00x"
    assert texts(table([own, last, spark], "distributed").rows[0])[-6] == "16.00x"


def test_spark_stands_in_a_table_of_its_own():
    records = [*on_spark(1.0, 2.0), record("q01", 1_000_000, 1, engine="duckdb")]
    found = {made.name for made in tables(records, "1")}
    assert table(records, "distributed").rows[0][0].text == "q01"
    assert not found & {"crossover", "others", "physical", "product", "small"}


def test_the_whole_stream_stands_against_the_query_once():
    coarse = record("q01", 100_000, 1, 0.5, oracle_seconds=0.25)
    made = table([coarse, record("q01", 1, 100_000, 0.75), record("q01", 1, 1000, 0.81)], "load")
    assert texts(made.rows[0]) == ["q01", "250 ms", "500 ms", "2.00x", "750 ms", "3.00x", "1.00 ms"]


def test_workloads_have_rates_relative_to_insert():
    insert = record("q01", 1, 100_000, 0.5)
    update = record("q01", 1, 10, 1.0, workload="update:9", fully_timed=False)
    skewed = record("q02", 1, 100_000, 0.25, workload="zipf:1")
    theirs = [other("q01", 1, 100_000, 1.0), other("q01", 1, 100_000, 4.0, workload="zipf:1")]
    measured = [insert, update, record("q02", 1, 100_000, 0.5), skewed, *theirs]
    made = table(measured, "workloads")
    assert made.headers == ["query", "insert", "update:9, 1 x 10", "zipf:1"]
    assert [texts(row) for row in made.rows] == [
        ["q01", "12.00M/s", "0.50x", "-"], ["q02", "12.00M/s", "-", "2.00x"], ["q01 other", "6.00M/s", "-", "0.25x"],
    ]  # fmt: skip
    means = table(measured, "workload-means")
    assert [texts(row) for row in means.rows] == [["embedded", "0.50x", "2.00x"], ["other", "-", "0.25x"]]


def test_every_measured_cell_is_in_a_table():
    settings = GridSettings(
        sf=Decimal(1), queries=("q01", "q15"), variants=("all",), logical=(1, 3, 1000), physical=(1, 7, 1000),
        product=(100_000,), workers=(1, 2), engines=("embedded", "duckdb"), workload=("insert", "window:9"),
    )  # fmt: skip
    cells = [cell for each in (settings, GridSettings(sf=Decimal(1))) for cell in grid_cells(each)]
    records = [
        changed(record(each.query, each.logical, each.physical, workers=each.workers, engine=each.engine,
                       workload=each.workload, variant=each.variant), seconds=[1000.0 + at], tuples=7, batches=1)
        for at, each in enumerate(cells)
    ]  # fmt: skip
    found = Relations.of_queries(records).latest
    shown = {entry.value for made in tables(found, "1") for row in made.rows for entry in row}
    missing = [each.cell for each in found if {each.best, each.rate} & shown == set()]
    assert missing == []


def test_the_post_at_larger_logical_batches_stands_beside_our_next_finer_column():
    made = table([record("q01", 10_000, 10, 1.0), record("q01", 10_000, 10, 0.5, workers=2)], "post-workers")
    assert made.headers[1:] == [
        "theirs 100Kx1", "ours 10Kx10", "ratio 100Kx1", "theirs 100Kx1 -w2", "ours 10Kx10 -w2", "ratio 100Kx1 -w2",
    ]  # fmt: skip
    assert texts(made.rows[0]) == ["q01", "7.56M/s", "6.00M/s", "0.79x", "8.91M/s", "12.00M/s", "1.35x"]


def test_the_post_s_dataflows_stand_beside_the_same_of_ours():
    records = [record("q15", 1, 1000), record("q15", 1, 1000, 1.0, variant="flat")]
    made = table(records, "post-physical")
    assert [texts(row)[:4] for row in made.rows] == [
        ["q15 flat", "0.17M/s", "6.00M/s", "35.52x"], ["q15", "2.10M/s", "12.00M/s", "5.70x"],
    ]  # fmt: skip


def test_a_note_has_the_time_for_cutting_batches():
    made = table([record("q01", 1, 1000, cut=[0.25, 0.2]), record("q02", 1, 1000, cut=[1.5])], "physical")
    assert "not included: cutting the batches and making their times, 200 ms to 1.5 s" in made.notes


def test_published_tables_are_whole():
    post = [each for each in published.figures() if each.source == "post" and each.measure == "seconds"]
    assert {name: sum(each.table == name for each in post) for name in ("physical", "product", "workers")} == {
        "physical": 4 * 13, "product": 6 * 22, "workers": 2 * 22,
    }  # fmt: skip
    assert len(published.hot_dog()) == 22
    assert {each.source for each in published.figures()} == set(published.sources())


def test_a_table_has_several_formats():
    made = table([record("q01", 1, 1000), record("q02", 1, 1000, status="failed")], "physical")
    assert re.search(r"^q02 +failed +- ", FORMATS["text"](made), re.MULTILINE)
    assert re.search(r"^\| q01 +\| +500 ms \|", FORMATS["markdown"](made), re.MULTILINE)
    assert "physical,q01,0.5,-,-,-,12000000.0,1270000.0" in FORMATS["csv"](made).splitlines()


def test_numbers_are_written_with_three_digits():
    assert [brief(each).text for each in (12.345, 0.1234, 0.00123)] == ["12.3 s", "123 ms", "1.23 ms"]
    assert [brief(each).text for each in (1.5, 1234.5, 4.5e-6, 2e-9)] == ["1.5 s", "1,234 s", "4.5 \u00b5s", "2 ns"]
    assert [rate(each).text for each in (17, 768_000, 36.5e6)] == ["17/s", "768.00K/s", "36.50M/s"]
    assert rate(math.nan).text == "-"


def test_a_column_has_one_unit():
    rates = [
        [words("q01"), rate(2.5e6), brief(1e-5)],
        [words("q02"), rate(50e3), brief(0.02)],
        [NOTHING, rate(9e9), brief(3)],
    ]
    made = Table("t", "Title", ["query", "rate", "time"], rates)
    assert [texts(row) for row in made.rows] == [
        ["q01", "2.50M/s", "0.0100 ms"], ["q02", "0.05M/s", "20.0 ms"], ["-", "9,000.00M/s", "3,000 ms"],
    ]  # fmt: skip
