"""Faults of workers: each is reported, and no worker outlives the first. The faults are caused for real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from support.engines.driving import arrays, feed
from support.harness.processes import all_end
from support.paths import ROOT
from support.patience import patient
from support.random_plans.streams import inputs_of
from support.written_plans.spread import SPREAD, left, right

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.runtime.worker_group import WorkerGroup
from deltamark.dataflow.types import integer
from deltamark.errors import DeltamarkError


@pytest.fixture(autouse=True)
def small_slices(monkeypatch):
    """Make slices so small that a feed has several rounds, and a time several slices."""
    monkeypatch.setattr("deltamark.dataflow.builder.program.SLICE_ROWS", 3)
    monkeypatch.setattr("deltamark.dataflow.builder.program.WORKERS_SLICE_FACTOR", 1)


def children():
    """List the processes that this one has started and that have not ended."""
    tasks = Path("/proc/self/task").glob("*/children")
    return [int(pid) for task in tasks for pid in task.read_text().split()]


def long_feed():
    """Return a feed that takes seconds: a cross join."""
    rows = 1000
    numbers, zeros = np.arange(rows, dtype=np.int64), np.zeros(rows, dtype=np.int64)
    collection = left.select("id").cross(right.select(other=col.id)).aggregate(sum=(col.id - col.other).sum())
    return collection, {
        name: Batch(numbers, np.ones(rows, dtype=np.int64), {"id": numbers + 5, "value": zeros, "amount": zeros})
        for name in ("left", "right")
    }


def push_forever(engine, batches):
    while True:
        engine.push(batches)
        batches = {name: Batch(each.time + 1000, -each.diff, each.columns) for name, each in batches.items()}


@pytest.mark.parametrize(
    ("sent", "remedy"), [(signal.SIGKILL, "find the cause"), (signal.SIGTRAP, "this is a fault in deltamark")]
)
def test_the_error_for_a_dead_worker_names_its_signal(sent, remedy):
    collection, batches = long_feed()
    before = set(children())
    with closing(Dataflow(collection, workers=2)) as engine:
        (pid,) = set(children()) - before
        os.kill(pid, sent)
        with pytest.raises(DeltamarkError, match=rf"process {pid} ended by {sent.name}; {remedy}"):
            push_forever(engine, batches)


@pytest.mark.parametrize("seconds", [0, 0.01, 0.1])
@pytest.mark.parametrize("victim", [1, 2])
def test_a_killed_worker_ends_all_workers(victim, seconds):
    collection, batches = long_feed()
    before = set(children())
    with closing(Dataflow(collection, workers=3)) as engine:
        pid = sorted(set(children()) - before)[victim - 1]
        timer = threading.Timer(seconds, os.kill, (pid, signal.SIGKILL))
        timer.start()
        with pytest.raises(DeltamarkError, match=rf"worker {victim} of 3 has died: process {pid}.*; .*start again"):
            push_forever(engine, batches)
        timer.join()
        assert set(children()) == before
        with pytest.raises(DeltamarkError, match="the workers have ended"):
            engine.push({})
    engine.close()


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


@pytest.fixture(params=range(3))
def slow(request, monkeypatch):
    """Let one of three workers begin each command late."""
    whole = WorkerGroup._command

    def late(group, message):
        if group._number == request.param:
            time.sleep(0.05)
        return whole(group, message)

    monkeypatch.setattr(WorkerGroup, "_command", late)


def error_of(plans, streams, workers):
    """Return the error of a feed of streams."""
    schemas = {name: schema for plan in plans.values() for name, schema in inputs_of(plan).items()}
    batches = {name: arrays(schemas[name], stream) for name, stream in streams.items()}
    with closing(Dataflow(plans, workers=workers)) as engine, pytest.raises(DeltamarkError) as error:
        engine.push(batches)
    return str(error.value)


def retracted(key, time):
    """Return the changes of a row that is retracted too often. Each of the keys 0 to 2 has another owner of three."""
    row = (256 * key + 5, 1)
    return [(row, 0, 1), (row, time, -2)]


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize(("one", "other"), [(0, 1), (1, 2), (2, 0)])
def test_the_earliest_of_the_failures_of_an_operator_is_raised_whichever_worker_is_late(one, other):
    plans = {"ids": left.distinct("id")}
    streams = {"left": sorted([*retracted(one, 7), *retracted(other, 5)], key=lambda update: update[1])}
    assert error_of(plans, streams, 3) == error_of(plans, streams, 1)
    assert f"id={256 * other + 5} at time 5" in error_of(plans, streams, 3)


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize(("one", "other"), [(0, 1), (1, 2), (2, 0)])
def test_the_failure_of_the_first_operator_of_a_superstep_is_raised_whichever_worker_is_late(one, other):
    plans = {"first": left.distinct("id"), "second": right.distinct("id")}
    streams = {"left": retracted(one, 7), "right": retracted(other, 5)}
    assert error_of(plans, streams, 3) == error_of(plans, streams, 1)
    assert f"id={256 * one + 5} at time 7" in error_of(plans, streams, 3)


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


def test_a_worker_that_awaits_no_message_stops_at_the_superstep_behind_a_failure(monkeypatch):
    whole = WorkerGroup._command

    def after_a_failure(group, message):
        while group._number == 0 and not view(group.worker.compiled.program.stop, 1)[0]:
            time.sleep(0.001)
        return whole(group, message)

    monkeypatch.setattr(WorkerGroup, "_command", after_a_failure)
    stream = [*retracted(1, 0), *(((5, 1), time, 1) for time in range(1, 100))]
    with closing(WorkerGroup({"ids": left.distinct("id")}, 3)) as engine:
        with pytest.raises(DeltamarkError, match="id=261 at time 0"):
            engine.push({"left": arrays(left.schema, stream)})
        assert engine.worker.step < 3 * len(engine.worker.compiled.program.ops)


def test_a_failed_worker_is_named_with_its_error():
    class Source:
        def take(self, message):
            if os.getpid() != parent:
                raise ValueError(message)
            return {}

    parent = os.getpid()
    with (
        closing(WorkerGroup({"answer": left}, 2, lambda _: Source())) as engine,
        pytest.raises(DeltamarkError, match=r"worker 1 has failed: .*ValueError: 7"),
    ):
        engine.take(7)


def test_a_wrong_batch_is_refused_and_does_no_harm():
    with closing(Dataflow(left.distinct("id"), workers=2)) as engine:
        wrong = {"left": arrays(left.schema, [((1, 1), 0, 1)])}
        with pytest.raises(DeltamarkError, match=r"left.id: 1..1, declared 5"):
            engine.feed(wrong)
        assert feed(engine, left.distinct("id"), {"left": [((7, 1), 0, 1)]}) == {(0, (7,)): 1}


SCRIPT = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background ignores it
from test_worker_faults import Dataflow, children, long_feed, push_forever
collection, batches = long_feed()
engine = Dataflow(collection, workers=3)
print(*children(), flush=True)
push_forever(engine, batches)
"""


@pytest.fixture
def program():
    """Start a program that feeds three workers until it is stopped, in a group of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, env={**os.environ, "PYTHONPATH": ".:tests:tests/dataflow/runtime"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_worker_outlives_the_first(program, stop):
    pids = [int(pid) for pid in program.stdout.readline().split()]
    assert len(pids) == 2
    time.sleep(0.2)
    if stop == signal.SIGINT:
        os.killpg(program.pid, stop)
    else:
        program.send_signal(stop)
    _, errors = program.communicate(timeout=patient(60))
    assert ("KeyboardInterrupt" in errors) == (stop == signal.SIGINT)
    assert all_end(pids)
