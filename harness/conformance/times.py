"""The times of an engine over some thousands of rows: by its own clock, by the harness, and by the processors."""

from __future__ import annotations

from decimal import Decimal

from deltamark.datagen.feed import last_time
from deltamark.datagen.schema import TIMES_PER_ROUND
from deltamark.errors import DeltamarkError
from deltamark.harness.conformance.cases import line
from deltamark.harness.conformance.run import OpenQuery, subject_of
from deltamark.harness.console.formatting import brief
from deltamark.harness.engines.external import named
from deltamark.harness.engines.external.program import Program
from deltamark.harness.results.plausibility import Account, doubt
from deltamark.harness.system.clock import LIST_EVERY_S, CpuUse

QUERY, BATCHES, BATCH_ROWS = "q01", 4, 5000
"""Enough rows that the work on a batch takes longer than the messages about it. Not tuned."""


def times_of(name: str) -> str:
    """Feed rows to an engine; describe its times, and whether they are plausible."""
    each = named.resolved(name)
    program = Program(each.short, list(each.command))
    try:
        account = _account(name, program)
    except DeltamarkError as error:
        return f"times: not taken: {error.cause}: {error.actual}"
    finally:
        program.close()
    reported, seen, timed, untimed = (
        brief(seconds).text for seconds in (account.reported, account.seen, account.timed_cpu, account.untimed_cpu)
    )
    doubts = doubt(account)
    return (
        f"times of {BATCHES} batches of {BATCH_ROWS:,} rows: reported {reported}, seen {seen}, CPU time {timed} in the "
        f"clock and {untimed} outside: {f'not plausible: {doubts}' if doubts else 'plausible'}"
    )


def _account(name: str, program: Program) -> Account:
    query = OpenQuery(name, program, subject_of(QUERY))
    reported = seen = untimed = timed_cpu = untimed_cpu = 0.0
    cpu = CpuUse(LIST_EVERY_S)
    for number in range(BATCHES):
        rounds = range(number * BATCH_ROWS, (number + 1) * BATCH_ROWS)
        rows = [line(TIMES_PER_ROUND * each, quantity=Decimal(each % 50 + 1)) for each in rounds]
        query.take(rows, last_time(rounds.stop, 1))
        untimed += program.request_seconds
        untimed_cpu += cpu.passed()
        reply = query.apply()
        timed_cpu += cpu.passed()
        seen += program.request_seconds
        reported += program.request_seconds if reply.seconds is None else reply.seconds
    query.end()
    cpu.list_processes()
    untimed_cpu += cpu.passed()
    return Account(
        workers=1, tuples=BATCHES * BATCH_ROWS, requests=BATCHES, reported=reported, seen=seen, untimed=untimed,
        timed_cpu=timed_cpu, untimed_cpu=untimed_cpu,
    )  # fmt: skip
