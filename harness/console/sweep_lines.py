"""What a sweep says while it runs: a plan line, a line a cell, and on a terminal what is being measured now."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deltamark.harness.measure.grid import Task
from deltamark.harness.measure.stats import percentile
from deltamark.harness.measure.sweep import Plan, estimate
from deltamark.harness.results.record import Record, Result
from deltamark.harness.tables.entry import brief, rate, why


def plan_line(plan: Plan, known: Iterable[Record]) -> str:
    """Say what would run, such as `484 cells = 22 queries x 22 batchings, ...`."""
    cells = [task.cell for task in plan.tasks]
    queries = len({cell.query for cell in cells})
    others = len({(c.workload, c.engine, c.logical, c.physical, c.workers) for c in cells})
    exactly = "=" if queries * others == len(cells) else "of"
    left = plan.left
    done = len(plan.tasks) - len(left)
    return (
        f"{len(cells)} cells {exactly} {queries} queries x {others} batchings, up to {plan.effort.runs} runs each, "
        f"about {span(estimate(left, known))}; {done} already done"
    )


def span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def header(session: Mapping[str, Any]) -> str:
    """Say what is measured, and on what."""
    facts = machine_words(session["machine"])
    after = f" before, {session['load_after']:.1f} after" if "load_after" in session else ""
    return f"{facts}{after}\n{session['versions']}, java {session['java']}; commit {session['commit']}"


def machine_words(facts: Mapping[str, Any]) -> str:
    return (
        f"{facts['cpu']}, {facts['cores']} cores ({facts['usable']} usable), {facts['memory_gb']} GB, "
        f"{facts['caches']}; {facts['system']}, limits {facts['limits']}, "
        f"governor {facts['governor']}, load {facts['load']:.1f}"
    )


def cell_words(record: Record) -> str:
    variant = "" if record.default else f" {record.variant}"
    work = "" if record.workload == "insert" else f" {record.workload}"
    workers = "" if record.workers == 1 else f" -w{record.workers}"
    engine = "" if record.engine == "embedded" else f" {record.engine}"
    return f"{record.query}{variant}{work} {record.logical}x{record.physical}{workers}{engine}"


class Teller:
    """Prints as a sweep goes on."""

    def __init__(self, total: int) -> None:
        self._total, self._done = total, 0
        self._live = sys.stderr.isatty()
        self._rest = ""

    def begin(self, task: Task) -> None:
        if self._live:
            print(
                f"\r\x1b[K{self._done} of {self._total}: {task.cell}{self._rest}", end="", file=sys.stderr, flush=True
            )

    def tell(self, record: Record, left: int, seconds: float) -> None:
        self._done = self._total - left
        self._rest = f", about {span(seconds)} left" if left else ""
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        place = f"{self._done:>{len(str(self._total))}}/{self._total}"
        print(f"{place} {cell_words(record):<34} {_outcome(record)}{self._rest}", flush=True)


def _outcome(record: Record) -> str:
    if record.status != "ok":
        return reason(record)
    times = f"{brief(record.best).text:>8} {rate(record.rate).text:>10}  p99 {brief(record.latency['p99']).text:>8}"
    return f"{times}  {len(record.seconds)} runs, {record.verified or 'not verified'}"


def reason(result: Result) -> str:
    """Say why there is no number."""
    said = why(result).text
    return said if result.status == "timeout" else f"{said}: {result.problem}"


def outcome_line(made: Sequence[Result], left: int) -> str:
    """Say what became of a sweep, and whether the machine was the same all the time."""
    counts = {status: sum(record.status == status for record in made) for status in ("wrong", "failed", "timeout")}
    bad = ", ".join(f"{number} {status}" for status, number in counts.items() if number)
    said = [f"{len(made)} cells measured{': ' + bad if bad else ''}"]
    if left:
        said.append(f"{left} left")
    control = sorted(record.control for record in made if record.control)
    if control:
        low, high = (brief(percentile(control, each)).text for each in (5, 95))
        said.append(f"the control work took {low} to {high}")
    return "; ".join(said)


def bad_lines(made: Sequence[Record]) -> list[str]:
    """Say what was wrong, and what failed."""
    return [f"{cell_words(record)} {_outcome(record)}" for record in made if record.is_bad]
