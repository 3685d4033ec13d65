"""Run a query over a long sliding window and watch its memory.

The memory must follow the number of live rows, not the number of rows so far. One line is printed whenever the window
has moved by its own length: updates so far, rows of state, private memory of this process, and time for an update.

Example: make soak QUERY=q18 SF=1 WORKLOAD=window:100000
"""

from __future__ import annotations

import argparse
import re
import time
from contextlib import closing
from pathlib import Path

from deltamark.datagen.workload import workload
from deltamark.errors import DeltamarkError
from deltamark.harness.cli.data.data import ensure
from deltamark.harness.cli.options import add_cell, cell_of
from deltamark.harness.console.console import say
from deltamark.harness.engines.registry import capabilities, open_engine


def options(parser: argparse.ArgumentParser) -> None:
    add_cell(parser)
    parser.set_defaults(workload="window:10000", logical=1000, physical=1)


def run(args: argparse.Namespace) -> int:
    cell = cell_of(args)
    kind, _, size = cell.workload.partition(":")
    if kind != "window":
        raise DeltamarkError("soak needs a sliding window", cell.workload, "write --workload window:10000")
    if capabilities(cell.engine).reads_input:
        raise DeltamarkError("soak measures no state in other processes", cell.engine, "leave out --engine")
    dataset = ensure(args)
    work = workload(dataset, cell.workload)
    say(f"{cell}\n{'updates':>12} {'state rows':>12} {'private MB':>11} {'ns/update':>10}")
    with closing(open_engine(cell, dataset, work)) as engine:
        updates, end = 0, int(size)
        while not engine.feed.done:
            seconds, before = 0.0, updates
            while not engine.feed.done and engine.feed.round < end:
                if rows := engine.take(cell.physical):
                    started = time.perf_counter()
                    engine.apply()
                    seconds += time.perf_counter() - started
                    updates += rows
            end += int(size)
            nanoseconds = seconds / max(updates - before, 1) * 1e9
            memory = private_megabytes()
            say(f"{updates:>12,} {engine.state_rows():>12,} {memory:>11.1f} {nanoseconds:>10.0f}")
    return 0


def private_megabytes() -> float:
    """Return the memory of this process that is not shared and not backed by a file, in megabytes."""
    text = Path("/proc/self/smaps_rollup").read_text()
    return sum(int(size) for size in re.findall(r"^(?:Private_Dirty|Swap): +(\d+)", text, re.MULTILINE)) / 1e3
