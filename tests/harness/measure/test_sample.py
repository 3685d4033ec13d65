"""A sample's figures: the shortest time of each batch, and the state of the runs after the first."""

from __future__ import annotations

from collections.abc import Sequence

from deltamark.harness.measure.runs import SampledRun, sample


def nothing() -> None:
    """Take no notice of the beginning of a run."""


def sample_of(runs: Sequence[SampledRun]) -> tuple[str, float, int]:
    waiting = iter(runs)
    reply = sample(lambda: next(waiting), nothing)
    return reply.status, reply.time, reply.state


def test_a_disturbed_batch_counts_with_its_shortest_time() -> None:
    runs = [SampledRun(latencies, (7,), 0) for latencies in ([1.0, 9.0], [5.0, 2.0], [3.0, 3.0])]
    assert sample_of(runs) == ("ok", 3.0, 0)


def test_the_state_leaves_out_the_pages_that_the_first_run_copies() -> None:
    assert sample_of([SampledRun([1.0], (7,), state) for state in (900, 20, 30)]) == ("ok", 1.0, 30)


def test_runs_with_different_output_are_wrong() -> None:
    status, _, _ = sample_of([SampledRun([1.0], (changes,), 0) for changes in (7, 7, 8)])
    assert status == "wrong"


def test_the_rows_of_state_are_those_of_the_last_run() -> None:
    waiting = iter([SampledRun([1.0], (7,), 20, state_rows=rows) for rows in (5, 5, 5)])
    assert sample(lambda: next(waiting), nothing).rows == 5
