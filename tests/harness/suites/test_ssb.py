"""The Star Schema Benchmark on tiny data: its tables, and right answers while rows come and go."""

from __future__ import annotations

import duckdb
import pytest

from deltamark.datagen.dataset import Dataset
from deltamark.harness.check.snapshot import Snapshot
from deltamark.harness.cli.main import main
from deltamark.harness.suites.ssb.measuring import check
from deltamark.harness.suites.ssb.star import KEYS, TABLES, directory_of, make_tables, path_of
from deltamark.harness.suites.ssb.stream import StarQuery
from deltamark.queries.ssb import TEXTS

pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")


@pytest.fixture(scope="module")
def own_data(data, tmp_path_factory):
    """A data directory of these tests, beside whose data of TPC-H the tables are made."""
    own = tmp_path_factory.mktemp("data")
    for each in data.iterdir():
        (own / each.name).symlink_to(each)
    return own


@pytest.fixture(scope="module")
def tpch(own_data, sf001):
    return Dataset.open(own_data / sf001.directory.name)


@pytest.fixture(scope="module")
def star(tpch):
    """The directory of the tables."""
    return make_tables(tpch)


def rows_of(directory, sql):
    return duckdb.sql(sql.format(**{table: f"'{path_of(directory, table)}'" for table in TABLES})).fetchall()


@pytest.mark.parametrize("table", TABLES)
def test_every_table_has_its_key(star, table):
    key = ", ".join(KEYS[table].split())
    ((rows, keys),) = rows_of(star, f"SELECT count(*), count(DISTINCT ({key})) FROM {{{table}}}")
    assert rows == keys > 0


def test_a_line_refers_to_the_other_tables(star, tpch):
    sql = """SELECT count(*) FROM {lineorder} JOIN {customer} ON lo_custkey = c_custkey
             JOIN {part} ON lo_partkey = p_partkey
             JOIN {supplier} ON lo_suppkey = s_suppkey JOIN {dwdate} o ON lo_orderdate = o.d_datekey
             JOIN {dwdate} c ON lo_commitdate = c.d_datekey"""
    assert rows_of(star, sql) == [(tpch.rows("lineitem"),)]


def test_columns_that_are_derived_obey_their_definitions(star):
    wrong = {
        "lineorder": "lo_revenue * 100 <> lo_extendedprice * (100 - lo_discount) OR lo_discount NOT BETWEEN 0 AND 10",
        "part": "NOT starts_with(p_category, p_mfgr) OR NOT regexp_matches(p_brand1, p_category || '[1-4]?[0-9]$')",
        "customer": "left(c_city, 9) <> rpad(c_nation, 9, ' ')[:9] OR length(c_city) <> 10",
        "dwdate": "strptime(d_date, '%B %d, %Y') <> strptime(d_datekey::VARCHAR, '%Y%m%d')",
    }
    for table, condition in wrong.items():
        assert rows_of(star, f"SELECT * FROM {{{table}}} WHERE {condition}") == []


def test_tables_are_made_once(star, tpch):
    before = {path: path.stat().st_mtime_ns for path in star.iterdir()}
    assert make_tables(tpch) == star == directory_of(tpch.directory)
    assert {path: path.stat().st_mtime_ns for path in star.iterdir()} == before
    assert sorted(path.stem for path in before) == sorted(TABLES)


@pytest.mark.parametrize("name", TEXTS)
def test_answers_are_right_while_rows_come_and_go(star, name):
    assert check(StarQuery(name, star), 7000) >= 3


def test_the_suite_measures_every_query(own_data, tmp_path, capsys):
    words = ["bench", "SUITE=ssb", "SF=0.001", f"DATA={own_data}", f"RESULTS={tmp_path}", "QUERIES=q1.1,q4.3", "RUNS=1"]
    assert main([*words, "PHYSICAL=1000,5000"]) == 0
    out = capsys.readouterr().out
    assert "4 cells measured" in out
    assert "Star Schema Benchmark: tuples per second (SF 0.001)" in out
    assert "batches of 1K" in out
    assert "checked oracle" in out


def test_the_suite_finds_a_wrong_answer(own_data, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Snapshot, "rows", lambda *_: [("wrong",)])
    words = ["bench", "SUITE=ssb", "SF=0.001", f"DATA={own_data}", f"RESULTS={tmp_path}", "QUERIES=q1.1", "RUNS=1"]
    assert main([*words, "PHYSICAL=1000"]) == 2
    assert "WRONG: a wrong answer: q1.1, in batches of 1000 rows, at time 0" in capsys.readouterr().err


def test_an_unknown_query_is_an_error(own_data, tmp_path, capsys):
    words = ["bench", "SUITE=ssb", "SF=0.001", f"DATA={own_data}", f"RESULTS={tmp_path}", "QUERIES=q5.1"]
    assert main(words) == 2
    assert "unknown query: q5.1; did you mean q" in capsys.readouterr().err
