"""Run a query over a long sliding window, and watch memory and latency.

Both must follow the number of live rows, not the number of rows so far. About 32 lines are printed, each with the
updates so far, the rows of state, the memory, the time for an update, and the latency of the batches since the line
before. Then a table compares the first lines with a full window to the last lines, and says which figures were flat.

UPDATES repeats the orders: the first one arrives again after the last one, while earlier orders leave the window.
Ctrl-C ends the run, and prints the table of what is done.

Example: make soak QUERY=q18 SF=1 WORKLOAD=window:100000 LOGICAL=100 UPDATES=100M
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workloads.arrivals import Window
from deltamark.datagen.workloads.registry import workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.cli.data.data import ensure
from deltamark.harness.cli.options import add_cell, cell_of, size
from deltamark.harness.console.console import say
from deltamark.harness.console.table import Table, brief, count, megabytes, ratio, text, words
from deltamark.harness.engines.base import Engine, batches_at_a_time
from deltamark.harness.engines.registry import capabilities, open_engine
from deltamark.harness.measure.stats import median, percentile
from deltamark.harness.system import resources
from deltamark.harness.system.clock import timed

LINES = 32
"""The number of lines of a whole run, about."""

FLAT_RATIOS = {"memory MB": 1.1, "p99": 1.25}
"""The largest ratios of the last quarter to the first that are called flat. Not tuned: on a shared machine, the 99th
percentiles of two quarters of the same run differed by 10%.
"""

FIGURES = {"state rows": count, "memory MB": megabytes, "ns/update": count, "p50": brief, "p99": brief, "max": brief}
"""The figures of a line, and their formats."""


@dataclass(frozen=True)
class SoakLine:
    """The figures of a part of a run, and whether the window was full when it began."""

    updates: int
    full: bool
    figures: dict[str, float]

    def __str__(self) -> str:
        entries = (form(self.figures[name]).text for name, form in FIGURES.items())
        return " ".join([f"{self.updates:>13,}", *(f"{each:>11}" for each in entries)])


def options(parser: argparse.ArgumentParser) -> None:
    add_cell(parser)
    text = "number of updates, such as 100M: insertions and deletions (default: those of the orders once)"
    parser.add_argument("--updates", type=size, metavar="N", help=text)
    parser.set_defaults(workload="window:10000", logical=1000, physical=1)


def run(args: argparse.Namespace) -> int:
    cell = cell_of(args)
    kind, _, window = cell.workload.partition(":")
    if kind != "window":
        raise DeltamarkError("soak needs a sliding window", cell.workload, "write --workload window:10000")
    if capabilities(cell.engine).reads_input:
        raise DeltamarkError("soak feeds no engine that reads the input itself", cell.engine, "leave out --engine")
    moving = _moving(cell)
    if not {*moving} & {*cell.reads}:
        remedy = f"name a query over {' or '.join(moving) or 'relations with the role events'}"
        raise DeltamarkError("no input of the query moves in a window", cell.query, remedy)
    dataset = ensure(args)
    workload(dataset, cell.workload)  # one that does not apply to the data is an error
    say(f"{cell}\n{'updates':>13} " + " ".join(f"{name:>11}" for name in FIGURES))
    lines: list[SoakLine] = []
    interrupted = False
    try:
        for line in soak(cell, dataset, int(window), args.updates):
            say(line)
            lines.append(line)
    except KeyboardInterrupt:
        interrupted = True
    say(f"\n{summary(lines)}")
    return 130 if interrupted else 0


def _moving(cell: Cell) -> tuple[str, ...]:
    """Return the relations whose rows enter and leave a window."""
    events = cell.home.relations.events
    return (events.name, *cell.home.relations.members(events.name)) if events else ()


def soak(cell: Cell, dataset: Dataset, window: int, updates: int | None) -> Iterator[SoakLine]:
    """Run a query over a window until it has received some updates; yield the figures of each part of the run."""
    work = Window(dataset, window)
    events, moving = work.rounds - 1, {*_moving(cell)} & {*cell.reads}
    in_cycle = 2 * sum(dataset.rows(name) for name in moving)
    cycles = 1 if updates is None else -(-updates // in_cycle) + 1  # retractions begin a window later
    rounds = events if updates is None else -(-updates * events // in_cycle)
    of_batch = cell.logical * cell.physical
    step = max(-(-rounds // (LINES * of_batch)), 1) * of_batch
    done = 0
    work = Window(dataset, window, cycles)
    with closing(open_engine(cell, dataset, work)) as engine:
        while not engine.feed.done and (updates is None or done < updates):
            full = engine.feed.round > window
            rows, seconds = _advance(engine, cell, engine.feed.round + step)
            done += rows
            if rows:
                yield SoakLine(done, full, _figures(engine, rows, seconds))


def _advance(engine: Engine, cell: Cell, stop: int) -> tuple[int, list[float]]:
    """Apply all batches before a round; return the number of their rows, and the seconds of each."""
    rows, seconds, rounds = 0, list[float](), cell.logical * cell.physical
    while not engine.feed.done and engine.feed.round < stop:
        if engine.takes_several:
            left = -(-(stop - engine.feed.round) // rounds)
            if taken := engine.take_several(cell.physical, min(batches_at_a_time(rounds), left)):
                rows += sum(taken)
                seconds += [each for _, each in engine.apply_several()]
        elif number := engine.take(cell.physical):
            rows += number
            elapsed, _ = timed(engine.apply)
            seconds.append(elapsed if engine.own_seconds is None else engine.own_seconds)
    return rows, seconds


def _figures(engine: Engine, rows: int, seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "state rows": engine.state_rows(), "memory MB": resources.memory() + resources.swapped(),
        "ns/update": sum(seconds) / rows * 1e9,
        "p50": percentile(ordered, 50), "p99": percentile(ordered, 99), "max": ordered[-1],
    }  # fmt: skip


def summary(lines: list[SoakLine]) -> str:
    """Compare the medians of the last quarter of the lines with a full window with those of the first quarter."""
    full = [line.figures for line in lines if line.full]
    quarter = len(full) // 4
    done = f"{lines[-1].updates if lines else 0:,} updates"
    if not quarter:
        return f"{done}: too few lines with a full window to compare ({len(full)}, not 4)\n"
    rows, verdicts = [], []
    for name, form in FIGURES.items():
        first, last = (median([each[name] for each in part]) for part in (full[:quarter], full[-quarter:]))
        growth = last / first if first else 1.0
        rows.append([words(name), form(first), form(last), ratio(growth)])
        if name in FLAT_RATIOS:
            verdicts.append(f"{name.removesuffix(' MB')} {'flat' if growth <= FLAT_RATIOS[name] else 'NOT FLAT'}")
    limits = ", ".join(f"{limit}x for {name.removesuffix(' MB')}" for name, limit in FLAT_RATIOS.items())
    notes = [f"medians of the lines with a full window, of which there are {len(full)}; flat: at most {limits}"]
    header = ["", "first quarter", "last quarter", "last / first"]
    return text(Table("soak", f"{done}: {', '.join(verdicts)}", header, rows, notes, has_units_by_row=True))
