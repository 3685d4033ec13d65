"""Measure the benchmark: by default all of the post's tables and ours. Cells that are done are not measured again; a
file results/STOP or Ctrl-C ends it after, or at, a cell, and the same command goes on from there.

Exit code 2: an answer was wrong, or a cell failed.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import shlex
import sys
from typing import Any

from dataflow.kernels import compiled_before
from datagen.dataset import Dataset
from harness import machine, store, telling
from harness.asked import add_sweep as options
from harness.asked import planned
from harness.client import Warm
from harness.commands.data import ensure
from harness.commands.tables import comparable
from harness.record import Record
from harness.sweep import Plan, Sweep
from harness.tables import tables
from harness.tables.render import text

__all__ = ["options", "run"]

CHECKED_BYTES = 4
"""What a check may need for a byte of the data."""


def run(chosen: argparse.Namespace) -> int:
    dataset = ensure(chosen)
    facts = machine.facts()
    directory = chosen.results / machine.name(facts)
    session = _session(facts)
    with store.writing(directory) as writer:
        known = store.read(directory).records
        plan = planned(chosen, known, session["session"])
        print(telling.plan_line(plan, known))
        print(telling.header(session), flush=True)
        for warning in machine.warnings(facts):
            print(f"warning: {warning}", flush=True)
        made: list[Record] = []
        interrupted = False
        if plan.left:
            writer.add_session(session)
            made, interrupted = _sweep(plan, dataset, writer)
            writer.add_session(session | {"load_after": machine.load()})
    for table in tables(comparable(directory, str(chosen.sf)), str(chosen.sf)):
        print(f"\n{text(table)}")
    print(telling.outcome_line(made, len(plan.left) - len(made)) + f"; records: {directory / store.RECORDS}")
    for line in telling.bad_lines(made):
        print(line, file=sys.stderr)
    return 2 if any(record.is_bad for record in made) else 130 if interrupted else 0


def _sweep(plan: Plan, dataset: Dataset, writer: store.Writer) -> tuple[list[Record], bool]:
    """Measure what is left of a plan; return what was made, and whether somebody interrupted it."""
    if not compiled_before():
        print("compiling the kernels, once on this machine: about a minute", file=sys.stderr, flush=True)
    teller = telling.Teller(len(plan.left))
    with Warm(dataset.directory) as measurer:
        sweep = Sweep(plan, dataset, measurer, writer, teller.tell, teller.begin, _abreast(dataset))
        try:
            measurer.warm()
            sweep.run()
        except KeyboardInterrupt:
            print("\ninterrupted: what is finished is kept, the same command goes on from there", file=sys.stderr)
            return sweep.made, True
    return sweep.made, False


def _abreast(dataset: Dataset) -> bool:
    """Are there cores and memory for two checks at once?"""
    facts, size = machine.facts(), sum(chunk.bytes for chunk in dataset.manifest.files)
    return facts["usable"] > 1 and 2 * CHECKED_BYTES * size < 1e9 * facts["memory_gb"]


def _session(facts: dict[str, Any]) -> dict[str, Any]:
    started = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    return {
        "session": f"{started}-{os.getpid()}", "started": started, "machine": facts, "versions": machine.versions(),
        "java": machine.java(), "commit": machine.commit(),
        "argv": shlex.join(["python", "-m", "harness", *sys.argv[1:]]),
    }  # fmt: skip
