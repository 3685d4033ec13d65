"""The open loop: latencies count from the due times, and the engine takes all rounds that are due."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.harness.open_loop import FakeClock, FakeEngine

from deltamark.harness.suites.rate import due_times, open_loop

NEVER = 1e9


def looped(due, seconds, give_up=NEVER):
    clock = FakeClock()
    engine = FakeEngine(clock, seconds)
    return open_loop(engine, np.array(due, float), clock, give_up), engine, clock


def test_a_fast_engine_takes_each_round_when_it_is_due():
    run, engine, clock = looped([0, 1, 2, 3], lambda *_: 0.25)
    assert engine.taken == [1, 1, 1, 1]
    assert clock.waits == [101, 102, 103]
    assert run.latencies.tolist() == [0.25] * 4
    assert run.finished


def test_latencies_count_from_the_due_times_while_the_engine_stalls():
    run, engine, _ = looped(range(11), lambda number, _: 8.5 if number == 1 else 0.5)
    assert engine.taken == [1, 1, 8, 1]
    assert (run.completed - run.due).tolist() == [0.5, 8.5, 8, 7, 6, 5, 4, 3, 2, 1, 0.5]
    assert run.latencies.tolist() == sorted([0.5, 8.5, 8, 7, 6, 5, 4, 3, 2, 1, 0.5])


def test_rounds_that_are_due_together_are_one_batch():
    run, engine, _ = looped([0, 0, 0, 1, 1, 5], lambda _, rounds: 0.1 * rounds)
    assert engine.taken == [3, 2, 1]
    assert (run.batches, run.rows, run.changes) == (3, 6, 6)


def test_rounds_without_rows_are_not_applied():
    clock = FakeClock()
    engine = FakeEngine(clock, lambda *_: pytest.fail("an empty batch was applied"))
    engine.take = lambda _: 0
    run = open_loop(engine, np.arange(3.0), clock, NEVER)
    assert (run.rows, run.changes, run.finished) == (0, 0, True)


def test_a_loop_that_is_given_up_has_lower_bounds_of_latencies():
    run, engine, _ = looped(range(10), lambda *_: 4.0, give_up=6.0)
    assert engine.taken == [1, 4]
    assert not run.finished
    assert run.completed.tolist() == [4, *[8] * 9]


@given(gaps=st.lists(st.integers(0, 3), min_size=1, max_size=30), fixed=st.integers(0, 5), per_round=st.integers(0, 2))
def test_the_loop_is_the_queue_of_a_server_that_takes_all_that_wait(gaps, fixed, per_round):
    due = np.cumsum(gaps)
    run, _, _ = looped(due, lambda _, rounds: fixed + per_round * rounds)
    time, done, completed = 0, 0, []
    while done < len(due):
        time = max(time, due[done])
        waiting = sum(each <= time for each in due[done:])
        time += fixed + per_round * waiting
        completed += [time] * waiting
        done += waiting
    assert run.completed.tolist() == completed
    assert run.rows == len(due)


def test_recovery_lasts_from_the_largest_burst_until_no_round_waits():
    # the burst of 4 at 10 takes until 14; the 3 rounds that are due meanwhile take until 17, and the next one until 18
    run, _, _ = looped([0, 10, 10, 10, 10, 12, 13, 14, 17, 19, 30], lambda _, rounds: 1.0 * rounds)
    assert run.recovery == 8
    run, _, _ = looped([0, 1, 1, 9], lambda *_: 0.5)
    assert run.recovery == 0.5


def test_a_backlog_that_never_ends_has_the_recovery_of_the_whole_run():
    run, _, _ = looped(due_times("steady", rate=10, seconds=1, most=99), lambda _, rounds: 0.2 * rounds)
    assert run.recovery == pytest.approx(run.completed[-1])


@pytest.mark.parametrize("overload", [0.05, 0.1, 0.2])
def test_an_overload_makes_the_latency_grow(overload):
    due = due_times("steady", rate=10_000, seconds=1, most=10_000)
    run, _, _ = looped(due, lambda _, rounds: (1 + overload) * rounds / 10_000)
    assert 0.5 * overload < run.growth < 0.8 * overload


def test_long_batches_alone_do_not_make_the_latency_grow():
    due = due_times("steady", rate=1000, seconds=1, most=1000)
    run, _, _ = looped(due, lambda *_: 0.05)
    assert abs(run.growth) < 0.025
    assert run.latencies[0] == pytest.approx(0.05)
