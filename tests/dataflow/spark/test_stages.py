"""A plan in stages has the changes of the whole plan, for any number of shards, also if shards lose their memory."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import defaultdict
from contextlib import closing
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.chain import Chain, Pieces
from support.engines.driving import added, arrays, between, feed, stream_of, undone
from support.paths import ROOT
from support.random_plans.seeded_streams import long_stream, spread_stream, with_one_key
from support.random_plans.strategies import cases, cuts
from support.random_plans.streams import inputs_of, times_of
from support.reference.answers import changes
from support.written_plans.operators import HUGE_KEY, OPERATORS
from support.written_plans.spread import SELECTIONS, SPREAD

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.spark.messages import SourceSpec, StageSpec
from deltamark.dataflow.spark.planning.stage_planner import plan_stages
from deltamark.dataflow.spark.planning.staged_plan import ANSWER, query_of
from deltamark.dataflow.types import NULL, TEXT, integer
from deltamark.datagen.feed import Feed
from deltamark.datagen.workloads.registry import workload
from deltamark.harness.benchmarks.benchmark import benchmark
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check import verify
from deltamark.harness.check.change_stream import ChangeCsv, Digest
from deltamark.harness.engines.inputs import batches
from deltamark.harness.engines.plans import plan_of
from deltamark.harness.engines.spark_feed import FeedSource

SHARDS = (1, 2, 3)


@pytest.fixture(autouse=True)
def _short_logs(monkeypatch):
    """Merge logs of two entries, and divide entries into several parts."""
    monkeypatch.setattr("deltamark.dataflow.spark.state_log.MIN_MERGED_ENTRIES", 2)
    monkeypatch.setattr("deltamark.dataflow.spark.state_log.MAX_ENTRIES", 4)
    monkeypatch.setattr("deltamark.dataflow.spark.state_log.MAX_VALUE_BYTES", 1000)


def run_in_stages(collection, streams, feeds, shards, replicated=()):
    """Run a plan in stages; return all changes. replicated: the inputs of which every shard has a copy."""
    with closing(Pieces(collection, shards, replicated)) as engine:
        return added(feed(engine, collection, between(streams, set(times))) for times in feeds)


@pytest.mark.draws(50)
@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("name", OPERATORS)
def test_a_feed_may_have_many_times(name, shards):
    collection = OPERATORS[name]
    streams = undone({each: long_stream(schema, len(each), 40) for each, schema in inputs_of(collection).items()})
    times = times_of(streams)
    feeds = [times[:20], times[20:30], times[30:]]
    assert run_in_stages(collection, streams, feeds, shards, ["others", "labels"]) == changes(collection.node, streams)


@pytest.mark.parametrize("shards", SHARDS)
@settings(max_examples=10)
@given(cases(), st.data())
def test_plans_equal_their_recomputation(shards, case, data):
    feeds = data.draw(cuts(case.streams))
    replicated = data.draw(st.sets(st.sampled_from(sorted(case.streams))))
    assert run_in_stages(case.collection, case.streams, feeds, shards, replicated) == changes(
        case.collection.node, case.streams
    )


@settings(max_examples=20)
@given(cases(), st.data())
def test_few_keys_may_be_dealt(case, data):
    feeds = data.draw(cuts(case.streams))
    replicated = data.draw(st.sets(st.sampled_from(sorted(case.streams))))
    with patch("deltamark.dataflow.passes.partition.MIN_KEYS", 1):
        assert run_in_stages(case.collection, case.streams, feeds, 2, replicated) == changes(
            case.collection.node, case.streams
        )


@pytest.mark.parametrize("shards", SHARDS)
def test_rows_that_cancel_across_shards_are_joined_with_a_replicated_input(shards):
    """One shard has a row with weight 2, and another one, which owns its key, has the same row with weight -1."""
    rows, few = source("rows", {"a": integer(0, 9), "b": integer(0, 9)}, 1000), source("few", {"c": integer(0, 9)}, 9)
    twice = rows.concat(rows.select(a=col.b, b=col.a))
    plan = twice.concat(twice.distinct().negate()).join(few, on={}).count(by="c")
    choices = random.Random(shards)
    updates = [((choices.randrange(10), choices.randrange(10)), time, 1) for time in range(20)]
    streams = undone({"rows": updates, "few": [((1,), 0, 1)]})
    assert run_in_stages(plan, streams, [range(5), range(5, 25)], shards, ["few"]) == changes(plan.node, streams)


@pytest.mark.parametrize("name", HUGE_KEY)
def test_all_rows_may_have_the_same_key(name):
    collection = HUGE_KEY[name]
    streams = {each: with_one_key(schema, len(each), 200) for each, schema in inputs_of(collection).items()}
    assert run_in_stages(collection, streams, [[0, 1], [2], [5]], 2) == changes(collection.node, streams)


WIDE = SPREAD | SELECTIONS
REPLICATED = sorted({
    (name, tuple(each for each in inputs if each in inputs_of(plan)))
    for name, plan in WIDE.items()
    for inputs in ((), ("left",), ("right",), ("right", "few"))
})  # fmt: skip
"""Plans over keys of a wide range, each with inputs that every shard has a copy of."""


@pytest.mark.draws(35)
@pytest.mark.parametrize(("name", "replicated"), REPLICATED, ids=["-".join([name, *each]) for name, each in REPLICATED])
def test_keys_may_have_a_wide_range(name, replicated):
    collection = WIDE[name]
    streams = undone({each: spread_stream(len(each), 150) for each in inputs_of(collection)})
    times = times_of(streams)
    feeds = [times[:20], times[20:60], times[60:]]
    assert run_in_stages(collection, streams, feeds, 3, replicated) == changes(collection.node, streams)


@pytest.mark.parametrize("replicated", [(), ("right",), ("right", "few")])
@pytest.mark.parametrize("name", ["top-joined", "top-joined-with-a-join"])
def test_the_rows_that_a_selection_is_joined_with_stay_at_several_shards(name, replicated):
    with closing(Pieces(SELECTIONS[name], 2, replicated)) as engine:
        sent = [output for outputs in engine.chain.plan.stages for output in outputs if output.edge.name != ANSWER]
    assert "first" not in {output.edge.to for output in sent}


big_values = source("big", {"key": integer(0, 1), "value": integer(-(2**62), 2**62)}, rows=8)


def test_sums_in_a_log_may_need_more_than_64_bits():
    collection = big_values.aggregate("key", sum=col.value.sum())
    values = [2**62, 2**62 - 1, -(2**62), 17, -(2**62), -5]
    streams = {"big": undone({"big": [((1, value), time, 1) for time, value in enumerate(values)]})["big"]}
    feeds = [[time] for time in times_of(streams)]
    assert run_in_stages(collection, streams, feeds, 2) == changes(collection.node, streams)


@pytest.mark.draws(8)
@pytest.mark.usefixtures("texts_planned_once")
@pytest.mark.parametrize("name", benchmark().queries)
def test_every_query_in_stages_has_the_change_stream_of_one_worker(name, chunked):
    for variant in benchmark().queries[name].variants:
        cell = Cell(name, "0.001", "window:50", variant=variant)
        assert digest_in_stages(cell, chunked, 3) == verify.digest_of(cell, chunked)


def digest_in_stages(cell, dataset, shards):
    work, choices = workload(dataset, cell.workload), random.Random(cell.query)
    with closing(Chain(plan_of(cell, work), shards, lambda: choices.random() < 0.3)) as chain:
        feeds = [Feed(work, chain.inputs, worker=worker, workers=2) for worker in range(2)]
        lines, digest = ChangeCsv(chain.schema), Digest()
        while not feeds[0].done:
            lines.digest(chain.feed(*(batches(each.take(work.rounds // 4 + 1)) for each in feeds)), digest)
        return str(digest)


def stage_count(name, dataset, shards):
    """Count the stages of a query, without stage 0."""
    plan = plan_of(Cell(name, "0.001", "insert"), workload(dataset, "insert"))
    return len(plan_stages(plan, shards).stages) - 1


def test_each_exchange_adds_a_stage_and_one_shard_needs_a_single_stage(chunked):
    assert [stage_count(name, chunked, 2) for name in ("q01", "q06", "q04", "q12")] == [1, 1, 2, 2]
    assert {stage_count(name, chunked, 1) for name in benchmark().queries} == {1}


def test_a_column_travels_only_to_the_stages_that_read_it(chunked):
    """Two stages of q10 read customers, and one of them their texts."""
    plan = plan_stages(plan_of(Cell("q10", "0.001", "insert"), workload(chunked, "insert")), 2)
    sent = {output.edge.stage: output for output in plan.stages[0] if output.input == "customer"}
    assert {stage: output.edge.texts for stage, output in sent.items()} == {
        1: (), 3: ("name", "address", "phone", "comment")
    }  # fmt: skip
    assert [sent[stage].texts.keys() for stage in (1, 3)] == [set(), {*sent[3].edge.texts}]


PLANNING = """
import sys
import deltamark.dataflow.spark.stage, deltamark.dataflow.spark.upserts
from deltamark.dataflow.spark.data_source import DeltaReader
reader = DeltaReader(sys.argv[1])
end = reader.latestOffset(reader.initialOffset(), None)
assert len(reader.partitions(end, reader.latestOffset(end, None))) == 1
sys.exit("numba" in sys.modules or "pandas" in sys.modules)
"""


def test_a_process_that_plans_batches_imports_neither_the_engine_nor_pandas(chunked):
    """Spark starts several such processes for each query."""
    stage = StageSpec(plan_stages(plan_of(Cell("q12", "0.001"), workload(chunked, "insert")), 2), 1, (0, 1), {})
    inputs = FeedSource(str(chunked.directory), "", "insert", 1, 100, 1000, ("orders", "lineitem"))
    spec = SourceSpec(stage.to_text(), stage.shards, inputs).to_text()
    assert subprocess.run([sys.executable, "-c", PLANNING, spec], cwd=ROOT, check=False).returncode == 0


def test_log_entries_are_merged_only_if_rows_cancel_or_add_up(monkeypatch):
    monkeypatch.setattr("deltamark.dataflow.spark.state_log.MAX_ENTRIES", 1000)
    keys, value = {"key": integer(0, 9)}, integer(0, 9)
    sums = source("ones", {**keys, "value": value}, 100).aggregate("key", sum=col.value.sum())
    plan, last = sums.join(source("others", keys, 100), on="key"), 9
    with closing(Chain(plan, 1)) as chain:
        for time in range(last + 1):
            chain.feed({
                "ones": Batch(np.full(10, time), np.full(10, 1), {"key": np.arange(10), "value": np.arange(10)}),
                "others": Batch(np.full(10, time), np.full(10, 1 if time < last else -1), {"key": np.arange(10)}),
            })  # fmt: skip
            (log,) = chain.logs.values()
            ones, others = (len(each) for each in log.index({}).entries.values())
            assert ones < 3
            assert others == (time + 1 if time < last else 1)


def test_log_entries_are_merged_only_if_their_ranges_of_keys_overlap(monkeypatch):
    """A batch that touches keys of all others is merged with them; batches with keys of their own are not."""
    monkeypatch.setattr("deltamark.dataflow.spark.state_log.MAX_ENTRIES", 1000)
    many = source("many", {"key": integer(0, 999), "value": integer(0, 9)}, 10_000)
    with closing(Chain(many.aggregate("key", sum=col.value.sum()), 1)) as chain:
        log = chain.logs[1, 0]
        for time in range(9):
            keys = np.arange(100 * time, 100 * time + 100) if time < 8 else np.arange(0, 800, 8)
            one = np.full(100, 1)
            chain.feed({"many": Batch(np.full(100, time), one, {"key": keys, "value": one})})
            (entries,) = log.index({}).entries.values()
            assert len(entries) == (time + 1 if time < 8 else 1)
        assert sum(each.rows for each in entries) == 800


@pytest.mark.parametrize("weight", [1, 2**30, 2**31, 2**40])
def test_a_log_has_the_exact_sum_of_a_heavy_row(weight):
    heavy = source("heavy", {"a": integer(-(2**62), 2**62)}, 2**43)
    plan = heavy.aggregate(sum=(0 - col.a).sum())
    updates = [((0,), 0, 1), ((3,), 1, weight), ((2**62,), 1, 2**40), ((2**62,), 1, 1 - 2**40), ((0,), 2, -1)]
    with closing(Pieces(plan, 1, (), 1)) as engine:
        result = added(feed(engine, plan, between({"heavy": updates}, {time})) for time in range(3))
    assert result == changes(plan.node, {"heavy": updates})


@pytest.mark.parametrize("shards", SHARDS)
@pytest.mark.parametrize("plan_name", ["unchanged", "distinct", "filtered"])
def test_texts_of_inputs_may_be_null(plan_name, shards):
    some = source("some", {"a": TEXT.or_null(), "b": integer(-2, 3)}, 1000)
    plan = {"unchanged": some, "distinct": some.distinct(), "filtered": some.where(~col.a.is_null())}[plan_name]
    rows = [("", 0), (NULL, 1), ("é", 2), (NULL, 2)]
    updates = [(row, time, 1) for time in range(2) for row in rows] + [(rows[1], 2, -2)]
    assert run_in_stages(plan, {"some": updates}, [[0], [1], [2]], shards) == changes(plan.node, {"some": updates})


SEVERAL = {name: SPREAD[name] for name in ("join", "join-then-count", "sum", "distinct", "top", "sum-of-sums")}


@pytest.mark.parametrize("shards", SHARDS)
def test_several_plans_in_one_chain_have_the_changes_of_each_alone(shards):
    """Some of their answers are complete in an earlier stage than others."""
    schemas = {name: schema for plan in SEVERAL.values() for name, schema in inputs_of(plan).items()}
    streams = undone({each: spread_stream(len(each), 150) for each in schemas})
    times, found, choices = times_of(streams), defaultdict(list), random.Random(shards)
    chain = Chain(SEVERAL, shards, lambda: choices.random() < 0.3)
    for part in (times[:20], times[20:60], times[60:]):
        fed = {name: arrays(schemas[name], each) for name, each in between(streams, set(part)).items() if each}
        for name, answer in chain.feed(fed).items():
            found[query_of(name)].append(stream_of(SEVERAL[query_of(name)], answer))
        if shards > 1:
            chain = chain.rescaled(5 - chain.shards)
    chain.close()
    assert {name: added(each) for name, each in found.items()} == {
        name: changes(plan.node, streams) for name, plan in SEVERAL.items()
    }


def test_several_plans_receive_common_inputs_once():
    join, count = SPREAD["join"], SPREAD["join-then-count"]
    assert len(plan_stages({"join": join, "count": count}, 2).stages[0]) == len(plan_stages(join, 2).stages[0]) == 2
