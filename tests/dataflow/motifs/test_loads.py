"""Laws of loads: a large first batch of one time, whose rows are indexed before the rules of a motif read them."""

from __future__ import annotations

import random
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.language.motif import Atom, delta_query
from deltamark.dataflow.operators.extend import ExtendCounts
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.runtime.loads import MAX_SPAN, order_of
from deltamark.dataflow.types import integer

NODES = 40
EDGES = {name: source(name, {"src": integer(0, NODES - 1), "dst": integer(0, NODES - 1)}, 100_000) for name in "ef"}


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltamark.dataflow.builder.program.SLICE_ROWS", 64)
    monkeypatch.setattr("deltamark.dataflow.runtime.loads.LOAD_ROWS", 100)


def triangles(relations: str = "eee") -> Collection:
    pairs = (("a", "b"), ("b", "c"), ("a", "c"))
    return delta_query([Atom(EDGES[name], pair) for name, pair in zip(relations, pairs, strict=True)]).count()


def drawn(seed: int, time: int, size: int) -> Batch:
    """Return a batch of one time that inserts edges, some of them twice, and retracts a fifth of them."""
    order = random.Random(seed)
    pairs = np.array([(order.randrange(NODES), order.randrange(NODES)) for _ in range(size)])
    lost = pairs[::5]
    rows = np.concatenate([lost, pairs])
    diff = np.repeat([-1, 1], [len(lost), size])
    mixed = np.random.default_rng(seed).permutation(len(rows))
    return Batch(np.full(len(rows), time), diff[mixed], {"src": rows[mixed, 0], "dst": rows[mixed, 1]})


def grown(matrix: np.ndarray, batch: Batch) -> np.ndarray:
    result = matrix.copy()
    np.add.at(result, (batch.columns["src"], batch.columns["dst"]), batch.diff)
    return result


def counted(changes: Batch) -> int:
    return int((changes.diff * changes.columns["count"]).sum())


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("seed", range(2))
def test_triangles_after_a_load_and_after_later_batches_are_those_of_the_matrix(seed, workers):
    matrix, total = np.zeros((NODES, NODES), np.int64), 0
    with closing(Dataflow(triangles(), workers=workers)) as engine:
        for time in range(3):
            batch = drawn(10 * seed + time, time, 900)
            total += counted(engine.feed({"e": batch}))
            matrix = grown(matrix, batch)
            assert total == int(((matrix @ matrix) * matrix).sum())


@pytest.mark.parametrize("together", [("ef",), ("e", "f"), ("f", "e")])
def test_relations_that_are_loaded_together_or_one_after_another_have_the_same_triangles(together):
    batches = {name: drawn(ord(name), 0, 900) for name in "ef"}
    e, f = (grown(np.zeros((NODES, NODES), np.int64), batches[name]) for name in "ef")
    with closing(Dataflow(triangles("efe"))) as engine:
        total = 0
        for time, names in enumerate(together):
            fed = {name: batches[name] for name in names}
            at = {name: Batch(np.full(len(each.time), time), each.diff, each.columns) for name, each in fed.items()}
            total += counted(engine.feed(at))
    assert total == int(((e @ f) * e).sum())


def extended(engine: Dataflow) -> list[int]:
    return sorted(each > 0 for each in engine.states(ExtendCounts, ExtendCounts.extended))


def test_only_one_rule_finds_matches_in_a_load_and_every_rule_finds_some_later():
    with closing(Dataflow(triangles())) as engine:
        engine.push({"e": drawn(1, 0, 900)})
        assert extended(engine) == [False, False, True]
        engine.push({"e": drawn(2, 1, 900)})
        assert extended(engine) == [True, True, True]


def test_a_batch_of_several_times_is_no_load():
    first, second = drawn(1, 0, 900), drawn(2, 1, 900)
    columns = {name: np.concatenate([first.columns[name], second.columns[name]]) for name in ("src", "dst")}
    times, diffs = (np.concatenate([getattr(each, name) for each in (first, second)]) for name in ("time", "diff"))
    with closing(Dataflow(triangles())) as whole, closing(Dataflow(triangles())) as parts:
        apart = [counted(parts.feed({"e": each})) for each in (first, second)]
        changes = whole.feed({"e": Batch(times, diffs, columns)})
    found = [int((changes.diff * changes.columns["count"])[changes.time == time].sum()) for time in range(2)]
    assert found == apart


@given(st.lists(st.integers(-300, 300), min_size=1, max_size=200), st.sampled_from(["i2", "i4", "i8"]))
def test_an_order_sorts_values_stably(values, width):
    found = order_of(np.array(values, width))
    assert found is not None
    assert found.tolist() == sorted(range(len(values)), key=values.__getitem__)


def test_values_of_too_wide_a_range_have_no_order():
    assert order_of(np.array([0, MAX_SPAN])) is None
