"""The Star Schema Benchmark, Nexmark and window functions: their rows, and right answers while rows come and go."""

from __future__ import annotations

from decimal import Decimal
from random import Random

import duckdb
import pytest
from support.harness.local_tasks import tasks_in_process

from deltamark.datagen.make import Wanted, make_data
from deltamark.datagen.workloads.registry import small_workloads, workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import benchmark
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check import verify
from deltamark.harness.check.oracle import sql_values
from deltamark.harness.check.verify import golden_cells, read_golden
from deltamark.harness.cli.main import main

WORKLOADS = {"ssb": ("insert", "window:300", "update:5"), "nexmark": ("insert", "slide:200"), "windows": ("changes",)}
QUERIES = [(name, query) for name in WORKLOADS for query in benchmark(name).queries]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Return the data of the benchmarks at the smallest scale factor, by name."""
    where = tmp_path_factory.mktemp("data")
    with tasks_in_process():
        return {
            name: make_data(Wanted(where, Decimal("0.001"), source=benchmark(name).source), lambda *_: None)[0]
            for name in WORKLOADS
        }


@pytest.mark.draws(9)
@pytest.mark.parametrize(("name", "query"), QUERIES)
def test_an_answer_equals_duckdbs_at_any_time(stored, name, query):
    chance = Random()
    for work in WORKLOADS[name]:
        cell = Cell(query, "0.001", work, chance.choice((1, 7)), chance.choice((13, 1000)), benchmark=name)
        times = verify.random_times(workload(stored[name], work), cell.reads, cell.logical, 4, chance)
        assert verify.check_answers(cell, stored[name], times) == "", cell


@pytest.fixture(scope="module")
def database(stored):
    """Return a database with the rows of the benchmarks; the names of their columns do not clash."""
    with duckdb.connect() as connection:
        for dataset in stored.values():
            for name, relation in dataset.relations.items():
                connection.register(f"stored_{name}", dataset.table(name))
                values = sql_values(relation, [column.name for column in relation.columns])
                connection.execute(f"CREATE TABLE {name} AS SELECT {values} FROM stored_{name}")
        yield connection


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_key_is_unique(database, name):
    for relation in benchmark(name).relations.values():
        if relation.key:
            key = ", ".join(relation.prefix + each for each in relation.key)
            ((rows, keys),) = database.sql(f"SELECT count(*), count(DISTINCT ({key})) FROM {relation.name}").fetchall()
            assert rows == keys > 0


def test_a_line_of_the_star_refers_to_the_other_tables(stored, database):
    sql = """SELECT count(*) FROM lineorder JOIN customer ON lo_custkey = c_custkey JOIN part ON lo_partkey = p_partkey
             JOIN supplier ON lo_suppkey = s_suppkey JOIN dwdate o ON lo_orderdate = o.d_datekey
             JOIN dwdate c ON lo_commitdate = c.d_datekey"""
    assert database.sql(sql).fetchall() == [(stored["ssb"].rows("lineorder"),)]


def test_columns_of_the_star_that_are_derived_obey_their_definitions(database):
    wrong = {
        "lineorder": "lo_revenue * 100 <> lo_extendedprice * (100 - lo_discount) OR lo_discount NOT BETWEEN 0 AND 10",
        "part": "NOT starts_with(p_category, p_mfgr) OR NOT regexp_matches(p_brand1, p_category || '[1-4]?[0-9]$')",
        "customer": "left(c_city, 9) <> rpad(c_nation, 9, ' ')[:9] OR length(c_city) <> 10",
        "dwdate": "strptime(d_date, '%B %d, %Y') <> strptime(d_datekey::VARCHAR, '%Y%m%d')",
    }
    for table, condition in wrong.items():
        assert database.sql(f"SELECT * FROM {table} WHERE {condition}").fetchall() == []


def test_a_workload_that_does_not_apply_is_refused(stored):
    with pytest.raises(DeltamarkError, match="the workload window does not apply: its rows arrive in the rounds of"):
        workload(stored["nexmark"], "window:10")
    with pytest.raises(DeltamarkError, match="the workload zipf does not apply: it rewrites the keys of TPC-H"):
        workload(stored["ssb"], "zipf:1")


@pytest.mark.parametrize("name", WORKLOADS)
def test_engines_are_measured_over_the_same_stream(stored, tmp_path, capsys, name):
    data = stored[name].directory.parent
    words = ["bench", f"BENCHMARK={name}", "SF=0.001", f"DATA={data}", f"RESULTS={tmp_path}", "RUNS=1", "SAMPLE=3"]
    query = next(iter(benchmark(name).queries))
    assert main([*words, f"QUERIES={query}", "PHYSICAL=1000", "ENGINES=embedded,duckdb"]) == 0
    assert "2 cells measured" in capsys.readouterr().out


def test_verify_checks_workloads_that_apply(stored):
    names = small_workloads(benchmark("ssb").relations)
    assert {name.partition(":")[0] for name in names} >= {"insert", "window", "hot"}
    assert [workload(stored["ssb"], name).name for name in names] == names


def test_no_data_is_made_of_a_workload_that_does_not_apply(tmp_path, capsys):
    assert main(["data", "BENCHMARK=ssb", "SF=0.001", "WORKLOAD=zipf:1", f"DATA={tmp_path}"]) == 2
    assert "the workload zipf does not apply: it rewrites the keys of TPC-H" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["ssb", "nexmark"])
def test_each_query_has_golden_digests_of_the_same_streams(name):
    home = benchmark(name)
    golden = read_golden(home)
    assert list(golden) == golden_cells((), home)
