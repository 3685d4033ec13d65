"""Laws of saved states: a dataflow that continues from one has the changes and the rows of the one that was saved."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from contextlib import ExitStack, closing

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.driving import added, arrays, between, feed, maintained, stream_of
from support.engines.late import fed, live, numbers_of_workers
from support.paths import ROOT
from support.random_plans.case import Case
from support.random_plans.seeded_streams import long_stream
from support.random_plans.strategies import cases, cuts, streams_of
from support.random_plans.streams import inputs_of, times_of
from support.reference.answers import changes
from support.written_plans.loops import LOOPS
from support.written_plans.motifs import MOTIFS, motif
from support.written_plans.operators import OPERATORS, each_operator, items, others

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.kernels.core.pages import POOL
from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.operators.input import base_inputs
from deltamark.dataflow.runtime import live_plans, saved_state
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import TEXT, integer
from deltamark.errors import DeltamarkError

few = settings(max_examples=4)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("states") / "a.state"


def replaced(dataflow, plans, path, workers=1, retired=()):
    """Return a dataflow restored from the state of another one, whose memory is unmapped: no address may be left."""
    dataflow.save(path)
    again = Dataflow.restore(path, plans, workers=workers, retired=retired)
    rows = dataflow.state_rows()
    dataflow.close()
    POOL.clear()
    assert again.state_rows() == rows
    return again


def replaced_after_each(plan, streams, feeds, path, workers):
    """Return all changes of a dataflow that is replaced after each feed."""
    found = []
    with ExitStack() as stack:
        dataflow = stack.enter_context(Dataflow(plan, workers=workers))
        for times in feeds:
            found.append(feed(dataflow, plan, between(streams, set(times))))
            dataflow = stack.enter_context(replaced(dataflow, plan, path, workers))
    return added(found)


def check(case, feeds, path, workers=1):
    found = replaced_after_each(case.collection, case.streams, feeds, path, workers)
    assert found == changes(case.collection.node, case.streams)


@pytest.mark.draws(26)
@each_operator
@few
@given(data=st.data())
def test_an_operator_continues_from_a_saved_state(path, name, data):
    case = Case(OPERATORS[name], data.draw(streams_of(OPERATORS[name])))
    check(case, data.draw(cuts(case.streams)), path, data.draw(numbers_of_workers))


@pytest.mark.draws(8)
@pytest.mark.parametrize("name", LOOPS)
@few
@given(data=st.data())
def test_a_loop_continues_from_a_saved_state(path, name, data):
    case = Case(LOOPS[name], data.draw(streams_of(LOOPS[name])))
    check(case, data.draw(cuts(case.streams)), path, data.draw(numbers_of_workers))


@pytest.mark.draws(8)
@pytest.mark.parametrize("name", MOTIFS)
@few
@given(data=st.data())
def test_a_motif_continues_from_a_saved_state(path, name, data):
    plan, workers = motif(name), data.draw(numbers_of_workers)
    streams = data.draw(streams_of(plan))
    feeds = data.draw(cuts(streams))
    found = replaced_after_each(plan, streams, feeds, path, workers)
    assert found == maintained(plan, streams, feeds, workers)


@settings(max_examples=30)
@given(case=cases(), data=st.data())
def test_a_plan_continues_from_a_saved_state(path, case, data):
    check(case, data.draw(cuts(case.streams)), path)


@pytest.mark.draws(26)
@pytest.mark.parametrize("workers", [1, 2, 3])
@each_operator
def test_many_times_continue_from_saved_states(path, name, workers):
    collection = OPERATORS[name]
    streams = {each: long_stream(schema, len(each), 120) for each, schema in inputs_of(collection).items()}
    times = times_of(streams)
    check(Case(collection, streams), [times[:50], times[50:90], times[90:]], path, workers)


ROWS = 100_000
numbers = source("numbers", {"key": integer(0, 1 << 40), "value": integer(0, 1 << 30)}, ROWS)
names = source("names", {"key": integer(0, 1 << 40), "name": TEXT}, ROWS)
JOINED = {
    "joined": numbers.join(names, on="key").aggregate(by="name", total=col.value.sum()),
    "names": names.distinct("name"),
}


def batches(time, rows):
    """Return insertions of many keys and texts, or the retraction of most of those of the time before."""
    draw = np.random.default_rng(time // 2)
    key, value = np.arange(rows) * 12_345, draw.integers(0, 1 << 30, rows)
    text = pa.array([f"{number % 40_000} of {time // 2}" + "x" * (number % 700) for number in range(rows)])
    kept = slice(0, rows) if time % 2 == 0 else slice(0, rows - 1000)
    times, weights = np.full(rows, time)[kept], np.full(rows, 1 - time % 2 * 2)[kept]
    return {
        "numbers": Batch(times, weights, {"key": key[kept], "value": value[kept]}),
        "names": Batch(times, weights, {"key": key[kept], "name": text[kept]}),
    }


def summed(batch):
    rows = zip(*(each.tolist() for each in (batch.time, batch.diff, *batch.columns.values())), strict=True)
    return sorted(rows)


def test_tables_that_have_grown_and_texts_that_were_freed_are_saved(path):
    """The heap of texts gets holes when they are swept, and its texts move together when it is saved."""
    dataflow = Dataflow(JOINED)
    with closing(Dataflow(JOINED)) as undisturbed:
        for time in range(6):
            given_ = batches(time, 50_000)
            found, expected = dataflow.feed(given_), undisturbed.feed(given_)
            assert {name: summed(each) for name, each in found.items()} == {
                name: summed(each) for name, each in expected.items()
            }
            dataflow = replaced(dataflow, JOINED, path)
            assert dataflow.state_rows() == undisturbed.state_rows()
    dataflow.close()


@pytest.mark.parametrize("workers", [1, 2])
def test_plans_that_were_attached_are_saved(path, workers):
    """The first attempt to attach fails, and leaves words behind that belong to nothing."""
    joined = items.join(others, on="key")
    plans, more = {"joined": joined}, {"count": joined.count(by="key"), "words": items.distinct("word")}
    streams = {"items": [((0, 1, 0), 0, 1), ((1, 2, 1), 0, 2)], "others": [((0, 2, 8034), 0, 1)]}
    later = {"items": [((2, 1, 0), 1, 1)], "others": [((2, 0, 8035), 1, 1), ((0, 2, 8034), 1, -1)]}
    schemas = {"items": items.schema, "others": others.schema}
    dataflow = Dataflow(plans, workers=workers)
    with closing(Dataflow(plans, workers=workers)) as undisturbed:
        for each in (dataflow, undisturbed):
            fed(each, schemas, streams)
            for name, plan in more.items():
                try:
                    each.attach(name, plan)
                except DeltamarkError:
                    each.attach(name, plan, history={"items": [live(items.schema, streams["items"])]})
        dataflow = replaced(dataflow, plans | more, path, workers)
        found, expected = fed(dataflow, schemas, later), fed(undisturbed, schemas, later)
        assert {name: summed(each) for name, each in found.items()} == {
            name: summed(each) for name, each in expected.items()
        }
    dataflow.close()


@pytest.mark.draws(26)
@pytest.mark.parametrize("workers", [1, 2])
@each_operator
def test_a_plan_continues_after_another_one_was_retired(path, name, workers):
    """Each of two plans is retired once, between feeds that are followed by a saved state."""
    first = OPERATORS[name]
    schemas = inputs_of(first)
    second = Collection(base_inputs(first.node)[0]).distinct()
    streams = {each: long_stream(schema, len(each), 60) for each, schema in schemas.items()}
    feeds = [between(streams, set(range(at, at + 20))) for at in (0, 20, 40)]
    for kept, gone in ((first, second), (second, first)):
        dataflow = Dataflow({"gone": gone, "kept": kept}, workers=workers)
        found = []
        for number, each in enumerate(feeds):
            found.append(stream_of(kept, fed(dataflow, schemas, each)["kept"]))
            if number == 0:
                dataflow.retire("gone")
            dataflow = replaced(dataflow, {"kept": kept}, path, workers, [gone])
        dataflow.close()
        assert added(found) == changes(kept.node, streams)


def test_plans_that_were_attached_and_retired_are_given_again(path):
    """Memory that a retired plan has released belongs to plans that were attached later."""
    plans, streams = {"joined": items.join(others, on="key")}, {"items": [], "others": []}
    schemas, retired = {"items": items.schema, "others": others.schema}, []
    dataflow = Dataflow(plans)
    for time in range(0, 24, 2):
        now = {
            "items": [((time % 3, time % 5 - 1, time % 2), time, 1)],
            "others": [((time % 3, 0, 8034 + time % 5), time, 1)],
        }
        fed(dataflow, schemas, now)
        streams = {name: [*stream, *now[name]] for name, stream in streams.items()}
        history = {name: [live(schemas[name], stream)] for name, stream in streams.items()}
        sums = items.where(col.value < time % 4).join(others, on="key").aggregate(by="word", total=col.amount.sum())
        name = f"plan {time}"
        plans[name] = sums.select("word", total=col.total + time)
        dataflow.attach(name, plans[name], history=history)
        if len(plans) > 3:
            gone = list(plans)[time // 2 % 3]
            dataflow.retire(gone)
            retired.append(plans.pop(gone))
        dataflow = replaced(dataflow, plans, path, retired=reversed(retired))
    with closing(Dataflow(plans)) as expected:
        fed(expected, schemas, streams)
        more = {"items": [((1, 2, 1), 30, 1)], "others": [((1, 1, 8034), 30, 1)]}
        found, wanted = fed(dataflow, schemas, more), fed(expected, schemas, more)
        assert {name: summed(each) for name, each in found.items()} == {
            name: summed(each) for name, each in wanted.items()
        }
    dataflow.close()


def test_kept_answers_are_saved(path):
    plan = names.count(by="name")
    dataflow = Dataflow(plan)
    dataflow.keep()
    for time in range(3):
        dataflow.push({"names": batches(time, 2000)["names"]})
        answer = dataflow.answer()
        dataflow = replaced(dataflow, plan, path)
        assert dataflow.answer().sort_by("name") == answer.sort_by("name")
        assert dataflow.last == time
    dataflow.close()


@pytest.fixture
def small(tmp_path):
    """A saved state, and its plan."""
    plan = items.join(others, on="key").aggregate(by="word", total=col.amount.sum())
    streams = {name: long_stream(schema, 1, 9) for name, schema in inputs_of(plan).items()}
    with closing(Dataflow(plan)) as dataflow:
        feed(dataflow, plan, streams)
        dataflow.save(tmp_path / "small.state")
    return tmp_path / "small.state", plan


def refusal(path, plans, **options):
    with pytest.raises(DeltamarkError) as error:
        Dataflow.restore(path, plans, **options).close()
    return str(error.value)


def test_any_damaged_byte_is_refused(small):
    path, plan = small
    whole, rng = path.read_bytes(), random.Random(1)
    for at in [*range(40), len(whole) - 1, *(rng.randrange(len(whole)) for _ in range(60))]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :])
        assert "a state that is damaged: a wrong checksum" in refusal(path, plan)
    for size in (0, 1, 39, 40, *(rng.randrange(len(whole)) for _ in range(20))):
        path.write_bytes(whole[:size])
        assert "a state that is damaged: a wrong checksum" in refusal(path, plan)
    path.write_bytes(whole)
    Dataflow.restore(path, plan).close()


def test_states_of_other_plans_workers_and_engines_are_refused(small, monkeypatch):
    path, plan = small
    assert "a state of other plans, or of another number of workers" in refusal(path, items)
    assert "a state of other plans, or of another number of workers" in refusal(path, {"other": plan})
    assert "a state of other plans, or of another number of workers" in refusal(path, plan, workers=2)
    monkeypatch.setattr(saved_state, "engine", lambda: "newer")
    assert "a state of another version, or of another machine" in refusal(path, plan)
    assert "cannot read or write" in refusal(path.with_name("none"), plan)


def test_a_state_of_a_program_that_is_compiled_otherwise_is_refused(small, monkeypatch):
    path, plan = small
    monkeypatch.setattr(saved_state, "identity", lambda *_: "another")
    assert "a state of another program" in refusal(path, plan)


def test_a_state_between_two_times_is_not_saved(tmp_path):
    path = tmp_path / "a.state"
    history = {"items": [arrays(items.schema, [((0, 1, 0), 0, 1)])]}
    with closing(Dataflow({"count": items.count(by="key")})) as dataflow:
        dataflow.push({"items": history["items"][0]})
        hold = dataflow.hold()
        with pytest.raises(DeltamarkError, match="a time is held: 0; release the hold"):
            dataflow.save(path)
        hold.release()
        dataflow.attach("words", items.distinct("word"), history=history, fuel=2)
        with pytest.raises(DeltamarkError, match="another plan is being attached"):
            dataflow.save(path)
        assert list(tmp_path.iterdir()) == []
        dataflow.retire("words")
        dataflow.save(path)
        plans, gone = {"count": items.count(by="key")}, items.distinct("word")
        with pytest.raises(DeltamarkError, match=r"plans have shared which were retired: 1 are not given"):
            Dataflow.restore(path, plans)
        with closing(Dataflow.restore(path, plans, retired=[gone])) as again:
            assert again.state_rows() == dataflow.state_rows()
        dataflow.attach("others", gone, history=history)
        dataflow.save(path)
        with closing(Dataflow.restore(path, plans | {"others": gone})) as again:
            assert again.state_rows() == dataflow.state_rows()


def test_a_state_after_very_many_plans_were_retired_is_not_saved(tmp_path, monkeypatch):
    monkeypatch.setattr(live_plans, "RETIRED", 2)
    plan = items.count(by="key")
    with closing(Dataflow({"count": plan})) as dataflow:
        for _ in range(3):
            dataflow.attach("words", items.distinct("word"))
            dataflow.retire("words")
        dataflow.save(tmp_path / "a.state")
        dataflow.attach("words", items.distinct("word"))
        dataflow.retire("words")
        with pytest.raises(DeltamarkError, match="plans were retired 4 times, and restoring compiles each again"):
            dataflow.save(tmp_path / "a.state")


def test_programs_are_the_same_in_every_process():
    script = ROOT / "tests" / "support" / "engines" / "program_digests.py"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    found = [
        subprocess.run(
            [sys.executable, str(script)], env=environment | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert json.loads(found[0]) == json.loads(found[1])


def test_saved_bytes_end_with_their_array(path):
    """The last page of an array has bytes behind it; where an array begins in a page differs between programs."""
    with closing(Dataflow(JOINED)) as dataflow:
        dataflow.push(batches(0, 2000))
        dataflow.save(path)
    with path.open("rb") as file:
        (program,) = saved_state._Reader(file).manifest["programs"]
    ends = [(offset + size, array["size"]) for array in program["arrays"] for offset, size in array["runs"]]
    assert max(end - size for end, size in ends) == 0
