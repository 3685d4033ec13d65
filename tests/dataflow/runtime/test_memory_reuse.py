"""Laws: closed dataflows and retired plans leave their memory to later ones, whose sizes do not depend on it."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.kernels.core.guard import CHECKED
from deltamark.dataflow.kernels.core.pages import PAGE_BYTES, POOL
from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import integer

pytestmark = pytest.mark.skipif(CHECKED, reason="checked kernels have no pool")

ROWS = 200_000
NUMBERS = {"key": integer(0, ROWS), "value": integer(0, 1 << 30)}
LEFT, RIGHT = source("left", NUMBERS, ROWS), source("right", NUMBERS, ROWS)
PLAN = LEFT.join(RIGHT.rename(other="value"), on="key").aggregate(by="key", total=col.other.sum())


@pytest.fixture(autouse=True)
def _empty_pool():
    POOL.clear()
    yield
    POOL.clear()


def batch(time: int) -> Batch:
    random = np.random.default_rng(time)
    columns = {"key": random.integers(0, ROWS, ROWS // 4), "value": random.integers(0, 1 << 30, ROWS // 4)}
    return Batch(np.full(ROWS // 4, time), np.ones(ROWS // 4, np.int64), columns)


def loaded(plan: Collection) -> Dataflow[Batch]:
    engine = Dataflow(plan)
    for time in range(4):
        engine.push(dict.fromkeys(engine.inputs, batch(time)))
    return engine


def test_a_closed_dataflow_leaves_its_memory_to_the_next_whose_size_is_the_same():
    with closing(loaded(PLAN)) as engine:
        fresh = engine.state_bytes()
    kept = POOL.bytes
    assert kept >= fresh > 1 << 20
    for _ in range(2):
        with closing(loaded(PLAN)) as engine:
            assert POOL.bytes < kept // 4
            assert abs(engine.state_bytes() - fresh) <= PAGE_BYTES
        assert kept <= POOL.bytes < kept + kept // 4


def test_the_size_of_a_dataflow_does_not_depend_on_others_before_it():
    with closing(loaded(PLAN)) as engine:
        fresh = engine.state_bytes()
    POOL.clear()
    loaded(LEFT.distinct("value")).close()
    loaded(LEFT.join(RIGHT.rename(other="key"), on="value").count()).close()
    assert POOL.bytes > 0
    with closing(loaded(PLAN)) as engine:
        assert abs(engine.state_bytes() - fresh) <= PAGE_BYTES


def test_a_retired_plan_leaves_its_memory_to_the_next():
    with closing(Dataflow({"numbers": LEFT.distinct("key")})) as engine:
        engine.push({"left": batch(0)})
        history = {"right": [batch(0)], "left": [batch(0)]}
        kept = []
        for _ in range(3):
            engine.attach("joined", PLAN, history=history)
            attached = POOL.bytes
            engine.retire("joined")
            kept.append(POOL.bytes - attached)
        assert min(kept) > 1 << 20
        assert POOL.bytes < 2 * kept[0]
