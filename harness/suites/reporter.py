"""The lines of a benchmark run: its plan, one line per record, the current cell on a terminal, and the outcome."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.live import Live
from rich.text import Text

from deltamark.harness.benchmarks.cell import THROUGHPUT, Cell
from deltamark.harness.console.console import ERR, fold_parts, say, terminal_width
from deltamark.harness.console.table import brief, counted, rate, span
from deltamark.harness.measure.stats import percentile
from deltamark.harness.results.plausibility import doubt_of
from deltamark.harness.results.record import Record
from deltamark.harness.suites.plan import Estimate, Plan
from deltamark.harness.system.machine import Facts, Header
from deltamark.harness.tables.relation import why

MAX_BAD_LINES = 5
"""The wrong and failed cells that are listed at the end of a run; the report lists all."""

QUERY_LABEL_WIDTH, TABLE_LABEL_WIDTH = 34, 48


class Reporter:
    """Prints a line per record. On a terminal the current cell is shown below them.

    The live line has no refresh thread, which would disturb timed runs and forks.
    """

    def __init__(self, total: int) -> None:
        self._total, self._done = total, 0
        self._started = time.monotonic()
        self._live: Live | None = None
        self._left = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._clear()

    def on_begin(self, cell: Record) -> None:
        if ERR.is_terminal:
            text = Text(f"{self._done} of {self._total}: {cell.label}{self._left}", no_wrap=True, overflow="ellipsis")
            self._live = Live(
                text, console=ERR, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
            )  # fmt: skip
            self._live.start(refresh=True)

    def on_records(self, records: Sequence[Record], remaining: int, estimate: Estimate) -> None:
        self._clear()
        self._done = self._total - remaining
        elapsed = span(time.monotonic() - self._started)
        left = [f", {elapsed} so far", f", {left_text(estimate)}"] if remaining else [f", {elapsed} in all"]
        self._left = "".join(left)
        label, *outcome = _parts(records)
        number = f"{self._done:>{len(str(self._total))}}/{self._total} {label}"
        say(fold_parts([number, *outcome, *left], terminal_width()))

    def _clear(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def plan_line(plan: Plan, headline: str) -> str:
    """Describe a plan, such as `484 cells = 22 queries x 22 batchings, up to 3 runs each, about 30 min; 1 done`."""
    done = len(plan.cells) - len(plan.remaining)
    estimate = " and ".join(_estimate_parts(plan.estimate(plan.remaining)))
    return f"{headline}, up to {counted(plan.effort.runs, 'run')} each, {estimate}; {done} already done"


def plan_lines(plan: Plan) -> list[str]:
    """List the remaining cells by groups, with estimates."""
    groups: dict[str, list[Cell]] = defaultdict(list)
    for cell in plan.remaining:
        groups[plan.blank(cell).group].append(cell)
    estimates = {group: " and ".join(_estimate_parts(plan.estimate(cells))) for group, cells in groups.items()}
    return [f"  {len(cells):>3} x {group:<{TABLE_LABEL_WIDTH}} {estimates[group]}" for group, cells in groups.items()]


def left_text(estimate: Estimate) -> str:
    first, *others = _estimate_parts(estimate)
    return ", ".join([f"{first} left", *others] if estimate.estimated else [first, *others])


def _estimate_parts(estimate: Estimate) -> list[str]:
    parts = [f"about {span(estimate.seconds)}"] if estimate.estimated or not estimate.unmeasured else []
    return [*parts, *([f"{estimate.unmeasured} not yet measured"] if estimate.unmeasured else [])]


def session_header(session: Header) -> str:
    """Describe the machine and the versions of a session."""
    after = f" before, {session['load_after']:.1f} after" if "load_after" in session else ""
    machine = machine_line(session["machine"])
    of_program = f", {session['repository']}" if "repository" in session else ""
    return f"{machine}{after}\n{session['versions']}, java {session['java']}; commit {session['commit']}{of_program}"


def machine_line(facts: Facts) -> str:
    return (
        f"{facts['cpu']}, {facts['cores']} cores ({facts['usable']} usable), {facts['memory_gb']} GB, "
        f"{facts['caches']}; {facts['system']}, limits {facts['limits']}, "
        f"governor {facts['governor']}, load {facts['load']:.1f}"
    )


def _parts(records: Sequence[Record]) -> list[str]:
    """Describe the records of a cell: its label, its numbers or the reason why it has none, and its checks."""
    first = records[0]
    width = QUERY_LABEL_WIDTH if first.suite == THROUGHPUT else TABLE_LABEL_WIDTH
    return [f"{first.label:<{width}}", *(_outcome(first, len(records)) if first.status == "ok" else _reason(first))]


def _outcome(record: Record, rows: int) -> list[str]:
    if record.suite != THROUGHPUT:
        checked = f", checked {record.verified}" if record.verified else ""
        return [f" {brief(record.elapsed).text:>8}", f"  {counted(rows, 'row')}{checked}"]
    p99 = brief(record.latency["p99"]).text
    numbers = f" {brief(record.best).text:>8} {rate(record.rate).text:>10}  p99 {p99:>8}"
    checks = f"  {counted(len(record.seconds), 'run')}, {record.verified or 'not verified'}"
    return [numbers, checks, *([f", not plausible: {doubt}"] if (doubt := doubt_of(record)) else [])]


def _reason(record: Record) -> list[str]:
    text = f" {why(record)}"
    return [text] if record.status == "timeout" else [text, f": {record.problem}"]


def outcome_line(cells: Sequence[Sequence[Record]], remaining: int) -> str:
    """Count the outcomes of a run, and give the range of the control work, which shows changes of the machine."""
    records = [first for first, *_ in cells]
    counts = Counter(record.status for record in records)
    bad = ", ".join(
        f"{counts[status]} {status}" for status in ("wrong", "failed", "timeout", "refused") if counts[status]
    )
    parts = [f"{counted(len(records), 'cell')} measured{': ' + bad if bad else ''}"]
    if doubtful := sum(bool(doubt_of(record)) for record in records):
        parts.append(f"{doubtful} with a time that is not plausible")
    if remaining:
        parts.append(f"{remaining} left")
    control = sorted(record.control for record in records if record.control)
    if control:
        low, high = (brief(percentile(control, percent)).text for percent in (5, 95))
        parts.append(f"the control work took {low} to {high}")
    return "; ".join(parts)


def bad_lines(cells: Sequence[Sequence[Record]]) -> list[str]:
    """Describe the wrong and failed cells, the first of many."""
    bad = ["".join(_parts(records)) for records in cells if records[0].is_bad]
    more = [f"and {len(bad) - MAX_BAD_LINES} more"] if len(bad) > MAX_BAD_LINES else []
    return [*bad[:MAX_BAD_LINES], *more]
