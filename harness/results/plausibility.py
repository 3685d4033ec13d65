"""The rule that says whether the time of an external engine can be the time of its work.

An engine may report a time of its own, and may work while no clock runs. Both make it seem faster than it is, so its
time is compared with the time that the harness has seen and with the CPU time of its processes. All limits leave room
for an engine that is honest, also on a busy machine: a reported time is shorter than the seen one by the pipe, several
threads use more CPU time than passes, input is converted outside the clock, and a process may wait for a core. A time
beyond a limit is wrong by a large factor, or the processes of the engine are not those that the harness sees.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deltamark.harness.console.table import brief, rate
from deltamark.harness.results.record import Record

MAX_RATE = 5e9
"""Tuples per second and worker. The fastest cell of the committed records has 0.3e9; a core reads about 2e9 tuples of
three numbers from its cache.
"""

MAX_TIMED_CPU = 10.0
"""CPU seconds in the clock for a second of a worker. Threads for compilation or garbage collection explain a few."""

MAX_UNTIMED_CPU, MAX_UNTIMED = 100.0, 1000.0
"""CPU seconds outside the clock for a CPU second in it, and for a reported second of a worker. Conversion of input
explains about 25 and 90 in the committed records: Q6 keeps few rows, and all are converted.
"""

MAX_WAIT = 300.0
"""Seconds for which the harness waits while an engine uses one of CPU time. Timers and other programs explain some."""

MAX_SEEN = 2.0
"""Seconds for which the harness waits for replies, for a reported one. A pipe explains little of it."""

MAX_ANSWER, ANSWER_CPU_S, ROW_CPU_S = 10.0, 1.0, 5e-5
"""CPU seconds until an answer is handed over: for a reported second of a batch, to load code, and to write a row. A
program in Python loads pyarrow in 0.15 to 0.35 s, and writes a row of ten columns in 1e-5 s.
"""

REQUEST_CPU_S, REQUEST_WAIT_S = 0.002, 0.1
"""The CPU seconds and the seconds of a request that need no explanation: reading and writing messages, opening files,
and waiting for a core of a busy machine. A program in Python uses 0.05 to 0.3 ms of CPU time.
"""


@dataclass(frozen=True, kw_only=True)
class Account:
    """The seconds of a run by the engine, by the harness and by the processors."""

    workers: int
    tuples: int
    requests: int
    """The number of times that the clock was started."""
    reported: float
    seen: float
    """By the clock of the harness, from a request to its reply."""
    untimed: float
    """The time for which the harness waited outside the clock."""
    timed_cpu: float
    untimed_cpu: float
    """The CPU time of the processes of the engine in the clock, and outside of it; both 0 if it is not known."""
    answer_cpu: float = 0.0
    answer_rows: int = 0
    """The CPU time of these processes from the last batch until the answer was handed over, and its rows."""


def doubt(run: Account) -> str:
    """Return the first reason why the reported time of a run is not plausible; empty if it is."""
    return next(_doubts(run), "")


def _doubts(run: Account) -> Iterator[str]:
    if run.tuples > MAX_RATE * run.workers * run.reported:
        yield f"{rate(run.tuples / run.reported).text} is more than a processor can read"
    waited, used = run.seen + run.untimed, run.timed_cpu + run.untimed_cpu
    if not used:  # a record of older code, or a system that does not tell
        return
    free = run.requests * REQUEST_CPU_S
    if run.timed_cpu > MAX_TIMED_CPU * run.workers * run.reported + free:
        yield f"it used {brief(run.timed_cpu).text} of CPU time in the clock, and reports {brief(run.reported).text}"
    if run.untimed_cpu > min(MAX_UNTIMED_CPU * run.timed_cpu, MAX_UNTIMED * run.workers * run.reported) + free:
        outside, inside, reported = (brief(each).text for each in (run.untimed_cpu, run.timed_cpu, run.reported))
        yield f"it used {outside} of CPU time outside the clock and {inside} in it, and reports {reported}"
    batch = run.reported / max(run.requests, 1)
    if run.answer_cpu > MAX_ANSWER * run.workers * batch + ANSWER_CPU_S + run.answer_rows * ROW_CPU_S:
        yield (
            f"it used {brief(run.answer_cpu).text} of CPU time for the answer after the last batch, and reports "
            f"{brief(batch).text} for a batch"
        )
    if run.seen > MAX_SEEN * run.reported + run.requests * REQUEST_WAIT_S:
        yield f"its replies took {brief(run.seen).text}, and it reports {brief(run.reported).text}"
    if waited > MAX_WAIT * used + run.requests * REQUEST_WAIT_S:
        yield f"it let the harness wait for {brief(waited).text}, and used {brief(used).text} of CPU time"


def doubt_of(record: Record) -> str:
    """Return the reason why the time of the fastest run of a record is not plausible; empty if it is.

    Engines of this project are timed by the harness, in its own process or on a cluster, and need no account.
    """
    if record.external is None or not record.has_numbers:
        return ""

    def fastest(figures: list[float]) -> float:
        return record.of_fastest(figures) or 0.0

    return doubt(
        Account(
            workers=record.workers, tuples=record.tuples, requests=record.requests, reported=record.best,
            seen=fastest(record.outside) or record.best, untimed=fastest(record.untimed),
            timed_cpu=fastest(record.timed_cpu), untimed_cpu=fastest(record.untimed_cpu),
            answer_cpu=fastest(record.answer_cpu), answer_rows=record.answer_rows,
        )
    )  # fmt: skip
