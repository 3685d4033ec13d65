"""Plan nodes are interned: equal plans are one object in every process, and different plans are different objects."""

from __future__ import annotations

import datetime as dt
import itertools
import pickle
import subprocess
import sys
from decimal import Decimal

import pytest
from hypothesis import given
from pyspark import cloudpickle
from support.paths import ROOT
from support.random_plans.strategies import cases
from support.written_plans.motifs import motif
from support.written_plans.relations import SQL, items, others, pairs, texts
from support.written_plans.thresholds import above, below

from deltamark.dataflow.language.collection import source
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.operators.consolidate import Consolidate
from deltamark.dataflow.operators.linear import Project
from deltamark.dataflow.operators.node import walk
from deltamark.dataflow.operators.threshold import Threshold
from deltamark.dataflow.plan.terms import Constant
from deltamark.dataflow.spark.planning.motif_by_key import by_key
from deltamark.dataflow.types import integer


@pytest.mark.parametrize(
    "build",
    [
        lambda: source("r", {"a": integer(0, 9)}, 5),
        lambda: items.where((col.price * (1 - col.price) > Decimal("0.05")) & (col.key == 1)),
        lambda: texts.where(col.mode.is_in(["AIR", "SHIP"]) & ~col.comment.contains("special")),
        lambda: items.semijoin(others.where(col.day.between(dt.date(1992, 1, 1), dt.date(1992, 1, 3))), on="key"),
        lambda: items.left_join(others, on="key").count(by="amount").top(3, ["-count"]),
        lambda: above(
            items, items.aggregate("key", mean=col.value.mean()), col.value, "mean.num", "mean.den", on="key"
        ),
        lambda: items.aggregate(x=col.price.sum()).or_null().consolidate(),
    ],
    ids=["source", "where", "texts", "semijoin", "left-join", "above", "or-null"],
)
def test_equal_plans_are_one_node(build):
    kept, again = build(), build()
    assert kept.node is again.node
    assert kept == again


DIFFERENT = {
    "constant": [items.where(col.value < each) for each in (0, 1, 2)],
    "operation": [items.where(each) for each in (col.value < 1, 1 < col.value, col.value == 1, col.value <= 1)],  # noqa: SIM300
    "text-and-number": [texts.where(col.short == "1"), items.where(col.key == 1)],
    "text": [texts.where(col.comment == each) for each in ("1", "1%", "", " ")],
    "pattern": [texts.where(col.comment.like(each)) for each in ("a%b", "a%%b", "%a%b", "ab", "a%,b", "a','b")],
    "sides": [items.select(x=each) for each in (col.key - col.value, col.value - col.key)],
    "scale": [items.select(x=each) for each in (col.key, col.key + Decimal("0.0"), col.key + Decimal("0.00"))],
    "name": [items.select(x=col.key), items.select(y=col.key)],
    "order": [items.select("key", "value"), items.select("value", "key")],
    "keys": [items.count(by=each) for each in ((), "key", ("key", "value"), ("value", "key"))],
    "k": [items.top(1, []), items.top(2, []), items.top(1, ["-key"])],
    "least": [items.threshold(1), items.threshold(2)],
    "levels": [items.largest("value"), items.largest("value", levels=(4,)), items.smallest("value")],
    "bound": [above(items, pairs, col.key, "value"), below(items, pairs, col.key, "value")],
    "source": [source("a", {"x": integer(0, 1)}, 5), source("b", {"x": integer(0, 1)}, 5)],
    "bounds": [source("a", {"x": integer(0, high)}, rows) for high in (1, 2) for rows in (5, 6)],
    "one-input-or-two": [items.concat(items), items.concat(items, items), items.concat()],
}


@pytest.mark.parametrize("collections", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_different_plans_are_different_nodes(collections):
    for one, other in itertools.combinations(collections, 2):
        assert one.node is not other.node
        assert one.node.digest != other.node.digest


@given(cases())
def test_random_plans_have_a_node_for_each_digest(case):
    nodes = list(walk(case.collection.node))
    assert len({node.digest for node in nodes}) == len(nodes)


SCRIPT = """
from support.written_plans.relations import SQL
print("\\n".join(each.node.digest.hex() for each, _ in SQL.values()))
"""


def test_digests_are_the_same_in_another_process():
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={"PYTHONPATH": f"{ROOT}:{ROOT}/tests", "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == [each.node.digest.hex() for each, _ in SQL.values()]


@given(cases())
def test_a_plan_that_travels_by_pickle_is_the_same_object(case):
    for pickler in (pickle, cloudpickle):
        assert pickle.loads(pickler.dumps(case.collection.node)) is case.collection.node


@given(cases())
def test_a_node_over_its_own_inputs_is_itself(case):
    for node in walk(case.collection.node):
        assert node.with_inputs(node.inputs) is node


@given(cases())
def test_a_node_over_other_inputs_keeps_its_schema(case):
    for node in walk(case.collection.node):
        others = [Consolidate(each, schema=each.schema) for each in node.inputs]
        again = node.with_inputs(others)
        assert (type(again), again.schema, again.inputs) == (type(node), node.schema, tuple(others))


@pytest.mark.parametrize("motif_name", ["triangle", "triples"])
def test_the_nodes_of_motifs_follow_their_inputs(motif_name):
    for plan in (motif(motif_name), by_key(motif(motif_name))):
        for node in walk(plan.node):
            assert node.with_inputs(node.inputs) is node
            assert pickle.loads(pickle.dumps(node)) is node


def test_values_of_different_types_make_different_nodes():
    """The values 1, 1.0 and True are equal in Python, and have one hash."""
    rows, kind = items.node, integer(0, 1)
    terms = [Constant(value, kind) for value in (1, 1.0, True)]
    nodes = [Project(rows, (("x", term),), schema=rows.schema) for term in terms]
    assert len(set(terms)) == len({node.digest for node in nodes}) == len(set(nodes)) == 3
    assert len({Threshold(rows, least, schema=rows.schema) for least in (1, 1.0, True)}) == 3
