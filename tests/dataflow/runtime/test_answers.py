"""Laws of kept answers: the sum of all changes as values, however they were fed."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.driving import between
from support.engines.late import attached, cuts_of, fed, live
from support.random_plans.strategies import cases
from support.random_plans.streams import inputs_of, times_of

from deltamark import Batch, Dataflow, DeltamarkError, col, integer, source
from deltamark.dataflow import answer as answers
from deltamark.dataflow.answer import Answer, quotients
from deltamark.dataflow.types import NULL, Schema, value_of

sales = source("sales", {"shop": integer(1, 99), "price": integer(0, 10_000, scale=2)}, rows=1000)
nullable = source("sales", {"shop": integer(1, 99), "price": integer(0, 10_000, scale=2).or_null()}, rows=1000)


def summed(schema: Schema, parts: list[Batch]) -> Counter:
    """Return the sum of changes as rows of values, with quotients as exact pairs."""
    rows: Counter = Counter()
    for each in parts:
        columns = [each.columns[name].tolist() for name in schema.names]
        for diff, *row in zip(each.diff.tolist(), *columns, strict=True):
            rows[tuple(plain(value_of(field.type, each)) for field, each in zip(schema.fields, row, strict=True))] += (
                diff
            )
    return Counter({row: count for row, count in rows.items() if count})


def kept(table) -> Counter:
    return Counter(zip(*(map(plain, column.to_pylist()) for column in table.columns), strict=True))


def plain(value: object) -> object:
    """Return a value that is equal to itself, as NaN is not."""
    return repr(value) if isinstance(value, float) else value


def has_quotients(schema: Schema) -> bool:
    return any(name.endswith((".num", ".den")) for name in schema.names)


@settings(max_examples=30)
@given(cases(), st.data())
def test_a_kept_answer_is_the_sum_of_the_changes(case, data):
    plan, streams = case.collection, case.streams
    if not plan.schema.names or has_quotients(plan.schema):
        return
    times, cut = times_of(streams), data.draw(cuts_of(streams))
    before, after = between(streams, set(times[:cut])), between(streams, set(times[cut:]))
    schemas, history = inputs_of(plan), {}
    with closing(Dataflow({"early": plan})) as dataflow:
        dataflow.keep("early")
        parts = [fed(dataflow, schemas, before)["early"]]
        history = {name: [live(schemas[name], stream)] for name, stream in before.items()}
        late = attached(dataflow, plan, history)
        dataflow.keep("late", late)
        parts.append(fed(dataflow, schemas, after)["early"])
        rows = summed(plan.schema, parts)
        for name in ("early", "late"):
            if any(count < 0 for count in rows.values()):
                with pytest.raises(DeltamarkError, match="negative weights"):
                    dataflow.answer(name)
            else:
                assert kept(dataflow.answer(name)) == rows


def batch(time: int, prices: list[int], diff: int = 1) -> Batch:
    return Batch([time] * len(prices), [diff] * len(prices), {"shop": [7] * len(prices), "price": prices})


@pytest.mark.parametrize("limit", [0, 2, 1 << 20])
def test_every_call_that_feeds_adds_to_an_answer(monkeypatch, limit):
    monkeypatch.setattr(answers, "MAX_UNSUMMED_ROWS", limit)
    plan = sales.aggregate(by="shop", mean=col.price.mean(), total=col.price.sum())
    with Dataflow(plan) as dataflow:
        dataflow.keep()
        assert dataflow.answer().to_pydict() == {"shop": [], "mean": [], "total": []}
        dataflow.feed({"sales": batch(0, [100, 200])})
        assert dataflow.push({"sales": batch(1, [400])}) == 2
        dataflow.feed_each({"sales": batch(2, [50])}, ends=[2])
        dataflow.push_each({"sales": batch(3, [50], -1)}, ends=[3])
        found = dataflow.answer().to_pylist()
    assert found == [{"shop": 7, "mean": float(Fraction(7, 3)), "total": 7}]


def test_an_answer_is_kept_from_the_beginning():
    with Dataflow({"a": nullable, "b": nullable.count()}) as dataflow:
        with pytest.raises(DeltamarkError, match="unknown plan: c"):
            dataflow.keep("c")
        with pytest.raises(DeltamarkError, match="an answer that is not kept: a; call keep before the first feed"):
            dataflow.answer("a")
        dataflow.keep("a")
        dataflow.push({"sales": batch(0, [1, 1, NULL])})
        with pytest.raises(DeltamarkError, match="an answer whose first changes were not kept: b"):
            dataflow.keep("b")
        assert sorted(dataflow.answer("a")["price"].to_pylist(), key=str) == [
            *[value_of(nullable.schema["price"], 1)] * 2,
            None,
        ]
        dataflow.retire("a")
        with pytest.raises(DeltamarkError, match="unknown plan: a"):
            dataflow.answer("a")


def test_a_plan_that_is_attached_over_several_feeds_is_kept():
    with Dataflow({"all": sales.aggregate(by="shop", total=col.price.sum())}) as dataflow:
        dataflow.push({"sales": batch(0, [5] * 9)})
        dataflow.attach("late", sales.count(), history={"sales": [batch(0, [5] * 9)]}, fuel=2)
        dataflow.keep("late")
        for time in range(1, 9):
            dataflow.push({"sales": batch(time, [1])})
        assert dataflow.pending is None
        assert dataflow.answer("late").to_pydict() == {"count": [17]}


def test_rows_are_summed_when_many_of_them_retract_others(monkeypatch):
    monkeypatch.setattr(answers, "MAX_UNSUMMED_ROWS", 100)
    kept = Answer(sales.schema)
    for time in range(50):
        kept.add(batch(time, [time] * 10))
    assert len(kept._added) == 50, "rows that only come are not summed"
    for time in range(50):
        kept.add(batch(time, [time] * 10, -1))
        assert sum(map(len, kept._parts)) + sum(last - first for *_, first, last in kept._added) <= 1000
    assert kept.values().num_rows == 0


@pytest.mark.parametrize("limit", [10, 2**53, 2**62])
def test_quotients_are_rounded_once(limit):
    rng = np.random.default_rng(limit % 997)
    num, den = rng.integers(-limit, limit, 500), rng.integers(1, limit, 500)
    num[:2], den[1:4] = NULL, [NULL, 0, 0]
    num[3] = 0
    scaled, whole = integer(-(2**62), 2**62, scale=2), integer(0, 2**62)
    found = quotients(num, den, scaled, whole).to_pylist()
    assert found[:2] == [None, None]
    assert (abs(found[2]), str(found[3])) == (float("inf"), "nan")
    assert found[4:] == [float(Fraction(int(a), int(b) * 100)) for a, b in zip(num[4:], den[4:], strict=True)]


def test_an_error_of_a_feed_names_its_plans():
    numbers = source("numbers", {"x": integer(0, 2**40)}, rows=9)
    plans = {"fine": numbers.count(), "square": numbers.select(y=col.x * col.x * col.x)}
    with Dataflow(plans) as dataflow:
        dataflow.push({"numbers": Batch([0], [1], {"x": [3]})})
        assert not dataflow.has_failed
        with pytest.raises(DeltamarkError, match="64 bits") as error:
            dataflow.push({"numbers": Batch([1], [1], {"x": [2**40]})})
        assert error.value.plans == ("square",)
        assert dataflow.has_failed


def test_one_plan_of_several_is_explained():
    with Dataflow({"a": sales.count(), "b": sales.distinct("shop")}) as dataflow:
        assert "answer a" in dataflow.explain("a")
        assert "answer b" not in dataflow.explain("a")
        with pytest.raises(DeltamarkError, match="unknown plan: c"):
            dataflow.explain("c")
