"""A query that continues with another number of shards has the changes of one whose number never changed.

`make chaos KINDS=spark RESCALE=...` kills drivers while state is dealt.
"""

from __future__ import annotations

import random
from contextlib import closing
from itertools import cycle, islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.chain import Pieces, digest_in_stages
from support.engines.driving import added, between, feed, undone
from support.random_plans.seeded_streams import long_stream, spread_stream
from support.random_plans.strategies import cases, cuts
from support.random_plans.streams import inputs_of, times_of
from support.reference.answers import changes
from support.written_plans.operators import OPERATORS
from support.written_plans.spread import SELECTIONS, SPREAD

from deltamark.dataflow.spark.directory import Directory
from deltamark.dataflow.spark.rescale import BUILT, SUFFIX, Rescaling, rescaled
from deltamark.datagen.workloads.registry import workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import benchmark
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check import verify
from deltamark.harness.engines.spark import SparkEngine
from deltamark.harness.engines.spark_feed import SESSIONS

pytestmark = pytest.mark.waits(6)

NUMBERS = (3, 8, 2)


def run_rescaled(collection, streams, feeds, replicated=()):
    """Run a plan for two shards, which become 3, 8 and 2 ... between feeds; return all changes."""
    numbers = cycle(NUMBERS)
    with closing(Pieces(collection, 2, replicated)) as engine:

        def fed(times):
            changes = feed(engine, collection, between(streams, set(times)))
            engine.rescale(next(numbers))
            return changes

        return added(map(fed, feeds))


@settings(max_examples=20)
@given(cases(), st.data())
def test_random_plans_are_rescaled(case, data):
    feeds = data.draw(cuts(case.streams))
    replicated = data.draw(st.sets(st.sampled_from(sorted(case.streams))))
    assert run_rescaled(case.collection, case.streams, feeds, replicated) == changes(case.collection.node, case.streams)


@pytest.mark.draws(20)
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_rescaled(name):
    collection = OPERATORS[name]
    streams = undone({each: long_stream(schema, len(each), 40) for each, schema in inputs_of(collection).items()})
    times = times_of(streams)
    feeds = [times[:20], times[20:30], times[30:]]
    assert run_rescaled(collection, streams, feeds, ["others", "labels"]) == changes(collection.node, streams)


@pytest.mark.draws(20)
@pytest.mark.parametrize("name", SPREAD | SELECTIONS)
def test_keys_of_a_wide_range_are_rescaled(name):
    """Selections have edges whose rows depend on the shards."""
    collection = (SPREAD | SELECTIONS)[name]
    streams = undone({each: spread_stream(len(each), 150) for each in inputs_of(collection)})
    times = times_of(streams)
    feeds = [times[:20], times[20:60], times[60:90], times[90:]]
    assert run_rescaled(collection, streams, feeds, ["right"]) == changes(collection.node, streams)


@pytest.mark.draws(4)
@pytest.mark.usefixtures("texts_planned_once")
@pytest.mark.parametrize("work", ["window:50", "refresh:5"])
@pytest.mark.parametrize("name", benchmark().queries)
def test_every_query_is_rescaled(name, work, chunked):
    cell, choices = Cell(name, "0.001", work), random.Random(name)
    digest = digest_in_stages(cell, chunked, cycle(NUMBERS), lambda: choices.random() < 0.3)
    assert digest == verify.digest_of(cell, chunked)


CELL = Cell("q12", "0.001", "window:500", physical=250, workers=2, engine="spark", master="local[2]")


def start(cell, dataset):
    work = workload(dataset, cell.workload)
    return SparkEngine(cell, dataset, work).start(work.rounds)


@pytest.fixture
def stopped(chunked, tmp_path):
    """A query of two shards that was stopped after some batches, perhaps within one."""
    cell = CELL.but(checkpoint=str(tmp_path / "query"))
    running = start(cell, chunked)
    try:
        assert len(list(islice(running.progress(), 3))) == 3
    finally:
        running.stop()
    return cell


class KilledError(Exception):
    """The end of a process."""


def killed_after(step):
    """Return a patch that kills a rescaling at the end of a step."""

    def strike(patch):
        original = getattr(Rescaling, step)

        def struck(*given):
            original(*given)
            raise KilledError

        patch.setattr(Rescaling, step, struck)

    return strike


def killed_between_the_renamings(patch):
    original = Directory.rename

    def struck(directory, name, to):
        if name == BUILT:
            raise KilledError
        original(directory, name, to)

    patch.setattr(Directory, "rename", struck)


def killed_before_the_end(patch):
    def struck(_):
        raise KilledError

    patch.setattr(Rescaling, "discard", struck)


BEFORE_THE_RENAMINGS = list(map(killed_after, ("_deal", "_settle", "_build")))


def test_a_rescaling_that_is_killed_is_continued(stopped, chunked, monkeypatch):
    checkpoint, cell = Path(stopped.checkpoint, "checkpoint"), stopped.but(workers=3)
    before = contents(checkpoint)
    for strike in BEFORE_THE_RENAMINGS:
        kill(cell, chunked, monkeypatch, strike)
        assert contents(checkpoint).items() >= before.items()
    kill(cell, chunked, monkeypatch, killed_between_the_renamings)
    kill(cell, chunked, monkeypatch, killed_before_the_end)
    assert verify.digest_of(cell, chunked) == verify.digest_of(Cell(cell.query, cell.sf, cell.workload), chunked)
    assert [each.name for each in checkpoint.parent.iterdir() if SUFFIX in each.name] == []


def kill(cell, dataset, monkeypatch, strike):
    with monkeypatch.context() as patch:
        strike(patch)
        with pytest.raises(KilledError):
            start(cell, dataset)


def contents(directory):
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


WRONG = {
    "one shard cannot become several: 2,": 'v1\n{"conf": {"spark.sql.shuffle.partitions": "1"}}\n-',
    "a corrupt checkpoint: .*/offsets/0: v9; remove": "v9\n{}",
    "a corrupt checkpoint: .*/offsets/0: .*; remove": "",
}


@pytest.mark.parametrize("reason", WRONG)
def test_a_checkpoint_that_cannot_be_rescaled_is_refused(reason, tmp_path):
    """The plan of one shard moves no rows."""
    (tmp_path / "state" / "offsets").mkdir(parents=True)
    (tmp_path / "state" / "offsets" / "0").write_text(WRONG[reason])
    with pytest.raises(DeltamarkError, match=reason):
        rescaled(SESSIONS.on(CELL.master), SPREAD["sum"], 2, str(tmp_path / "state"))
