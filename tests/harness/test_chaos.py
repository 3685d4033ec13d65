"""Kills at random moments; `make chaos` does more of them. A failure names its strike."""

from __future__ import annotations

import os
import signal
import time
from decimal import Decimal
from random import Random, SystemRandom

import pytest
from support.harness.local_tasks import tasks_in_process

from deltamark.datagen import scratch
from deltamark.datagen.make import Wanted, make_data
from deltamark.harness.chaos.trial import BenchTrial, attempt, differences, digests
from deltamark.harness.cli.main import main
from deltamark.harness.strikes import running
from deltamark.harness.strikes.running import SIGNALS, TARGETS, Invocation, Strike, run

pytestmark = pytest.mark.waits(2)


def test_the_same_seed_draws_the_same_strikes():
    drawn = [[Strike.drawn(chance) for _ in range(200)] for chance in (Random(7), Random(7))]
    assert drawn[0] == drawn[1]
    assert {strike.signal for strike in drawn[0]} == {*SIGNALS}
    assert {strike.target for strike in drawn[0]} == {*TARGETS}
    shares = [strike.share for strike in drawn[0]]
    assert min(shares) < 0.05
    assert max(shares) > 0.95


STAYS = "setsid sleep 60 & exec sleep 60"


def test_a_remaining_process_is_found_in_any_session(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "SHUTDOWN_TIMEOUT_S", 0.3)
    strike = Strike(0.5, signal.SIGKILL, "parent", 0.0)
    outcome = run(Invocation(["sh", "-c", STAYS], tmp_path, tmp_path / "temporary"), 10.0, strike, 1.0)
    assert outcome.code == -signal.SIGKILL
    assert outcome.target == "SIGKILL to the parent"
    assert len(outcome.remaining) == 1
    assert running.left_over(tmp_path / "temporary") == []


class LawBreaker:
    """A trial whose command breaks several laws."""

    def __init__(self, directory):
        self.temporary = directory / "temporary"
        script = "import sys, time; open(sys.argv[1] + '/stray', 'w'); time.sleep(0.3); sys.exit('no')"
        self.command = Invocation(["python3", "-c", script, str(self.temporary)], directory, self.temporary)

    def prepare(self):
        self.temporary.mkdir(exist_ok=True)

    def violations(self, _struck):
        yield "another result"


def test_broken_laws_are_reported(tmp_path):
    outcome = attempt(LawBreaker(tmp_path), Strike(0.0, signal.SIGKILL, "group", 0.0), 0.3)
    assert outcome.problems == ["the next run ended with 1: no", "temporary stray was left", "another result"]
    assert str(outcome).endswith("no; temporary stray was left; another result")
    assert attempt(LawBreaker(tmp_path), Strike(1.0, signal.SIGKILL, "group", 0.0), 5.0) is None


def test_differences_of_directories_are_named():
    listed = differences({"a": "1", "b": "2", ".making": "3"}, {"a": "1", "b": "1", "c": "1"})
    assert [*listed] == ["c is missing", ".making was left", "b has other bytes"]


@pytest.mark.parametrize(
    "setting",
    ["KINDS=dta", "VICTIMS=drivers", "QUERIES=q77", "WORKLOAD=windov:9", "KINDS=", "BENCHMARK=tpcd", "QUERIES=q1.1"],
)
def test_wrong_settings_are_found_before_data_is_made(setting, tmp_path, capsys):
    assert main(["chaos", f"DATA={tmp_path / 'data'}", setting]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert not (tmp_path / "data").exists()


CELLS = ("QUERIES=q06", "PHYSICAL=1000", "WORKERS=1,2", "ENGINES=embedded", "RUNS=1")


def in_child(work, seconds):
    """Do work in a child of this process, which is killed after some seconds; return whether it was killed."""
    child = os.fork()
    if child == 0:
        try:
            scratch._LOCKS.clear()
            work()
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1] != 0


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_data_is_the_same_after_kills_at_random_moments(tmp_path):
    """Generate and pre-batch without Spark; test_faults.py and `make chaos` do it with Spark."""

    def make(name):
        with tasks_in_process():
            make_data(Wanted(tmp_path / name, Decimal("0.001"), chunk_rows=128), lambda *_: None)

    began = time.monotonic()
    make("undisturbed")
    length, chance, moments = time.monotonic() - began, SystemRandom(), []
    for _ in range(3):
        moments.append(chance.uniform(0, length))
        in_child(lambda: make("killed"), moments[-1])
    make("killed")
    assert [*differences(digests(tmp_path / "killed"), digests(tmp_path / "undisturbed"))] == [], moments


@pytest.fixture(scope="module")
def bench(data, tmp_path_factory):
    """The trial of a few cells, and the seconds of an undisturbed run."""
    trial = BenchTrial(["SF=0.001"], data, tmp_path_factory.mktemp("bench"), CELLS)
    trial.prepare()
    undisturbed = run(trial.command, 120.0)
    assert (undisturbed.code, undisturbed.remaining) == (0, [])
    trial.keep_result()
    return trial, undisturbed.seconds


def test_a_sweep_that_is_struck_at_a_random_moment_goes_on(bench):
    trial, length = bench
    strike = Strike.drawn(SystemRandom())
    outcome = attempt(trial, strike, length)
    assert outcome is None or outcome.problems == [], f"{strike}: {outcome}"


def test_shared_memory_is_left_unless_a_process_has_it_or_the_next_one_removes_it(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "SHARED_MEMORY", tmp_path)
    (tmp_path / f"{scratch.PREFIX}of-another-command").mkdir()
    (left := tmp_path / "left").mkdir()
    with (tmp_path / "open").open("w"):
        assert running.shared_memory() == {str(left)}
