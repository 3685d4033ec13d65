"""Explanations of a plan: a tree of operators, with each shared arrangement once, and the rows of states."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
from support.engines.explanations import parts, readers

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


def explained(workers: int = 1) -> str:
    cheap = sales.where(col.price < 50).rename(low="price")
    both = sales.join(shops, "shop").concat(cheap.rename(price="low").join(shops, "shop"))
    with closing(Dataflow(both.count(by="city"), workers=workers)) as worker:
        worker.feed({"sales": batch(shop=[1, 1, 2], price=[10, 60, 70]), "shops": batch(shop=[1, 2], city=[0, 3])})
        return worker.explain()


def number(text: str, title: str, part: str) -> str:
    """Return the number below a title in the only line of a part; numbers end where their title ends."""
    titles, *lines = text.splitlines()
    end = titles.index(title) + len(title)
    (line,) = (line for line in lines if part in line)
    return line[:end].split()[-1]


def test_parts_are_numbered_from_the_answer_down():
    numbers = [int(line[:2]) for line in explained().splitlines()[1:] if line[:2].strip().isdigit()]
    assert numbers == list(range(1, len(numbers) + 1))


def test_an_arrangement_that_two_joins_read_is_built_once():
    (shops,) = parts(explained(), "arrangement by shop: city")
    assert readers(explained(), shops) == 2


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_rows_of_a_state_are_counted_at_all_workers(workers):
    assert number(explained(workers), "rows kept", "aggregate") == "2"


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_profile_has_the_changes_of_each_operator_and_its_time(workers):
    with closing(Dataflow(sales.where(col.price < 50).count(by="shop"), workers=workers)) as worker:
        worker.profile()
        worker.feed({"sales": batch(shop=[1, 1, 2], price=[10, 60, 20])})
        text = worker.explain()
    assert number(text, "changes", "filter") == "2"
    assert number(text, "changes", "aggregate") == "2"
    assert " time " in text.splitlines()[0]
