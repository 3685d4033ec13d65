"""Laws of BiGJoin and BiGJoin-S on virtual shards: they compute the join, and shards have the load of the papers."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.driving import arrays
from support.random_plans.strategies import rows
from support.random_plans.streams import inputs_of
from support.reference.answers import answer
from support.written_plans.motifs import MOTIFS, RELATIONS, motif

from deltamark.dataflow.language.collection import source
from deltamark.dataflow.language.motif import Atom
from deltamark.dataflow.types import integer
from deltamark.datagen.graphs.generator import graph
from deltamark.errors import DeltamarkError
from deltamark.harness.suites.graphs.counting import oracle
from deltamark.harness.suites.graphs.graph_data import WORKLOADS, Edges
from deltamark.harness.suites.graphs.partitioning import BalancedPartitioning, PrefixPartitioning, dealt
from deltamark.harness.suites.graphs.virtual_shards import ALGORITHMS, ShardedMotif, last_ready
from deltamark.queries.graph.motifs import MOTIFS as NAMED

each_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)


def of_test_motif(name: str, streams) -> ShardedMotif:
    words, where = MOTIFS[name]
    smaller = [condition.node.columns() for condition in where]
    pairs = [word.split(":") for word in words.split()]
    found = ShardedMotif([Atom(RELATIONS[relation], tuple(names)) for relation, names in pairs], smaller)
    found.load({each: arrays(schema, streams[each]) for each, schema in inputs_of(motif(name)).items()})
    return found


def of_graph(name: str, edges: Edges) -> ShardedMotif:
    found = ShardedMotif([Atom(edges.relation(), variables) for _, variables in NAMED[name].atoms], NAMED[name].smaller)
    found.load({"e": WORKLOADS["load"](edges, 1).batch(0, len(edges), 0)})
    return found


@pytest.mark.draws(13)
@pytest.mark.parametrize("name", MOTIFS)
@each_algorithm
@settings(max_examples=6)
@given(data=st.data())
def test_a_sharded_motif_has_as_many_matches_as_the_join_of_whole_collections(name, algorithm, data):
    streams = {
        each: [(row, 0, 1) for row in data.draw(st.lists(rows(schema), max_size=12))]
        for each, schema in inputs_of(motif(name)).items()
    }
    expected = answer(motif(name, "binary").node, streams, 0)
    sharded = of_test_motif(name, streams)
    shards, batch = data.draw(st.sampled_from([1, 2, 3, 7])), data.draw(st.sampled_from([1, 2, 5, 100]))
    run = sharded.run(algorithm, shards=shards, batch=batch)
    assert run.count() == sum(expected.values())
    assert run.load.messages.sum() % 2 == 0


@pytest.mark.parametrize("name", NAMED)
def test_named_motifs_have_the_counts_of_duckdb(name):
    random = np.random.default_rng(5)
    edges = Edges("x", random.integers(0, 14, 90), random.integers(0, 14, 90))
    expected = oracle(NAMED[name], WORKLOADS["load"](edges, 1), len(edges))
    assert expected > 0
    sharded = of_graph(name, edges)
    for algorithm in ALGORITHMS:
        for shards, batch in ((1, 500), (3, 50), (16, 64)):
            run = sharded.run(algorithm, shards=shards, batch=batch)
            assert run.count() == expected


@given(data=st.data())
def test_any_work_is_dealt_evenly(data):
    shards = data.draw(st.integers(1, 6))
    turns, totals = np.tile(np.arange(shards), 1), np.zeros((shards, shards), np.int64)
    for _ in range(data.draw(st.integers(1, 4))):
        work = np.array(data.draw(st.lists(st.integers(1, 40), max_size=8)), dtype=np.int64)
        source_of = np.array([data.draw(st.integers(0, shards - 1)) for _ in work], dtype=np.int64)
        pieces, turns = dealt(source_of, work, turns)
        size = pieces.stop - pieces.start
        assert (size > 0).all()
        covered = Counter(
            (which, place)
            for which, start, stop in zip(pieces.which, pieces.start, pieces.stop, strict=True)
            for place in range(start, stop)
        )
        assert covered == Counter((which, place) for which, each in enumerate(work) for place in range(each))
        assert len(size) <= len(work) + shards**2
        np.add.at(totals, (source_of[pieces.which], pieces.target), size)
        assert (np.ptp(totals, axis=1) <= 1).all()


@given(left=st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), max_size=4), batch=st.integers(1, 9))
def test_the_last_level_with_a_batch_for_one_shard_or_for_all_runs(left, batch):
    levels = np.array(left, dtype=np.int64).reshape(-1, 3)
    for scheme, enough in ((PrefixPartitioning, any), (BalancedPartitioning, all)):
        ready = [number for number, each in enumerate(left) if enough(work >= batch for work in each)]
        assert last_ready(scheme(3, len(left)), levels, batch) == max(ready, default=-1)


def drawn(name: str) -> Edges:
    src, dst = graph(name).edges(0)
    pairs = np.unique(np.stack([src, dst], axis=1)[src != dst], axis=0)
    return Edges(name, pairs[:, 0].copy(), pairs[:, 1].copy())


def unevenness(loads: np.ndarray) -> float:
    return loads.max() / loads.mean()


KINDS_OF_LOAD = ("index", "proposals", "lookups", "messages")
SHARDS = 8
SKEWED = ("star:4000", "hub:4000", "zipf:11")
EVEN = ("rmat:11", "grid:60")


@pytest.mark.parametrize("name", SKEWED + EVEN)
def test_a_shard_of_bigjoin_s_has_its_share_and_a_bounded_number_of_batches_in_a_step(name):
    """Theorem 3.4: for any skew, if a batch has max(w, log(IN * MaxOut)) * w proposals."""
    edges = drawn(name)
    batch = SHARDS * math.ceil(max(SHARDS, 2.5 * math.log(3 * len(edges))))
    run = of_graph("triangle", edges).run("bigjoin-s", shards=SHARDS, batch=batch)
    run.count()
    load = run.load
    assert all(unevenness(getattr(load, kind)) < 1.2 for kind in KINDS_OF_LOAD)
    assert load.busiest <= 2 * batch
    assert run.rounds <= load.proposals.sum() // (batch * SHARDS) + 3**2


@pytest.mark.parametrize(("name", "kind"), [("star:4000", "index"), ("star:4000", "lookups"), ("hub:4000", "index")])
def test_one_shard_of_bigjoin_has_most_of_the_cost_of_a_hub(name, kind):
    run = of_graph("triangle", drawn(name)).run("bigjoin", shards=SHARDS, batch=200)
    run.count()
    assert unevenness(getattr(run.load, kind)) > SHARDS / 3


def test_balance_doubles_the_index_and_adds_messages():
    """An index stores each row twice, and its key once more; each answer is a message like its question."""
    sharded = of_graph("triangle", drawn("rmat:11"))
    loads = {}
    for algorithm in ALGORITHMS:
        run = sharded.run(algorithm, shards=SHARDS, batch=1000)
        run.count()
        loads[algorithm] = run.load
    plain, balanced = loads["bigjoin"], loads["bigjoin-s"]
    assert 2 * plain.index.sum() < balanced.index.sum() <= 3 * plain.index.sum()
    assert balanced.proposals.sum() == plain.proposals.sum()
    assert plain.messages.sum() < balanced.messages.sum() < 4 * plain.messages.sum()


def test_a_shard_sends_equal_lookups_once():
    scheme = BalancedPartitioning(2, 1)
    at, word = np.array([0, 0, 0, 1]), np.full(4, 12345, np.uint64)
    scheme.count(at, word)
    assert scheme.load.lookups.sum() == 2


def test_the_lookups_of_one_prefix_are_spread_over_all_shards():
    scheme = BalancedPartitioning(4, 1)
    at, word, values = np.zeros(1000, np.int64), np.full(1000, 12345, np.uint64), np.arange(1000)
    for ask in (lambda: scheme.validate(at, word, values), lambda: scheme.resolve(at, word, values, np.zeros_like(at))):
        before = scheme.load.lookups.copy()
        ask()
        lookups = scheme.load.lookups - before
        assert lookups.sum() == 1000
        assert lookups.max() < 350


def test_equal_keys_of_two_indexes_are_two_lookups():
    scheme = BalancedPartitioning(4, 1)
    at, word = np.zeros(2, np.int64), np.full(2, 12345, np.uint64)
    scheme.resolve(at, word, np.array([7, 7]), np.array([0, 1]))
    assert scheme.load.lookups.sum() == 2


NODES = integer(0, 9)
FEW = source("e", {"src": NODES, "dst": NODES}, rows=99)


@pytest.mark.parametrize(("shards", "batch"), [(0, 1), (1, 0), (1 << 20, 1)])
def test_no_shards_and_no_batches_are_errors(shards, batch):
    sharded = ShardedMotif([Atom(FEW, ("a", "b"))])
    with pytest.raises(DeltamarkError, match="no such shards"):
        sharded.run("bigjoin", shards=shards, batch=batch)


def test_an_algorithm_that_is_unknown_is_an_error():
    with pytest.raises(DeltamarkError, match="did you mean"):
        ShardedMotif([Atom(FEW, ("a", "b"))]).run("bigjoins", shards=1)


def test_a_row_of_negative_weight_is_an_error():
    with pytest.raises(DeltamarkError, match=r"negative multiplicity: \[1, 2\]"):
        ShardedMotif([Atom(FEW, ("a", "b"))]).load({"e": arrays(FEW.schema, [((1, 2), 0, -1)])})


@each_algorithm
def test_a_product_of_weights_beyond_64_bits_is_an_error(algorithm):
    many = source("e", {"src": NODES, "dst": NODES}, rows=1 << 31)
    sharded = ShardedMotif([Atom(many, tuple(names)) for names in ("ab", "bc", "ac")])
    sharded.load({"e": arrays(many.schema, [((1, 1), 0, 1 << 30)])})
    with pytest.raises(DeltamarkError, match="64 bits"):
        sharded.run(algorithm, shards=2).count()
