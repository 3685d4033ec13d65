"""Work in child processes: results, limits and crashes are reported, and no process is left."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from contextlib import closing

import duckdb
import pytest
from support.harness.processes import all_end

from deltamark.dataflow.sql import front_end
from deltamark.harness.measure import child
from deltamark.harness.measure.child import AbandonedError, ForkedChild, LimitError, run_in_child

pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")


def test_a_large_result_comes_back_whole():
    assert len(run_in_child(lambda _: b"x" * 10_000_000, 10)) == 10_000_000


def test_each_phase_has_the_whole_limit():
    def work(phases):
        for _ in range(3):
            phases.begin()
            time.sleep(0.2)
        return "done"

    assert run_in_child(work, 5) == "done"
    with pytest.raises(LimitError, match=r"over 0.05 s"):
        run_in_child(work, 0.05)


def test_a_limit_says_what_the_child_executes():
    def sleep_long():
        time.sleep(60)

    with pytest.raises(LimitError, match=r"^over 0.5 s in sleep_long, test_child.py:\d+$"):
        run_in_child(lambda _: sleep_long(), 0.5)


def test_a_child_that_waits_for_a_thread_does_not_hinder_its_parent():
    def start_sleeper(_):
        threading.Thread(target=time.sleep, args=[60]).start()
        return os.getpid()

    assert all_end([run_in_child(start_sleeper, 5)])


def test_a_child_that_closes_its_connection_and_goes_on_is_an_error(monkeypatch):
    monkeypatch.setattr(child, "ENDING_TIMEOUT_S", 0.1)

    def close_all(_):
        os.closerange(3, 1 << 10)
        time.sleep(60)

    with pytest.raises(ChildProcessError, match="closed its connection, and goes on without a result"):
        run_in_child(close_all, 5)


def test_a_child_may_close_a_database_of_its_parent():
    with duckdb.connect(config=front_end.without_threads()) as opened:
        opened.execute("CREATE TABLE t AS FROM range(10)")
        assert run_in_child(lambda _: opened.close(), 60) is None


def test_errors_and_crashes_are_reported():
    with pytest.raises(ChildProcessError, match="ZeroDivisionError"):
        run_in_child(lambda _: 1 // 0, 5)
    with pytest.raises(ChildProcessError, match="ended by SIGKILL, perhaps for want of memory"):
        run_in_child(lambda _: os.kill(os.getpid(), signal.SIGKILL), 5)


def test_processes_that_a_child_started_end_with_it():
    pid = run_in_child(lambda _: subprocess.Popen(["sleep", "60"]).pid, 5)
    assert all_end([pid])


def test_a_serving_child_does_one_task_after_another():
    def serve(phases):
        def work(number):
            phases.wait()
            return os.getpid(), b"x" * number, 1 // number

        phases.serve(work)

    with closing(ForkedChild(serve)) as serving:
        served = [serving.serve(number, 5) for number in (1, 1_000_000)]
        assert [len(found) for _, found, _ in served] == [1, 1_000_000]
        assert len({pid for pid, _, _ in served}) == 1
        with pytest.raises(ChildProcessError, match="ZeroDivisionError"):
            serving.serve(0, 5)


def test_each_task_of_a_serving_child_has_the_limit():
    def serve(phases):
        phases.serve(time.sleep)

    with closing(ForkedChild(serve)) as serving, pytest.raises(LimitError):
        serving.serve(60, 0.05)


def test_work_is_abandoned_when_the_watched_file_ends():
    reading, writing = os.pipe()
    os.close(writing)
    with pytest.raises(AbandonedError):
        run_in_child(lambda _: time.sleep(60), 60, reading)


def test_a_waiting_child_goes_on_when_its_result_is_requested(tmp_path):
    def work(phases):
        phases.wait()
        (tmp_path / "on").touch()
        return "done"

    with closing(ForkedChild(work)) as one, closing(ForkedChild(lambda phases: phases.wait())) as other:
        for each in (one, other, one):
            each.reach(5)
        time.sleep(0.1)
        assert not (tmp_path / "on").exists()
        assert (one.result(5), other.result(5)) == ("done", None)


def test_a_child_that_fails_before_it_waits_raises_with_its_result():
    with closing(ForkedChild(lambda _: 1 // 0)) as failing, closing(ForkedChild(lambda _: time.sleep(60))) as slow:
        failing.reach(5)
        slow.reach(0.05)
        with pytest.raises(ChildProcessError, match="ZeroDivisionError"):
            failing.result(5)
        with pytest.raises(LimitError, match=r"over 0.05 s"):
            slow.result(5)
