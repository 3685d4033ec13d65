"""Random plans are right, and the search for faults finds those that are put in on purpose."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time

import pytest
from support.paths import ROOT
from support.random_plans.choices import Replayed, Seeded
from support.reference import operators
from support.reference.errors import SeveralRowsError, TooLargeError

from deltamark.dataflow.kernels.core.guard import OutOfBoundsError
from deltamark.dataflow.operators.aggregate import Aggregate
from deltamark.dataflow.operators.input import Input
from deltamark.dataflow.operators.null_row import NullRow
from deltamark.dataflow.operators.threshold import Threshold
from deltamark.dataflow.runtime.worker import Worker
from deltamark.dataflow.types import Field, Schema, integer
from fuzz import children, kinds
from fuzz.__main__ import main, settings_of
from fuzz.example import have_null
from fuzz.kinds import FULL, KINDS, Kind, kind_of, run
from fuzz.sql import NotInSqlError, sql_of
from fuzz.tally import TALLY
from fuzz.watch import FuzzSettings, explore

EXAMPLES = 80
"""The examples in a run of all tests: about 25 seconds of CPU time, once the checked kernels are compiled."""

each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.waits(20)
def test_random_plans_are_right_in_checked_kernels(checked_environment):
    seed = random.SystemRandom().getrandbits(40)
    environment = {**checked_environment, "PYTHONHASHSEED": "0", "PYTHONPATH": "tests"}
    words = [sys.executable, "-m", "fuzz", f"SEED={seed}", f"EXAMPLES={EXAMPLES}"]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"from seed {seed} on" in done.stdout


@pytest.mark.waits(20)
def test_a_run_that_is_ended_prints_its_counts(checked_environment):
    environment = {**checked_environment, "PYTHONHASHSEED": "0", "PYTHONPATH": "tests"}
    words = [sys.executable, "-m", "fuzz", "SEED=1", "KINDS=queries", "SECONDS=600", "PROCESSES=1"]
    with subprocess.Popen(
        words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        while not re.search(r"queries ([2-9]\d|\d{3})", process.stdout.readline()):
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGTERM)
        said = process.stdout.read()
    assert process.returncode == 0, said
    assert "failed" not in said
    assert "interrupted\n" in said
    assert "  constructs: " in said


@each_kind
def test_a_seed_is_always_the_same_example(kind):
    for seed in range(5):
        first, second = Seeded(seed), Seeded(seed)
        written = str(KINDS[kind].draw(first))
        assert written == str(KINDS[kind].draw(second)) == str(KINDS[kind].draw(Replayed(first.numbers)))
        assert first.numbers == second.numbers


def test_every_kind_is_drawn():
    names = list(KINDS)
    assert {kind_of(seed, names) for seed in range(500)} == set(KINDS)
    assert [kind_of(seed, names) for seed in range(50)] == [kind_of(seed, names) for seed in range(50)]


NUMBERS = {
    "worker": ["on 1 worker"], "workers": ["on 2 workers", "on 3 workers"], "shards": ["on 2 shards", "on 3 shards"],
    "together": ["on 1 worker", "on 2 workers", "on 3 workers"],
}  # fmt: skip


@pytest.mark.parametrize("kind", NUMBERS)
def test_examples_have_null_retractions_queries_and_each_number_of_workers(kind):
    """A fault that two workers had, with rows of NULL from a query, was not found while `workers` drew no queries."""
    missing = {"with NULL", "with retractions", "from SQL", *NUMBERS[kind]}
    for seed in range(100):
        example = KINDS[kind].draw(Seeded(seed))
        missing -= {*example.traits()}
        missing -= {"with NULL"} if have_null(row for each in example.streams.values() for row, _, _ in each) else set()
        if not missing:
            return
    assert not missing


def explored(kind, seed, examples):
    said = []
    found = explore(FuzzSettings(seed, examples, 600, [kind], 1), said.append)
    return found, "\n".join(said)


def test_an_operator_that_loses_a_row_is_found_and_made_small(monkeypatch):
    whole = Worker.changes

    def lossy(shard, name, rows):
        return whole(shard, name, rows - (rows > 0))

    monkeypatch.setattr(Worker, "changes", lossy)
    monkeypatch.setattr("fuzz.watch.MAX_SHRUNK", 1)
    found, said = explored("worker", 1, 20)
    assert found.failures
    assert {failure.what for failure in found.failures} == {"another change stream"}
    assert "made smaller" in said
    smallest = min(said.split("made smaller")[1:], key=len)
    assert smallest.count("  0: input") == 1
    assert "  3:" not in smallest, f"not three nodes at most: {said}"
    assert len(re.findall(r"\(\(.*?\), \d+, -?\d+\)", smallest.split("streams")[1].split("feeds")[0])) <= 6


def test_a_wrong_reference_is_found(monkeypatch):
    monkeypatch.setattr("fuzz.watch.MAX_SHRUNK", 1)
    monkeypatch.setattr("fuzz.shrink.MOST_SECONDS", 1.0)  # the first attempt has the failure
    monkeypatch.setitem(operators.OPERATORS, Threshold, lambda _, __, rows: rows)
    found, said = explored("worker", 1, 20)
    assert found.failures
    assert "threshold" in said.split("made smaller")[1]


class Deadly:
    """An example that calls a function if its number is large enough."""

    def __init__(self, choices, does):
        self.number, self.does = choices.place(100), does
        self.others = [choices.place(100) for _ in range(5)]

    def run(self):
        if self.number >= 50:
            self.does()

    def traits(self):
        return []

    def __str__(self):
        return f"number {self.number}, others {self.others}"


def deadly(monkeypatch, does, *, late_fails=True):
    monkeypatch.setitem(kinds.KINDS, "worker", Kind(lambda choices: Deadly(choices, does), 1, late_fails))
    return [seed for seed in range(8) if Deadly(Seeded(seed), does).number >= 50]


def full():
    raise OutOfBoundsError(f"SEND: 8 bytes {FULL}")


def too_large():
    raise TooLargeError("copies")


@pytest.mark.parametrize("does", [full, too_large])
def test_an_example_that_is_too_large_for_checked_kernels_or_the_reference_is_unfit(monkeypatch, does):
    seeds = deadly(monkeypatch, does)
    TALLY.clear()
    assert [kinds.run("worker", seed, Seeded(seed)) for seed in seeds] == [None] * len(seeds)
    assert TALLY.total() == len(seeds) > 0
    TALLY.clear()


def test_a_plan_that_fails_beside_others_is_unfit(monkeypatch):
    def several_rows():
        raise SeveralRowsError((1,))

    monkeypatch.setitem(kinds.KINDS, "together", Kind(lambda choices: Deadly(choices, several_rows), 1))
    TALLY.clear()
    found = [kinds.run("together", seed, Seeded(seed)) for seed in range(20)]
    assert found == [None] * 20
    assert TALLY["unfit: a plan that fails, beside others"] > 0
    TALLY.clear()


def test_a_child_that_is_killed_is_reported_and_the_others_go_on(monkeypatch):
    monkeypatch.setattr("fuzz.watch.MAX_SHRUNK", 1)
    seeds = deadly(monkeypatch, lambda: os.kill(os.getpid(), signal.SIGKILL))
    assert seeds
    found, said = explored("worker", 0, 8)
    assert sorted(failure.seed for failure in found.failures) == seeds
    assert {failure.what for failure in found.failures} == {"killed by SIGKILL"}
    assert sum(found.counts.values()) == 8
    assert f"make fuzz KINDS=worker SEED={seeds[0]} EXAMPLES=1" in said
    assert "number 50, others [0, 0, 0, 0, 0]" in said


def test_a_child_that_hangs_is_reported(monkeypatch):
    monkeypatch.setattr(children, "LONGEST_SECONDS", 0.5)
    monkeypatch.setattr("fuzz.watch.MAX_SHRUNK", 0)
    seeds = deadly(monkeypatch, lambda: time.sleep(1000))
    found, _ = explored("worker", 0, 8)
    assert sorted(failure.seed for failure in found.failures) == seeds
    assert {failure.what for failure in found.failures} == {"not done after 0.5 seconds"}


def test_a_child_that_works_too_long_is_reported(monkeypatch):
    monkeypatch.setattr(children, "LONGEST_WORK", 0.5)
    monkeypatch.setattr("fuzz.watch.MAX_SHRUNK", 0)

    def work():
        while True:
            pass

    seeds = deadly(monkeypatch, work)
    found, _ = explored("worker", 0, 8)
    assert sorted(failure.seed for failure in found.failures) == seeds
    assert {failure.what for failure in found.failures} == {"not done after 0.5 seconds of CPU time"}


def test_a_late_example_of_a_kind_that_may_be_late_is_counted(monkeypatch):
    monkeypatch.setattr(children, "LONGEST_SECONDS", 0.5)
    seeds = deadly(monkeypatch, lambda: time.sleep(1000), late_fails=False)
    found, said = explored("worker", 0, 8)
    assert (found.failures, sum(found.counts.values())) == ([], 8)
    assert f"unfit: not done after 0.5 seconds {len(seeds)}" in said


def test_a_child_that_takes_too_much_memory_is_reported(monkeypatch):
    monkeypatch.setattr(children, "MOST_BYTES", children.resident(os.getpid()) // 2 + (128 << 20))  # it shares half
    monkeypatch.setattr("fuzz.watch.MAX_SHRUNK", 0)
    kept = []

    def grow():
        while True:
            kept.append(b"x" * (8 << 20))
            time.sleep(0.01)

    seeds = deadly(monkeypatch, grow)
    found, _ = explored("worker", 0, 8)
    assert sorted(failure.seed for failure in found.failures) == seeds
    assert all("of memory" in failure.what for failure in found.failures)


def test_pages_that_processes_share_count_once():
    kept = bytearray(b"x" * (128 << 20))
    before, forked = children.resident(os.getpid()), []
    try:
        for _ in range(3):
            if (pid := os.fork()) == 0:
                signal.pause()
            forked.append(pid)
        assert children.resident(os.getpid()) - before < len(kept)
    finally:
        for pid in forked:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def test_rows_without_columns_are_not_written_as_sql():
    rows = Input("rows", schema=Schema((Field("x", integer(0, 9)),), 9))
    counted = Aggregate(rows, (), (), schema=Schema((), 1))
    with pytest.raises(NotInSqlError):
        sql_of(NullRow(counted, schema=counted.schema))


def test_an_error_of_any_kind_is_a_failure(monkeypatch):
    def fail():
        raise ZeroDivisionError("7")

    seeds = deadly(monkeypatch, fail)
    failure = run("worker", seeds[0], Seeded(seeds[0]))
    assert failure.what == "ZeroDivisionError"
    assert failure.details.endswith("ZeroDivisionError: 7\n")


def test_settings_are_parsed_from_words():
    found = settings_of(["SECONDS=5", "SEED=7", "KINDS=worker,loops", "EXAMPLES=9"])
    assert found == FuzzSettings(7, 9, 5, ["worker", "loops"], 2)
    assert settings_of([]).seconds == 60


@pytest.mark.parametrize("word", ["KINDS=wroker", "SECONDS=soon", "SCONDS=5"])
def test_an_invalid_setting_is_an_error(word, capsys):
    assert main([word]) == 2
    assert "error: " in capsys.readouterr().err
