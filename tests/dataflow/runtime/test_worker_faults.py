"""Faults of workers: the error of one worker is raised, whichever worker is faster, and the others stop."""

from __future__ import annotations

import time
from contextlib import closing

import pytest
from support.engines.driving import arrays, feed
from support.engines.inside import worker_of
from support.patience import patient
from support.random_plans.streams import inputs_of
from support.written_plans.spread import SPREAD, left, right

from deltamark.dataflow.kernels.parallel.key_partition import BLOCK_BITS
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.runtime.worker import Worker
from deltamark.dataflow.types import integer
from deltamark.errors import DeltamarkError


@pytest.fixture(autouse=True)
def small_slices(monkeypatch):
    """Make slices so small that a feed has several rounds, and a time several slices."""
    monkeypatch.setattr("deltamark.dataflow.builder.program.SLICE_ROWS", 3)
    monkeypatch.setattr("deltamark.dataflow.builder.program.WORKERS_SLICE_FACTOR", 1)


@pytest.mark.parametrize("key", range(4))
@pytest.mark.parametrize("name", ["distinct", "join", "sum", "top"])
def test_several_workers_raise_the_error_of_one(name, key):
    collection = SPREAD[name]
    streams = {"left": [((16 * key + 5, 1), 3, 1), ((16 * key + 5, 1), 9, -2)], "right": [((1 << 18, 1), 9, 1)]}
    found = []
    for engine in (Dataflow(collection), Dataflow(collection, workers=3)):
        with closing(engine), pytest.raises(DeltamarkError) as error:
            feed(engine, collection, {each: streams[each] for each in inputs_of(collection)})
        found.append(str(error.value))
    assert found[0] == found[1]
    assert "time 9" in found[0]


def number_of(worker):
    return worker.program.read(worker.program.worker)


@pytest.fixture
def before_programs(monkeypatch):
    """Call a function with a number before the program of that worker runs, in its thread."""
    begin, execute = Worker.begin_program, Worker.execute_program

    def call_before(number, do):
        def run(worker):
            if number_of(worker) == number:
                do(worker)
            execute(worker)

        monkeypatch.setattr(Worker, "begin_program", lambda each: begin(each) if number_of(each) != number else 0)
        monkeypatch.setattr(Worker, "execute_program", run)

    return call_before


@pytest.fixture(params=range(3))
def slow(request, before_programs):
    """Let one of three workers begin each feed late."""
    before_programs(request.param, lambda _: time.sleep(0.05))


def error_of(plans, streams, workers):
    """Return the error of a feed of streams."""
    schemas = {name: schema for plan in plans.values() for name, schema in inputs_of(plan).items()}
    batches = {name: arrays(schemas[name], stream) for name, stream in streams.items()}
    with closing(Dataflow(plans, workers=workers)) as engine, pytest.raises(DeltamarkError) as error:
        engine.push(batches)
    return str(error.value)


def id_of(owner):
    """Return the id of a row of one of three workers, which own neighbouring blocks of ids."""
    return (owner << BLOCK_BITS) + 5


def retracted(owner, time):
    """Return the changes of a row of a worker that is retracted too often."""
    row = (id_of(owner), 1)
    return [(row, 0, 1), (row, time, -2)]


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize(("one", "other"), [(0, 1), (1, 2), (2, 0)])
def test_the_earliest_of_the_failures_of_an_operator_is_raised_whichever_worker_is_late(one, other):
    plans = {"ids": left.distinct("id")}
    streams = {"left": sorted([*retracted(one, 7), *retracted(other, 5)], key=lambda update: update[1])}
    assert error_of(plans, streams, 3) == error_of(plans, streams, 1)
    assert f"id={id_of(other)} at time 5" in error_of(plans, streams, 3)


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize(("one", "other"), [(0, 1), (1, 2), (2, 0)])
def test_the_failure_of_the_first_operator_of_a_superstep_is_raised_whichever_worker_is_late(one, other):
    plans = {"first": left.distinct("id"), "second": right.distinct("id")}
    streams = {"left": retracted(one, 7), "right": retracted(other, 5)}
    assert error_of(plans, streams, 3) == error_of(plans, streams, 1)
    assert f"id={id_of(one)} at time 7" in error_of(plans, streams, 3)


def test_the_error_of_a_sum_does_not_depend_on_the_slices_behind_it():
    amounts = source("amounts", {"amount": integer(2**31, 2**31 + 2, scale=4)}, rows=800_000)
    total = amounts.aggregate(mean=(col.amount * col.amount).mean())
    rows = [(2**31 + 2, 11, 1), (2**31 + 1, 12, 3), (2**31 + 1, 1012, -6), (2**31 + 1, 1012, 3), (2**31, 1014, 2)]
    stream = [((amount,), at, diff) for amount, at, diff in rows]
    found = set()
    for workers in (1, 2, 3):
        with closing(Dataflow(total, workers=workers)) as engine, pytest.raises(DeltamarkError) as error:
            feed(engine, total, {"amounts": stream})
        found.add(str(error.value))
    assert found == {"a sum needs more than 64 bits: the only group at time 12; narrow the bounds of what is summed"}


@pytest.mark.parametrize("unread", [0, 6, 9])
def test_the_error_of_a_sum_names_the_time_that_stays_open_for_rows_that_do_not_reach_the_sum(unread):
    amounts = source("amounts", {"amount": integer(0, 2**62)}, rows=100)
    total = amounts.where(col.amount > 0).aggregate(sum=col.amount.sum())
    stream = [((2**62,), 5, 2), *[((0,), 5, 1)] * unread, ((2**62,), 6, -1)]
    for workers in (1, 2, 3):
        error = error_of({"total": total}, {"amounts": stream}, workers)
        assert error.startswith("a sum needs more than 64 bits: the only group at time 5;")


def test_a_worker_that_awaits_no_message_stops_at_the_superstep_behind_a_failure(before_programs):
    def await_failure(worker):
        end = time.monotonic() + patient(60)
        while not worker.program.read(worker.program.stop):
            assert time.monotonic() < end, "no other worker fails"
            time.sleep(0.001)

    before_programs(0, await_failure)
    stream = [*retracted(1, 0), *(((5, 1), time, 1) for time in range(1, 100))]
    with Dataflow({"ids": left.distinct("id")}, workers=3) as engine:
        with pytest.raises(DeltamarkError, match=f"id={id_of(1)} at time 0"):
            engine.push({"left": arrays(left.schema, stream)})
        first = worker_of(engine)
        assert first.step < 3 * len(first.program.ops)


@pytest.mark.parametrize("number", range(3))
def test_a_fault_of_a_worker_ends_the_others(number, before_programs):
    """Its error is raised as it is, and the dataflow refuses later feeds."""

    def fail(_worker):
        raise ValueError("a fault")

    collection = SPREAD["join"].count(by="value")
    before_programs(number, fail)
    with Dataflow(collection, workers=3) as engine:
        with pytest.raises(ValueError, match="a fault"):
            feed(engine, collection, {name: [((5, 1), 0, 1)] for name in inputs_of(collection)})
        with pytest.raises(DeltamarkError, match="an earlier call was stopped halfway: ValueError: a fault"):
            engine.push({})


def test_a_wrong_batch_is_refused_and_does_no_harm():
    with closing(Dataflow(left.distinct("id"), workers=2)) as engine:
        wrong = {"left": arrays(left.schema, [((1, 1), 0, 1)])}
        with pytest.raises(DeltamarkError, match=r"left.id: 1..1, declared 5"):
            engine.feed(wrong)
        assert feed(engine, left.distinct("id"), {"left": [((7, 1), 0, 1)]}) == {(0, (7,)): 1}
