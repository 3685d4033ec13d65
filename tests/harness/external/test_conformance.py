"""The small cases pass for engines that are right, and each fault of an engine fails one of them."""

from __future__ import annotations

import runpy
from functools import partial

import numpy as np
import pytest
from support.harness.programs import (
    EXAMPLE,
    SAVING,
    SAVING_FILE,
    STREAM,
    STREAM_FILE,
    faulty,
    forked,
    stream_in_thread,
)

from deltamark.dataflow.batch import Batch
from deltamark.harness.cli.main import main
from deltamark.harness.conformance import run
from deltamark.harness.conformance.run import SEVERAL, run_all
from deltamark.harness.engines.external.program import Program


@pytest.mark.parametrize(
    ("engine", "claim"),
    [
        (EXAMPLE, "batches, with NULL in its inputs, with further queries"),
        (STREAM, "stream, with NULL in its inputs"),
    ],
)
def test_an_engine_that_is_right_may_claim_its_output(capsys, engine, claim):
    assert main(["conformance", engine]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.endswith(": ok") for line in lines[:-3]), lines
    assert lines[-3].startswith("times of ")
    assert lines[-3].endswith(": plausible")
    assert lines[-1].endswith(f"may claim: {claim}")


NO_DELETION = "self.batch = {n: b for n, b in self.batch.items() if b['diff'].to_numpy().min() > 0}"
FAULTS = {
    "retraction": {"apply": f"{NO_DELETION}; return super().apply(request)"},
    "an answer with NULL": {"difference": "return [each for each in super().difference(request) if None not in each]"},
    "retraction of rows with NULL in a column": {"feed": (
        "reply = super().feed(request)\n"
        "        for name, table in self.batch.items():\n"
        "            rows = zip(*(column.to_pylist() for column in table.columns[1:]))\n"
        "            kept = right['pa'].array([diff > 0 or None not in row for diff, *row in rows])\n"
        "            self.batch[name] = table.filter(kept)\n"
        "        return reply"
    )},
    "timestamps and dates": {"difference": (
        "def day(value): return value.replace(hour=0, minute=0) if hasattr(value, 'hour') else value\n"
        "        return [tuple(map(day, each)) for each in super().difference(request)]"
    )},
    "conditions in the answer": {"difference": (
        "return [tuple(False if value is None else value for value in each) for each in super().difference(request)]"
    )},
    "a second query after 0 of 3 batches": {"difference": (
        "found, is_first = super().difference(request), request is self.queries[self.first]\n"
        "        return found if is_first or self.time > 7 else []"
    )},
    "a second query after 1 of 3 batches": {"attach": (
        "reply = super().attach(request)\n"
        "        self.queries[request['query']].changed.clear()\n"
        "        return reply"
    )},
    "an unknown query is refused": {"open": "return {} if not request['relations'] else super().open(request)"},
    "close ends the program": {"end": "import atexit; atexit.register(os._exit, 3); return super().end(request)"},
}  # fmt: skip


def run_only(monkeypatch, *names):
    """Run some of the cases that have rows, and take no times of larger batches."""
    monkeypatch.setattr("deltamark.harness.cli.measure.engines.times_of", str)
    for cases in ("CASES", "NULL_CASES"):
        monkeypatch.setattr(run, cases, [each for each in getattr(run, cases) if each.name in names])


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_fails_a_case(monkeypatch, capsys, tmp_path, case):
    run_only(monkeypatch, case)
    assert main(["conformance", faulty(tmp_path, **FAULTS[case])]) == 2
    out = capsys.readouterr().out
    assert f"\n{case}: FAILED: " in out, out


def test_an_engine_without_deletions_gets_the_batches_before_them(monkeypatch, capsys, tmp_path):
    run_only(monkeypatch, "retraction", "several times in one batch", "aggregates of NULL")
    hello = "return {**super().hello(request), 'deletions': False}"
    feed = "super().feed(request); assert all(each['diff'].to_numpy().min() > 0 for each in self.batch.values())"
    assert main(["conformance", faulty(tmp_path, hello=hello, feed=f"{feed}; return {{}}")]) == 0
    out = capsys.readouterr().out
    assert "\nretraction, before rows leave: ok\n" in out
    assert "\nseveral times in one batch: refused: q01: it takes no deletions\n" in out
    assert "\naggregates of NULL, before rows leave: ok\n" in out
    assert out.rstrip().endswith("may claim: batches, with NULL in its inputs, without deletions")
    assert "a second query" not in out


def early(changes):
    """Move changes to times at which no row arrives, but which are later than all rows before."""
    return Batch(np.maximum(changes.time - 1, 0), changes.diff, changes.columns)


def twice(changes):
    return Batch(changes.time, 2 * changes.diff, changes.columns)


@pytest.mark.parametrize(
    ("moved", "case", "problem"),
    [
        (early, "several times in one batch", "changes at time 7, at which no row arrives or leaves"),
        (twice, SEVERAL, "wrong at time 0"),
    ],
)
def test_the_times_and_rows_of_changes_within_batches_are_compared(monkeypatch, moved, case, problem):
    run_only(monkeypatch, case)
    stream_in_thread(monkeypatch, "0.01", moved)
    found = next(outcome for outcome in run_all(STREAM) if outcome.name == case)
    assert found.problem.startswith(problem)
    assert not found.right_at_ends or moved is early


def test_a_stream_with_the_times_of_batches_may_only_claim_batches(monkeypatch, capsys, tmp_path):
    run_only(monkeypatch, "several times in one batch", "retraction", "retraction of rows with NULL in a column")
    apply = (
        "reply, made = super().apply(request), self.made[-1]\n"
        "        self.made[-1] = type(made)(0 * made.time + self.last, made.diff, made.columns)\n"
        "        return reply"
    )
    feed = "self.last = request['time']; return super().feed(request)"
    assert main(["conformance", f"{faulty(tmp_path, STREAM_FILE, feed=feed, apply=apply)} 0.01"]) == 2
    assert capsys.readouterr().out.rstrip().endswith("are right, so it may claim: batches")


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize(("fault", "problem"), [("right", ""), ("loses", "wrong at the end")])
def test_a_snapshot_has_the_state_of_its_program(monkeypatch, fault, problem):
    forked(monkeypatch, partial(runpy.run_path(str(SAVING_FILE))["Engine"], fault))
    found = run.run_restored(SAVING, partial(Program, "mine", ["mine"]), run.NOTHING_BETWEEN)
    assert found.problem.partition("\n")[0] == problem
