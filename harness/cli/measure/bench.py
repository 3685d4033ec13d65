"""The command of the benchmark, and the one that lists its cells."""

from __future__ import annotations

import datetime as dt
import os
import shlex
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from deltamark.harness.benchmarks.cell import THROUGHPUT
from deltamark.harness.cli.commands import command
from deltamark.harness.cli.results.tables import warn_of_foreign
from deltamark.harness.cli.sweep_options import RESULTS, add_bench, suite_of
from deltamark.harness.console.console import INTERRUPTED, say, say_folded, terminal_width, warn
from deltamark.harness.console.progress import ensure_compiled
from deltamark.harness.console.table import span, text
from deltamark.harness.engines.external.program import hello_within
from deltamark.harness.results import store
from deltamark.harness.results.commits import repository_name
from deltamark.harness.results.record import Record
from deltamark.harness.suites.plan import Plan
from deltamark.harness.suites.reporter import Reporter, bad_lines, outcome_line, plan_line, plan_lines, session_header
from deltamark.harness.suites.suite import Runner, Suite
from deltamark.harness.system import machine
from deltamark.harness.system.machine import Facts, Header


@command("plan", add_bench)
def list_cells(args: Namespace) -> int:
    """Print the cells that bench would measure with the same settings.

    It also prints how many of them are done, and an estimate of the time for the rest.
    """
    suite = suite_of(args)
    plan = suite.plan(store.read(args.results / machine.name(machine.facts())).records, repository=args.repo)
    say_folded("\n".join([plan_line(plan, suite.headline(plan)), *plan_lines(plan)]))
    return 0


@command("bench", add_bench)
def bench(args: Namespace) -> int:
    """Run the benchmark: measure a suite, by default TPC-H with all of the post's tables and ours.

    Cells that are done are not measured again. A file results/STOP ends the run after a cell, Ctrl-C at once, and the
    same command resumes it.

    Exit code 2: an answer was wrong, or a cell failed.
    """
    suite = suite_of(args)
    with hello_within(suite.timeout):
        return _run(suite, args)


def _run(suite: Suite, args: Namespace) -> int:
    facts = machine.facts()
    directory = args.results / machine.name(facts)
    with store.writing(directory) as writer:
        suite.cells()  # reject wrong names before any data is made
        suite.make_data()
        header = _header(facts, args)
        plan = suite.plan(store.read(directory).records, header["session"], args.repo)
        say_folded(f"{plan_line(plan, suite.headline(plan))}\n{session_header(header)}")
        for warning in machine.warnings(facts):
            say_folded(f"warning: {warning}")
        measured: list[Sequence[Record]] = []
        interrupted = bool(plan.remaining) and _measure(suite, plan, writer, header, measured)
    _show_summary(suite, plan, directory)
    say_folded(outcome_line(measured, len(plan.remaining) - len(measured)))
    bad = bad_lines(measured)
    for line in bad:
        warn(line)
    of_report = suite.selection if suite.NAME == THROUGHPUT else suite.of_benchmark.strip()
    say(f"records  {directory}")
    say(f"tables   {_command('make tables', suite.selection, args)}")
    say(f"report   {_command('make report', of_report, args)}")
    return 2 if bad else 130 if interrupted else 0


def _measure(suite: Suite, plan: Plan, writer: store.Writer, header: Header, measured: list[Sequence[Record]]) -> bool:
    """Measure the remaining cells; return whether the user interrupted it."""
    started = time.monotonic()
    try:
        ensure_compiled()
        with _session(writer, header), suite.measuring(plan) as measure, Reporter(len(plan.remaining)) as reporter:
            say(f"ready after {span(time.monotonic() - started)}")
            Runner(plan, measure, writer, reporter, measured).run()
    except KeyboardInterrupt:
        warn(INTERRUPTED)
        return True
    return False


@contextmanager
def _session(writer: store.Writer, header: Header) -> Iterator[None]:
    """Store the header of a session before and after it."""
    writer.add_session(header)
    try:
        yield
    finally:
        writer.add_session({**header, "load_after": machine.load()})


def _show_summary(suite: Suite, plan: Plan, directory: Path) -> None:
    """Print what was measured of the datasets of a plan, in this run and before."""
    datasets = {plan.blank(cell).dataset for cell in plan.cells}
    stored = store.read(directory)
    warn_of_foreign(stored, directory)
    shown = [each for each in stored.records if each.dataset in datasets or each.suite in suite.READS]
    for table in suite.summary(shown):
        say(f"\n{text(table, terminal_width())}")


def _command(name: str, selection: str, args: Namespace) -> str:
    """Return a command that shows the records of a run."""
    results = "" if args.results == RESULTS else f"RESULTS={shlex.quote(str(args.results))}"
    return " ".join(filter(None, (name, selection, results)))


def _header(facts: Facts, args: Namespace) -> Header:
    started = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    header: Header = {
        "session": f"{started}-{os.getpid()}", "started": started, "machine": facts, "versions": machine.versions(),
        "java": machine.java(), "commit": machine.commit(),
        "argv": args.argv,
    }  # fmt: skip
    if args.repo is not None:
        header["repository"] = f"{repository_name(args.repo)} {machine.commit(args.repo)}"
    return header
