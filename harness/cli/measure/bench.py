"""Run the benchmark.

By default it measures all of the post's tables and ours, with SUITE another suite. Cells that are done are not
measured again; a file results/STOP or Ctrl-C ends it after, or at, a cell, and the same command goes on from there.

Exit code 2: an answer was wrong, or a cell failed.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltamark.dataflow.kernels import compiled_before
from deltamark.datagen.dataset import Dataset
from deltamark.harness import suites
from deltamark.harness.cli.data.data import ensure
from deltamark.harness.cli.results.tables import comparable
from deltamark.harness.cli.sweep_options import add_bench as options
from deltamark.harness.cli.sweep_options import planned, tasks
from deltamark.harness.console import suite_lines as suite_telling
from deltamark.harness.console import sweep_lines
from deltamark.harness.measure.client import MeasurementClient, ServerSpec
from deltamark.harness.measure.sweep import Sweep
from deltamark.harness.results import machine, store
from deltamark.harness.results.finding import Finding
from deltamark.harness.results.record import Record
from deltamark.harness.suites.graphs.counting import warm
from deltamark.harness.suites.run import Run
from deltamark.harness.tables import suite_tables, tables
from deltamark.harness.tables.entry import Table
from deltamark.harness.tables.render import text

__all__ = ["options", "run"]

CHECKED_BYTES = 4
"""What a check may need for a byte of the data."""


@dataclass(frozen=True)
class Session:
    """What one command measures on, and where that goes."""

    facts: dict[str, Any]
    header: dict[str, Any]
    directory: Path
    writer: store.Writer

    def begin(self, plan: str) -> None:
        """Say what will be measured."""
        print(plan)
        print(sweep_lines.header(self.header), flush=True)
        for warning in machine.warnings(self.facts):
            print(f"warning: {warning}", flush=True)

    def measure(self, work: Callable[[], None]) -> bool:
        """Do what measures; return whether somebody interrupted it."""
        if not compiled_before():
            print("compiling the kernels, once on this machine: about a minute", file=sys.stderr, flush=True)
        self.writer.add_session(self.header)
        try:
            work()
        except KeyboardInterrupt:
            print("\ninterrupted: what is finished is kept, the same command goes on from there", file=sys.stderr)
            return True
        finally:
            self.writer.add_session(self.header | {"load_after": machine.load()})
        return False


def run(chosen: argparse.Namespace) -> int:
    suites.check_settings(chosen, chosen.usual)
    facts = machine.facts()
    directory = chosen.results / machine.name(facts)
    measure = _tpch if chosen.suite == suites.TPCH else _suite
    with store.writing(directory) as writer:
        return measure(chosen, Session(facts, _header(facts), directory, writer))


def _tpch(chosen: argparse.Namespace, session: Session) -> int:
    tasks(chosen)  # a wrong name is an error before the data is made
    dataset = ensure(chosen)
    known = store.read(session.directory).records
    plan = planned(chosen, known, session.header["session"])
    session.begin(sweep_lines.plan_line(plan, known))
    made: list[Record] = []

    def work() -> None:
        teller = sweep_lines.Teller(len(plan.left))
        with MeasurementClient(ServerSpec(dataset.directory)) as measurer:
            sweep = Sweep(
                plan, dataset, measurer, session.writer, teller.tell, teller.begin, _abreast(dataset), made=made
            )  # fmt: skip
            measurer.warm()
            sweep.run()

    interrupted = bool(plan.left) and session.measure(work)
    _show(tables(comparable(session.directory, str(chosen.sf)), str(chosen.sf)))
    print(
        sweep_lines.outcome_line(made, len(plan.left) - len(made)) + f"; records: {session.directory / store.RECORDS}"
    )
    return _code(sweep_lines.bad_lines(made), interrupted=interrupted)


def _suite(chosen: argparse.Namespace, session: Session) -> int:
    suites.SUITES[chosen.suite].make(chosen)
    plan = suites.planned(chosen, store.findings(session.directory), session.header["session"])
    session.begin(suite_telling.plan_line(plan))
    made: list[Finding] = []
    left = plan.left

    def work() -> None:
        warm()
        Run(plan, session.writer, suite_telling.Teller(len(left)).tell, made).run()

    interrupted = bool(left) and session.measure(work)
    asked = {task.of for task in plan.tasks}
    _show(suite_tables([each for each in store.findings(session.directory) if each.of in asked], plan.suite))
    cells = list({each.cell: each for each in made}.values())
    outcome = sweep_lines.outcome_line(cells, len(left) - len(cells))
    print(f"{outcome}; findings: {session.directory / store.FINDINGS}")
    return _code(suite_telling.bad_lines(made), interrupted=interrupted)


def _show(made: Iterable[Table]) -> None:
    for table in made:
        print(f"\n{text(table)}")


def _code(bad: Sequence[str], *, interrupted: bool) -> int:
    """Say what was wrong; return the exit code."""
    for line in bad:
        print(line, file=sys.stderr)
    return 2 if bad else 130 if interrupted else 0


def _abreast(dataset: Dataset) -> bool:
    """Are there cores and memory for two checks at once?"""
    facts, size = machine.facts(), sum(chunk.bytes for chunk in dataset.manifest.files)
    return facts["usable"] > 1 and 2 * CHECKED_BYTES * size < 1e9 * facts["memory_gb"]


def _header(facts: dict[str, Any]) -> dict[str, Any]:
    started = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    return {
        "session": f"{started}-{os.getpid()}", "started": started, "machine": facts, "versions": machine.versions(),
        "java": machine.java(), "commit": machine.commit(),
        "argv": shlex.join(["python", "-m", "harness", *sys.argv[1:]]),
    }  # fmt: skip
