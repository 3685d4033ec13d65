"""Kills at random moments: `make chaos` does more of them. A failure names the strike that it came of."""

from __future__ import annotations

import os
import signal
import time
from decimal import Decimal
from random import Random, SystemRandom

import pytest
from support.in_turn import tasks_in_turn

from deltamark.datagen import scratch
from deltamark.datagen.make import Wanted, make_data
from deltamark.harness.chaos import processes
from deltamark.harness.chaos.bench import BenchTrial
from deltamark.harness.chaos.data import differences, digests
from deltamark.harness.chaos.running import Command, run
from deltamark.harness.chaos.strike import AIMS, SIGNALS, Strike
from deltamark.harness.chaos.trial import attempt
from deltamark.harness.cli.main import main

pytestmark = pytest.mark.waits(15)


def test_the_same_seed_draws_the_same_strikes():
    drawn = [[Strike.drawn(chance) for _ in range(200)] for chance in (Random(7), Random(7))]
    assert drawn[0] == drawn[1]
    assert {each.signal for each in drawn[0]} == {*SIGNALS}
    assert {each.aim for each in drawn[0]} == {*AIMS}
    shares = [each.share for each in drawn[0]]
    assert min(shares) < 0.05
    assert max(shares) > 0.95


STAYS = "import os, time; os.fork() or os.setsid(); time.sleep(60)"


def test_a_process_that_is_left_is_found_wherever_it_went(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "PATIENCE", 0.3)
    strike = Strike(0.5, signal.SIGKILL, "parent", 0.0)
    ran = run(Command(["python3", "-c", STAYS], tmp_path, tmp_path / "temporary"), 10.0, strike, 1.0)
    assert ran.code == -signal.SIGKILL
    assert ran.hit == "SIGKILL to the parent"
    assert len(ran.left) == 1
    assert processes.left_over(tmp_path / "temporary") == []


class Stale:
    """A trial whose command leaves all that it can."""

    def __init__(self, directory):
        self.temporary = directory / "temporary"
        script = "import sys, time; open(sys.argv[1] + '/stray', 'w'); time.sleep(0.3); sys.exit('no')"
        self.command = Command(["python3", "-c", script, str(self.temporary)], directory, self.temporary)

    def begin(self):
        self.temporary.mkdir(exist_ok=True)

    def wrong(self, _struck, _again):
        yield "another result"


def test_what_breaks_a_law_is_said(tmp_path):
    tale = attempt(Stale(tmp_path), Strike(0.0, signal.SIGKILL, "group", 0.0), 0.3)
    assert tale.problems == ["the next run ended with 1: no", "temporary stray was left", "another result"]
    assert str(tale).endswith("no; temporary stray was left; another result")
    assert attempt(Stale(tmp_path), Strike(1.0, signal.SIGKILL, "group", 0.0), 5.0) is None


def test_differences_of_directories_are_named():
    found = differences({"a": "1", "b": "2", ".making": "3"}, {"a": "1", "b": "1", "c": "1"})
    assert [*found] == ["c is missing", ".making was left", "b has other bytes"]


@pytest.mark.parametrize("setting", ["KINDS=dta", "VICTIMS=drivers", "QUERIES=q77", "WORKLOAD=windov:9", "KINDS="])
def test_wrong_settings_are_found_before_data_is_made(setting, tmp_path, capsys):
    assert main(["chaos", f"DATA={tmp_path / 'data'}", setting]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert not (tmp_path / "data").exists()


CELLS = ("QUERIES=q06", "PHYSICAL=1000", "WORKERS=1,2", "ENGINES=embedded", "RUNS=1")


def in_child(work, lives):
    """Do work in a child of this process, which is killed after so many seconds; return whether it was."""
    child = os.fork()
    if child == 0:
        try:
            scratch._LOCKS.clear()
            work()
        finally:
            os._exit(0)
    time.sleep(lives)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1] != 0


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_data_that_is_killed_at_random_moments_is_made_as_if_it_were_not(tmp_path):
    """Generating and pre-batching without Spark, which test_faults.py has, and `make chaos`."""

    def made(where):
        with tasks_in_turn():
            make_data(Wanted(tmp_path / where, Decimal("0.001"), chunk_rows=128), lambda *_: None)

    began = time.monotonic()
    made("unharmed")
    length, chance, moments = time.monotonic() - began, SystemRandom(), []
    for _ in range(3):
        moments.append(chance.uniform(0, length))
        in_child(lambda: made("killed"), moments[-1])
    made("killed")
    assert [*differences(digests(tmp_path / "killed"), digests(tmp_path / "unharmed"))] == [], moments


@pytest.fixture(scope="module")
def bench(data, tmp_path_factory):
    """The trial of a few cells, and the seconds of an unharmed run."""
    trial = BenchTrial("0.001", data, tmp_path_factory.mktemp("bench"), CELLS)
    trial.begin()
    ran = run(trial.command, 120.0)
    assert (ran.code, ran.left) == (0, [])
    trial.learn()
    return trial, ran.seconds


@pytest.mark.parametrize("aim", ["group", "child"])
def test_a_sweep_that_is_struck_at_a_random_moment_goes_on(bench, aim):
    trial, length = bench
    strike = Strike(SystemRandom().random(), SystemRandom().choice(SIGNALS), aim, SystemRandom().random())
    tale = attempt(trial, strike, length)
    assert tale is None or tale.problems == [], f"{strike}: {tale}"
