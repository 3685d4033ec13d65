"""Explanations of a plan: operators, shared arrangements, rows and bytes."""

from __future__ import annotations

from contextlib import closing

import numpy as np

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import integer

sales = source("sales", {"shop": integer(0, 9), "price": integer(0, 100)}, rows=1000)
shops = source("shops", {"shop": integer(0, 9), "city": integer(0, 3)}, rows=10)


def batch(**columns: list[int]) -> Batch:
    rows = len(next(iter(columns.values())))
    arrays = {name: np.array(values) for name, values in columns.items()}
    return Batch(np.zeros(rows, dtype=np.int64), np.ones(rows, dtype=np.int64), arrays)


def explained() -> list[str]:
    cheap = sales.where(col.price < 50).rename(low="price")
    both = sales.join(shops, "shop").concat(cheap.rename(price="low").join(shops, "shop"))
    with closing(Dataflow(both.count(by="city"))) as worker:
        worker.feed({"sales": batch(shop=[1, 1, 2], price=[10, 60, 70]), "shops": batch(shop=[1, 2], city=[0, 3])})
        return worker.explain().splitlines()


def test_every_operator_has_a_line_after_those_of_its_inputs():
    numbered = [int(line[:3]) for line in explained() if not line.startswith("      ")]
    assert numbered == sorted(numbered)


def test_an_arrangement_that_two_joins_read_is_built_once():
    (line,) = (line for line in explained() if "read by" in line and ", " in line.split("read by")[1].split("[")[0])
    assert "by shop" in line
    assert "[2 rows, " in line


def test_the_rows_of_a_state_are_counted():
    (groups,) = (line for line in explained() if "aggregate" in line)
    assert "[2 rows, " in groups
