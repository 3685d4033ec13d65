"""The suite of recovery: a killed engine continues from its snapshot, and a lie about it has its own outcome."""

from __future__ import annotations

import os
import runpy
from functools import partial
from random import Random

import pytest
from support.harness.programs import SAVING, SAVING_FILE, forked
from support.harness.suite_records import kill, record, suite_tables, texts

from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.engines.base import RefusedError
from deltamark.harness.engines.external import named
from deltamark.harness.strikes.spark import COMMITS, OFFSETS, Recovery, Struck
from deltamark.harness.suites import recovery
from deltamark.harness.suites.recovery import compared, drawn
from deltamark.harness.tables.lives import OUTCOMES

pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")

CELL = Cell("q01", "0.001", "window:500", engine=f"mine={SAVING}")


@pytest.fixture
def killed(chunked, monkeypatch):
    """Return a function that kills an engine with a fault, and returns the rows by the kind of moment."""
    monkeypatch.setattr(recovery, "BATCHES", 8)
    monkeypatch.setattr(recovery, "SNAPSHOT_EVERY", 2)
    engine = runpy.run_path(str(SAVING_FILE))["Engine"]

    def run(fault, cell=CELL, runs=1):
        forked(monkeypatch, partial(engine, fault))
        named.greeting.cache_clear()
        try:
            return {reply.row.split()[2]: reply for reply in recovery.measure(cell, chunked.directory, runs)}
        finally:
            named.greeting.cache_clear()

    return run


def outcomes(rows):
    return {moment: OUTCOMES[reply.figures["outcome"][0]] for moment, reply in rows.items()}


def test_the_changes_of_a_killed_engine_come_exactly_once(killed):
    rows = killed("right")
    assert outcomes(rows) == dict.fromkeys(("apply", "between", "snapshot"), "once")
    size = -(-1501 // recovery.BATCHES)
    for reply in rows.values():
        assert len(reply.figures["seconds"]) == 1
        (again,) = reply.figures["rounds"]
        assert 0 <= again <= size * (recovery.SNAPSHOT_EVERY + 1)
        assert min(reply.figures["snapshot_bytes"]) > 0
        assert reply.verified == "oracle"
        assert reply.note == ""


@pytest.mark.parametrize(("fault", "outcome", "note"), [
    ("loses", "wrong", "at time "),
    ("repeats", "twice", "at time "),
    ("unwritten", "gone", "it claims a snapshot of 1000 bytes, and has written 0"),
    ("unreadable", "gone", "the snapshot is torn"),
])  # fmt: skip
def test_a_lie_about_a_snapshot_has_its_outcome(killed, fault, outcome, note):
    rows = killed(fault, runs=2)
    faults = {moment: found for moment, found in outcomes(rows).items() if found != "once"}
    assert [*faults.values()] == [outcome]
    assert rows[next(iter(faults))].note.startswith(note)


def test_an_engine_without_snapshots_is_refused(chunked):
    with pytest.raises(RefusedError, match="it claims no snapshots"):
        recovery.measure(CELL.but(engine="embedded"), chunked.directory, 1)


RIGHT = {7: {("a",): 1}, 15: {("a",): -1, ("b",): 2}, 23: {("b",): -2}}


@pytest.mark.parametrize(("mine", "outcome"), [
    (RIGHT, "once"),
    ({**RIGHT, 15: {("a",): -1, ("b",): 4}}, "twice"),
    ({**RIGHT, 23: {("a",): -1}}, "twice"),
    ({**RIGHT, 31: {("b",): -2}}, "twice"),
    ({**RIGHT, 15: {("a",): -1, ("b",): 1}}, "never"),
    ({7: RIGHT[7], 23: RIGHT[23]}, "never"),
    ({**RIGHT, 15: {("a",): -1, ("c",): 2}}, "wrong"),
    ({**RIGHT, 31: {("c",): 1}}, "wrong"),
    ({15: RIGHT[15], 23: {("b",): -4}}, "wrong"),
])  # fmt: skip
def test_changes_come_once_twice_never_or_are_others(mine, outcome):
    found, problem = compared(mine, RIGHT)
    assert found == outcome
    assert bool(problem) == (outcome != "once")


@pytest.mark.parametrize("steps", [0, 1, 3, 24, 1000])
@pytest.mark.parametrize("runs", [1, 3, 100])
def test_each_batch_has_one_kill_at_most(steps, runs):
    kills = drawn(steps, runs, Random(steps))
    every = recovery.SNAPSHOT_EVERY
    assert set(kills) <= {*range(1, steps + 1)}
    assert {step for step, moment in kills.items() if moment == "snapshot"} <= {*range(every, steps + 1, every)}
    assert list(kills.values()).count("snapshot") == min(runs, steps // every)
    assert len(kills) == min(runs, steps // every) + min(2 * runs, steps - steps // every)


def test_the_recovery_of_spark_is_the_commit_of_the_batch_that_had_begun(tmp_path):
    for directory, batches in ((OFFSETS, 4), (COMMITS, 3)):
        (tmp_path / directory).mkdir()
        for batch in range(batches):
            (tmp_path / directory / str(batch)).touch()
            (tmp_path / directory / f".{batch}.crc").touch()
    struck = Struck.now(tmp_path)
    assert (struck.begun, struck.committed) == (3, 2)
    assert struck.recovery(tmp_path) is None
    commit = tmp_path / COMMITS / "3"
    commit.touch()
    os.utime(commit, (struck.at + 7, struck.at + 7))
    assert struck.recovery(tmp_path) == Recovery(pytest.approx(7), 1)
    (tmp_path / OFFSETS / "4").touch()
    ended = struck.ended(tmp_path)
    assert (ended.at, ended.begun, ended.committed) == (struck.at, 4, 3)
    assert ended.recovery(tmp_path) is None, "the commit of a killed driver is no recovery"


def test_the_table_has_a_row_for_each_kind_of_kill():
    rows = [
        kill("q03 window:500 apply mine", "once", seconds=[1.0, 4.0, 2.0], rounds=[10, 30, 20],
             snapshot_bytes=[1e6, 2e6], snapshot_seconds=[0.1, 0.3, 0.2]),
        kill("q03 window:500 driver spark", "wrong", note="another stream"),
        record("q03 window:500 my engine", note="refused: it claims no snapshots", suite="recovery", dataset="SF 1",
               table="kills", cell="x", session="session"),
    ]  # fmt: skip
    (table,) = suite_tables(rows, "recovery")
    assert texts(table) == [
        ["q03", "window:500", "mine", "in a batch", "exactly once", "3", "2.00 s", "4.00 s", "500 ms", "20", "2.0",
         "200 ms", "-"],
        ["q03", "window:500", "spark", "the driver", "WRONG", "-", "-", "-", "500 ms", "-", "-", "-",
         "another stream"],
        ["q03", "window:500", "my engine", "-", "refused", "-", "-", "-", "-", "-", "-", "-",
         "refused: it claims no snapshots"],
    ]  # fmt: skip
