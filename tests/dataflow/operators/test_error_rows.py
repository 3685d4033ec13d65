"""An error that names a row writes its values as SQL does, whatever operator, worker or shard has found it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

import pytest
from support.engines.chain import Pieces
from support.engines.driving import Engine, feed
from support.reference.rows import Update
from support.written_plans.thresholds import above

from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import (
    BOOL,
    DOUBLE,
    INFINITY,
    NULL,
    SHORT,
    TEXT,
    TIME,
    Type,
    code_type,
    date_type,
    integer,
    pack_short,
    stored_double,
    timestamp_type,
)
from deltamark.errors import DeltamarkError

ROWS = 1000
NUMBER = integer(0, 99)
OTHERS = source("others", {"n": NUMBER, "m": NUMBER}, ROWS)


class Case(NamedTuple):
    """A type, a stored value, and the text of the value in an error."""

    type: Type
    value: int | str
    shown: str


CASES = {
    "text": Case(TEXT, "Oslo", "'Oslo'"),
    "text-of-two-lines": Case(TEXT, "it's\nOslo", '"it\'s\\nOslo"'),
    "long-text": Case(TEXT, "x" * 999, f"'{'x' * 60}...'"),
    "short": Case(SHORT, pack_short("Oslo"), "'Oslo'"),
    "code": Case(code_type(("Oslo", "Rome")), 1, "'Rome'"),
    "date": Case(date_type(0, 9000), 8036, "DATE '1992-01-02'"),
    "decimal": Case(integer(-1000, 1000, scale=2), -950, "-9.5"),
    "number": Case(integer(-10, 10), -7, "-7"),
    "condition": Case(BOOL, 1, "TRUE"),
    "double": Case(DOUBLE, stored_double(-0.1), "-0.1"),
    "infinity": Case(DOUBLE, ~INFINITY, "'-inf'::DOUBLE"),
    "timestamp": Case(timestamp_type(0, 2**60), 1_500_000, "TIMESTAMP '1970-01-01 00:00:01.500000'"),
    "time": Case(TIME, 3_600_000_000, "TIME '01:00:00'"),
}
CASES |= {f"missing-{name}": Case(each.type.or_null(), NULL, "NULL") for name, each in CASES.items()}


def rows_of(type_: Type, name: str = "rows") -> Collection:
    return source(name, {"key": type_, "n": NUMBER}, ROWS)


def joined(rows: Collection) -> Collection:
    return rows.join(rows_of(rows.schema["key"], "others").rename(m="n"), on="key", null_keys=True).select("n", "m")


def limited(rows: Collection) -> Collection:
    limits = rows_of(rows.schema["key"], "others").count(by="key").rename(limit="count")
    return above(rows, limits, col.n, "limit", on="key")


OPERATORS: dict[str, Callable[[Collection], Collection]] = {
    "count": lambda rows: rows.count(by="key"),
    "sum": lambda rows: rows.aggregate(by=("n", "key"), sum=col.n.sum()),
    "distinct": lambda rows: rows.distinct(),
    "join": joined,
    "join-on-another-column": lambda rows: rows.join(OTHERS, on="n").select("key", "m"),
    "largest": lambda rows: rows.largest("n", by="key"),
    "smallest": lambda rows: rows.smallest("n"),
    "top": lambda rows: rows.top(3, ["-key"]),
    "above": limited,
    "or-null": lambda rows: rows.or_null(),
}
WRONG: list[Update] = [(("value", 5), 1001, 1), (("value", 5), 1009, -2)]


def refused(engine: Engine, collection: Collection, value: int | str) -> str:
    """Return the error for a row with a value that is retracted more often than it was inserted."""
    with closing(engine), pytest.raises(DeltamarkError) as error:
        feed(engine, collection, {"rows": [((value, n), time, diff) for (_, n), time, diff in WRONG]})
    return str(error.value)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("name", OPERATORS)
def test_a_wrong_deletion_is_an_error_that_writes_the_values_of_the_row(name, case):
    collection = OPERATORS[name](rows_of(case.type))
    problem = refused(Dataflow(collection), collection, case.value)
    assert problem.startswith("a negative multiplicity: ")
    assert f"key={case.shown}" in problem
    assert "at time 1009; retract only what was inserted before" in problem


@pytest.mark.draws(12)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("name", ["count", "join"])
def test_each_worker_writes_the_values_of_its_rows(name, case):
    collection = OPERATORS[name](rows_of(case.type).consolidate())
    assert f"key={case.shown}" in refused(Dataflow(collection, workers=2), collection, case.value)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("name", ["count", "join"])
def test_each_shard_writes_the_values_of_its_rows(name, case):
    collection = OPERATORS[name](rows_of(case.type))
    assert f"key={case.shown}" in refused(Pieces(collection, 2), collection, case.value)


def test_a_named_plan_writes_the_values_of_the_row():
    rows = rows_of(TEXT)
    engine = Dataflow({"counts": rows.count(by="key"), "rows": rows.select("n").distinct()})
    assert "key='Oslo' at time 1009" in refused(engine, rows, "Oslo")


def test_a_row_is_named_by_its_key_even_if_only_the_key_is_stored():
    rows = source("rows", {"key": TEXT, "n": NUMBER}, ROWS).select("key")
    collection = rows.join(rows_of(TEXT, "others"), on="key").select("n")
    assert "a negative multiplicity: key='Oslo' at time 1009" in refused(Dataflow(collection), collection, "Oslo")


def test_a_sum_out_of_bounds_is_written_with_its_point():
    sales = source("sales", {"city": TEXT, "price": integer(0, 999, scale=2)}, 10)
    collection = sales.aggregate("city", revenue=col.price.sum())
    updates = [(("Oslo", 100), 3, 1), (("Oslo", 850), 5, -1), (("Oslo", 10), 5, 2)]
    with closing(Dataflow(collection)) as engine, pytest.raises(DeltamarkError) as error:
        feed(engine, collection, {"sales": updates})
    assert "a sum is out of bounds: -7.3 for city='Oslo' at time 5" in str(error.value)


def test_two_limits_are_written_as_their_types():
    limits = source("limits", {"key": TEXT, "least": integer(0, 999, scale=1)}, 10)
    collection = above(
        source("rows", {"key": TEXT, "n": integer(0, 99, scale=1)}, 10), limits, col.n, "least", on="key"
    )
    with closing(Dataflow(collection)) as engine, pytest.raises(DeltamarkError) as error:
        feed(engine, collection, {"limits": [(("Oslo", 15), 3, 2)]})
    assert "more than one limit: least=1.5, key='Oslo' at time 3" in str(error.value)


OUTSIDE = {
    "date": (date_type(8035, 9000), 8034, "DATE '1991-12-31'..DATE '1991-12-31', declared DATE '1992-01-01'.."),
    "decimal": (integer(0, 999, scale=2), 1050, "10.5..10.5, declared 0..9.99"),
    "code": (code_type(("ant", "bee")), 2, "2..2, declared 0..1"),
    "condition": (BOOL, 2, "2..2, declared 0..1"),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_value_outside_its_bounds_is_written_as_its_type(name):
    type_, value, shown = OUTSIDE[name]
    rows = source("rows", {"key": type_}, 10)
    with closing(Dataflow(rows)) as engine, pytest.raises(DeltamarkError) as error:
        feed(engine, rows, {"rows": [((value,), 0, 1)]})
    assert f"a value outside its bounds: rows.key: {shown}" in str(error.value)
