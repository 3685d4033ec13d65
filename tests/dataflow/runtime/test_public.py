"""The public interface: names, examples, readable forms, and hints for mistakes."""

from __future__ import annotations

import copy
import datetime as dt
import doctest
import pickle
import subprocess
import sys
from contextlib import closing
from importlib import import_module

import numpy as np
import pytest
from support.paths import ROOT

import deltamark
from deltamark import (
    SHORT,
    TEXT,
    Atom,
    Batch,
    Dataflow,
    DeltamarkError,
    code_type,
    col,
    count,
    date_type,
    decimal,
    delta_query,
    integer,
    source,
)  # fmt: skip
from deltamark.dataflow.runtime.live_plans import LivePlans
from deltamark.dataflow.types import BOOL, DOUBLE, NULL, TIME, Field, Schema, Type, timestamp_type

sales = source("sales", {"shop": integer(1, 99), "price": integer(0, 10_000, scale=2)}, rows=1_000_000)
shops = source("shops", {"shop": integer(1, 99), "city": integer(1, 20)}, rows=99)
nodes = integer(0, 9)
edges = source("edges", {"src": nodes, "dst": nodes}, rows=99)
EXAMPLES = {
    "sales": sales, "shops": shops, "edges": edges, "Atom": Atom, "Batch": Batch, "Dataflow": Dataflow, "col": col,
    "LivePlans": LivePlans, "closing": closing, "delta_query": delta_query,
    "batch": Batch([0], [1], {"shop": [7], "price": [900]}), "cities": Batch([0], [1], {"shop": [7], "city": [2]}),
}  # fmt: skip
MODULES = (
    "deltamark", "deltamark.errors", "deltamark.dataflow.batch", "deltamark.dataflow.types",
    "deltamark.dataflow.motifs.static", "deltamark.dataflow.motifs.static", "deltamark.dataflow.runtime.dataflow",
    "deltamark.dataflow.runtime.live_plans",
)  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_examples_say_what_they_print(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # one of them writes a file
    module = import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    tests = doctest.DocTestFinder().find(module, extraglobs=EXAMPLES)
    results = [runner.run(test) for test in tests]
    assert sum(result.attempted for result in results)
    assert not sum(result.failed for result in results)


def test_the_package_has_all_names():
    assert sorted(deltamark.__all__) == sorted(dir(deltamark))
    for name in deltamark.__all__:
        assert getattr(deltamark, name) is not None
    with pytest.raises(DeltamarkError, match="deltamark has no attribute: Datafow; did you mean Dataflow"):
        deltamark.Datafow  # noqa: B018


WITHOUT_KERNELS = {
    "import": ["-c", "import deltamark"], "help": ["-m", "harness", "--help"],
    "settings": ["-m", "harness", "data", "--help"],
}  # fmt: skip


@pytest.mark.parametrize("words", WITHOUT_KERNELS.values(), ids=WITHOUT_KERNELS)
def test_the_kernels_are_not_loaded_before_they_are_needed(words):
    code = "import sys; sys.modules['numba'] = None; import runpy; "
    code += (
        words[1] if words[0] == "-c" else f"sys.argv = {words[1:]}; runpy.run_module('harness', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


MISTAKES = {
    "filter": (lambda: sales.filter(col.price > 5), "Collection has no attribute: filter; write where"),
    "groupby": (lambda: sales.groupby("shop"), r"groupby; write aggregate\(by="),
    "merge": (lambda: sales.merge(shops), r"merge; write join\(other, on="),
    "order_by": (lambda: sales.order_by("price"), r"order_by; write top\(k, "),
    "misspelt": (lambda: sales.agregate(by="shop"), "agregate; did you mean aggregate"),
    "isin": (lambda: col.shop.isin([1]), r"an expression has no attribute: isin; write is_in\("),
    "misspelt expression": (lambda: col.shop.betwen(1, 2), "betwen; did you mean between"),
    "a number for a column": (lambda: sales.select(5), "not the name of a column: 5; .* the columns are shop, price"),
    "an expression for a name": (lambda: sales.select(col.price), "not the name of a column: price; write 'name', or"),
    "a number for keys": (lambda: sales.count(by=5), "not the names of columns: 5"),
    "a missing column": (lambda: sales.select("prize"), "unknown column: prize; did you mean price"),
    "int for a type": (lambda: source("x", {"a": int}, rows=3), r"a: <class 'int'>; write integer\(low, high\)"),
    "str for a type": (lambda: source("x", {"a": str}, rows=3), "write TEXT"),
    "a text for a type": (lambda: source("x", {"a": "date"}, rows=3), "a: .date.; write TEXT"),
    "too many digits": (lambda: decimal(0, "0.001", scale=2), "a bound with more digits than the scale"),
    "a list of plans": (lambda: Dataflow([sales]), r"not a plan: list; give a Collection, or \{name: Collection"),
    "a plan that is none": (lambda: Dataflow({"a": 5}), "not a plan: int"),
    "no workers": (lambda: Dataflow(sales, workers=0), "no such number of workers: 0; give from 1 to 64"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_with_a_hint(name):
    mistake, message = MISTAKES[name]
    with pytest.raises(DeltamarkError, match=message) as error:
        mistake()
    assert "\n" not in str(error.value)


def test_unknown_attributes_are_attribute_errors():
    for each in (sales, col.price):
        assert not hasattr(each, "filter_by")
        assert repr(copy.copy(each)) == repr(each)
    assert pickle.loads(pickle.dumps(sales)) == sales


def test_plans_are_attached_by_name():
    with Dataflow(sales) as dataflow, pytest.raises(DeltamarkError, match=r"name the first plan too: Dataflow\(\{'fi"):
        dataflow.attach("count", sales.count())
    with Dataflow({"a": sales}) as dataflow, pytest.raises(DeltamarkError, match=r"named plans: a; use schemas\[name"):
        dataflow.schema  # noqa: B018


@pytest.mark.parametrize("workers", [1, 2])
def test_lists_may_be_fed(workers):
    with Dataflow(sales.aggregate(by="shop", n=count()), workers=workers) as dataflow:
        changes = dataflow.feed({"sales": Batch([0, 1], [1, 1], {"shop": [7, 7], "price": [900, 250]})})
        assert (changes.time.tolist(), changes.columns["n"].tolist()) == ([0, 1, 1], [1, 1, 2])
        assert len(dataflow.feed({"sales": Batch([], [], {"shop": [], "price": []})}).time) == 0


TYPES = [
    integer(1, 99), decimal("-0.5", 10, scale=2), date_type(dt.date(1992, 1, 1), dt.date(1998, 12, 31)),
    date_type(8035, 10591), code_type(("AIR", "RAIL")), code_type(()), TEXT, SHORT, BOOL, Type("short", 0, 5, 9),
    Type("code", 0, 0, 5, ("a",)), Type("date", 1, 0, 5), DOUBLE, Type("double", 0, 0, 5), TIME, timestamp_type(0, 5),
    timestamp_type(0, 5, zoned=True),
]  # fmt: skip


def test_the_text_of_a_type_constructs_it():
    """Different types have different texts, on which the digests of plans rely."""
    types = [*TYPES, *(each.or_null() for each in TYPES)]
    assert len({repr(each) for each in types}) == len(set(types))
    names = {name: getattr(deltamark, name) for name in deltamark.__all__} | {"Type": Type}
    for each in types:
        assert eval(repr(each), names) == each


def test_public_values_have_readable_forms():
    assert repr(sales.count(by="shop")) == (
        "Collection of at most 99 rows\n  shop   integer(1, 99)\n  count  integer(1, 1000000)"
    )
    words = code_type(tuple(f"word {number:03}" for number in range(200)))
    assert max(map(len, repr(Schema((Field("word", words),), 1)).splitlines())) < 80
    assert repr(Batch(np.zeros(30, int), np.ones(30, int), {})).endswith("and 20 more")
    assert repr(Dataflow({"sales": sales, "n": sales.count()})) == (
        "Dataflow of 2 plans: sales, n; inputs: sales; 1 worker"
    )
    assert NULL not in range(-(2**62), 2**62)
