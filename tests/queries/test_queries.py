"""The 22 queries: their answers are DuckDB's at any time of any workload, whatever the variant and the parameters, and
how the stream is cut changes nothing.
"""

from __future__ import annotations

import inspect
import string
from contextlib import closing
from decimal import Decimal
from random import Random, SystemRandom, randrange

import duckdb
import pytest

from deltamark.dataflow.operators.input import base_inputs
from deltamark.datagen.tpch import RELATIONS
from deltamark.datagen.workloads.registry import workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import benchmark
from deltamark.harness.benchmarks.cell import ALL, Cell
from deltamark.harness.check import verify
from deltamark.harness.check.change_stream import open_answer
from deltamark.harness.check.verify import golden_cells, read_golden
from deltamark.harness.engines.answers import answer_columns
from deltamark.harness.engines.plans import plan_of, specified_plan
from deltamark.queries.query import Parameter, Query, literal, months_later

pytestmark = pytest.mark.usefixtures("texts_planned_once")

FROM_TEXT = "sql"
VARIANTS = [(name, variant) for name, each in benchmark().queries.items() for variant in each.variants]
WORKLOADS = {"insert": 7, "window:300": 1, "window:20": 1000, "refresh:5": 1}


def checked(dataset, cell, count):
    work, names = workload(dataset, cell.workload), cell.reads
    times = verify.random_times(work, names, cell.logical, count, Random(str(cell)))
    return verify.check_answers(cell, dataset, times)


@pytest.mark.draws(25)
@pytest.mark.parametrize("work", WORKLOADS)
@pytest.mark.parametrize("name", benchmark().queries)
def test_an_answer_equals_duckdbs_at_any_time(chunked, name, work):
    """Another law below says that variants have the same stream."""
    cell = Cell(name, "0.001", work, WORKLOADS[work], physical=100)
    assert checked(chunked, cell, 10) == ""


@pytest.mark.draws(8)
@pytest.mark.parametrize("name", benchmark().queries)
def test_an_answer_equals_duckdbs_on_more_data(sf001, name):
    assert checked(sf001, Cell(name, "0.01", "insert", 10), 6) == ""
    assert checked(sf001, Cell(name, "0.01", "window:5000"), 4) == ""


@pytest.mark.draws(16)
@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_an_answer_equals_duckdbs_for_other_parameters(sf001, name, variant):
    cell = Cell(name, "0.01", "insert", 1000, variant=variant, seed=randrange(1000))
    assert checked(sf001, cell, 3) == "", cell


@pytest.mark.draws(8)
@pytest.mark.parametrize("name", benchmark().queries)
def test_neither_batches_nor_variants_change_the_stream(chunked, name):
    """Batches of one row take most of the time, so one variant has them, another one in each run."""
    spec, work = benchmark().query(name), Cell(name, "0.001", "window:300")
    variants = [variant for variant in spec.variants if variant not in spec.accumulated]
    reference, chosen = verify.run_stream(work, chunked), SystemRandom().choice(variants)
    for variant in variants:
        for physical in (1, 13, 1000, ALL) if variant == chosen else (13, ALL):
            assert verify.check_digest(reference, work.but(variant=variant, physical=physical), chunked) == ""


@pytest.mark.draws(20)
@pytest.mark.parametrize("work", ["insert", "window:50"])
@pytest.mark.parametrize("name", benchmark().queries)
def test_larger_logical_batches_have_the_same_changes_in_larger_steps(chunked, name, work):
    fine = verify.run_stream(Cell(name, "0.001", work), chunked)
    for logical in (7, 1000):
        assert verify.check_logical(fine, verify.run_stream(fine.cell.but(logical=logical), chunked)) == ""


@pytest.mark.parametrize("name", benchmark().queries)
def test_streams_have_the_committed_digests(sf001, name):
    golden = read_golden()
    for cell in golden_cells([name]):
        assert verify.digest_of(cell, sf001) == golden[cell], cell.command("changes", "--digest")


def test_all_golden_digests_belong_to_queries():
    assert list(read_golden()) == golden_cells()


@pytest.mark.parametrize("name", benchmark().queries)
def test_the_relations_of_a_query_are_those_that_duckdb_finds(name):
    spec = benchmark().queries[name]
    assert set(benchmark().reads(name)) == duckdb.get_table_names(spec.oracle(spec.values(Decimal(1))))


def test_a_name_in_a_literal_or_of_a_column_is_no_relation():
    sql = "SELECT 'part' AS region, o.orders, {nation} FROM orders o -- supplier"
    assert Query(sql).reads(RELATIONS) == ("orders",)
    assert Query(sql.upper()).reads(RELATIONS) == ("orders",)


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_a_dataflow_takes_the_parameters_and_relations_of_its_sql(chunked, name, variant):
    spec = benchmark().query(name)
    given = benchmark().parameters(name, Decimal("0.001"))
    in_sql = {field for _, field, _, _ in string.Formatter().parse(spec.sql) if field}
    assert set(given) == in_sql
    if variant != FROM_TEXT:
        assert [*inspect.signature(spec.variants[variant]).parameters][1:] == [*given]
    plan = plan_of(Cell(name, "0.001", variant=variant), workload(chunked, "insert"))
    assert {each.name for each in base_inputs(plan.node)} == set(benchmark().reads(name))
    assert sorted(benchmark().reads(name)) == list(benchmark().reads(name))


@pytest.mark.parametrize("name", benchmark().queries)
def test_drawn_parameters_are_of_the_kinds_of_those_for_validation(name):
    for seed in range(50):
        some = benchmark().parameters(name, Decimal("0.01"), seed)
        fixed = benchmark().parameters(name, Decimal("0.01"))
        assert {key: type(value) for key, value in some.items()} == {key: type(value) for key, value in fixed.items()}
        assert [*some] == [*fixed]
        assert some == benchmark().parameters(name, Decimal("0.01"), seed)


def test_a_seed_that_would_draw_nothing_is_refused(monkeypatch):
    monkeypatch.setitem(benchmark().queries, "modes", Query("SELECT {mode}", parameters={"mode": Parameter("AIR")}))
    with pytest.raises(DeltamarkError, match=r"no ranges to draw parameters from: modes; .* --param name=value"):
        benchmark().parameters("modes", Decimal("0.01"), seed=7)
    assert benchmark().parameters("modes", Decimal("0.01")) == {"mode": "AIR"}


def test_nations_of_two_differ_and_a_nation_lies_in_its_region():
    for seed in range(200):
        both = benchmark().parameters("q07", Decimal(1), seed)
        assert both["nation1"] != both["nation2"]
        one = benchmark().parameters("q08", Decimal(1), seed)
        assert (one["nation"], one["region"]) != ("CHINA", "EUROPE")


def test_q11_takes_the_inverse_of_its_fraction_exactly():
    assert benchmark().parameters("q11", Decimal("0.0333"))["inverse_fraction"] == Decimal(333)


OUT_OF_BOUNDS = (
    "a value of discount out of bounds: '{}'; write one from -1000000000000 to 1000000000000 "
    "with at most 12 decimal places"
)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dat": "1994-01-01"}, "unknown parameter of q06: dat; did you mean date"),
        ({"date": "1994"}, "not a value of date: '1994'; write one such as 1994-01-01"),
        ({"discount": "x"}, "not a value of discount: 'x'; write one such as 0.06"),
        ({"quantity": "2.5"}, "not a value of quantity: '2.5'; write one such as 24"),
        ({"quantity": "100001"}, "a value of quantity out of bounds: '100001'; write one from -100000 to 100000"),
        (
            {"date": "9999-12-31"},
            "a value of date out of bounds: '9999-12-31'; write one from 1900-01-01 to 2100-12-31",
        ),
        *(({"discount": each}, OUT_OF_BOUNDS.format(each)) for each in ("nan", "-Infinity", "1e400", "1e-30")),
    ],
)
def test_invalid_parameters_are_refused(given, message):
    with pytest.raises(DeltamarkError) as error:
        benchmark().parameters("q06", Decimal("0.01"), given=given)
    assert str(error.value) == message


def test_parameters_are_read_from_text():
    found = benchmark().parameters("q16", Decimal("0.01"), given={"sizes": "1, 2,3", "brand": "o'x"})
    assert found["sizes"] == (1, 2, 3)
    assert [literal(each) for each in ("o'x", (1, 2), ("a", "b"))] == ["'o''x'", "(1, 2)", "('a', 'b')"]


def test_months_are_added_as_in_sql():
    first = benchmark().parameters("q04", Decimal("0.01"))["date"]
    assert str(months_later(first, 3)) == "1993-10-01"
    assert str(months_later(first.replace(month=12, day=31), 2)) == "1994-02-28"


@pytest.mark.parametrize("name", benchmark().queries)
def test_columns_are_those_of_the_sql_in_its_order(chunked, name):
    """By number here: values are compared by the tests above."""
    cell = Cell(name, "0.001")
    with closing(open_answer(cell, chunked, workload(chunked, "insert"))) as stream:
        names = [each.name for each in answer_columns(stream.schema)]
    assert len(set(names)) == len(names)
    assert {each.removeprefix("-") for each in benchmark().query(name).order_by} <= set(names)


@pytest.mark.parametrize("name", benchmark().queries)
def test_every_query_has_a_plan_at_large_scale_factors(name):
    for sf in ("10", "1000"):
        assert specified_plan(Cell(name, sf)).schema.names == specified_plan(Cell(name, "1")).schema.names
