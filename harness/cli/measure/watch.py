"""Commands that run one query and show its figures on the way: `soak` in a window, `spark-batches` on Spark."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict, cast

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workloads.arrivals import Window
from deltamark.datagen.workloads.registry import workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.cli.commands import command
from deltamark.harness.cli.data.data import ensure, quietly
from deltamark.harness.cli.options import MAX_BATCHES, add_cell, cell_of, size, whole
from deltamark.harness.cli.parser import Parser
from deltamark.harness.console.console import say
from deltamark.harness.console.table import (
    Bar,
    Entries,
    Table,
    brief,
    count,
    flame,
    megabytes,
    ratio,
    text,
    words,
)
from deltamark.harness.engines.base import Engine, batches_at_a_time
from deltamark.harness.engines.registry import capabilities, open_engine
from deltamark.harness.engines.spark import SparkEngine
from deltamark.harness.engines.spark_sql import SparkSqlEngine
from deltamark.harness.measure import child
from deltamark.harness.measure.stats import median, percentile
from deltamark.harness.system import resources
from deltamark.harness.system.clock import timed

if TYPE_CHECKING:
    from deltamark.dataflow.spark.checkpoint import ShardState

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


def _add_updates(parser: Parser) -> None:
    text = "number of updates, such as 100M: insertions and deletions (default: those of the orders once)"
    parser.add_argument("--updates", type=size, metavar="N", help=text)
    parser.set_defaults(workload="window:10000", logical=1000, physical=1)


@command("soak", add_cell, _add_updates)
def watch_window(args: Namespace) -> int:
    """Run a query over a long sliding window, and watch memory and latency.

    Both must follow the number of live rows, not the number of rows so far. About 32 lines are printed, each with the
    updates so far, the rows of state, the memory, the time for an update, and the latency of the batches since the line
    before. Then a table compares the first lines with a full window to the last lines, and says which figures were
    flat.

    UPDATES repeats the orders: the first one arrives again after the last one, while earlier orders leave the window.
    Ctrl-C ends the run, and prints the table of what is done.

    Example: make soak QUERY=q18 SF=1 WORKLOAD=window:100000 LOGICAL=100 UPDATES=100M
    """
    cell = cell_of(args)
    kind, _, window = cell.workload.partition(":")
    if kind != "window":
        raise DeltamarkError("soak needs a sliding window", cell.workload, "write --workload window:10000")
    if capabilities(cell.engine).reads_input:
        raise DeltamarkError("soak feeds no engine that reads the input itself", cell.engine, "leave out --engine")
    moving = tuple(cell.home.relations.moving)
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


def soak(cell: Cell, dataset: Dataset, window: int, updates: int | None) -> Iterator[SoakLine]:
    """Run a query over a window until it has received some updates; yield the figures of each part of the run."""
    work = Window(dataset, window)
    events, moving = work.rounds - 1, cell.home.relations.moving.keys() & {*cell.reads}
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


TIMEOUT_S = 86_400.0
"""The time limit for all batches: a day; not measured."""

Timings = list[tuple[int, float]]
"""The rows loaded so far and the seconds of each batch."""


class BatchReport(TypedDict):
    """The parts of Spark's report of a micro-batch that are shown."""

    durationMs: dict[str, float]
    stateOperators: list[dict[str, float]]


def _add_batches(parser: Parser) -> None:
    parser.set_defaults(physical=1_000_000, workers=2, engine=SparkEngine.name)
    parser.add_argument("--batches", type=whole(2, MAX_BATCHES), default=4, metavar="N", help="number of batches")


@command("spark-batches", add_cell, _add_batches)
def compare_on_spark(args: Namespace) -> int:
    """Compare maintaining and recomputing a query on Spark, batch by batch.

    The output shows the time of each batch while rows are loaded, the first batch in which maintaining is faster, the
    parts of a micro-batch's time as a table and, for one of median length, as bars, and the state that each shard has
    stored after the last batch.

    Example: make spark-batches QUERY=q03 SF=1
    """
    cell = cell_of(args)
    if cell.engine != SparkEngine.name or cell.checkpoint:
        actual = f"--engine {cell.engine}{' --checkpoint' if cell.checkpoint else ''}"
        raise DeltamarkError("spark-batches runs on Spark and keeps no checkpoint", actual, "leave that setting out")
    dataset = quietly(args)
    state, reports, bars, maintained = child.run_in_child(lambda _: _maintain(cell, dataset, args.batches), TIMEOUT_S)
    recomputed = child.run_in_child(lambda _: _recompute(cell, dataset, args.batches), TIMEOUT_S)
    say(text(_batches(f"{cell}: {state[-1].stage} stages", maintained, recomputed)))
    say(text(Table("parts", "Parts of a micro-batch's time", ["part", "median"], _parts(reports[1:]))))
    say(flame(bars))
    say("")
    say(text(_state(state)))
    return 0


def _batches(title: str, maintained: Timings, recomputed: Timings) -> Table:
    rows, gains = [], []
    for number, ((loaded, ours), (_, theirs)) in enumerate(zip(maintained, recomputed, strict=True), 1):
        gains.append(theirs / ours)
        rows.append([count(number), count(loaded), brief(ours), brief(theirs), ratio(gains[-1])])
    first = next((number for number, gain in enumerate(gains, 1) if gain >= 1), None)
    note = f"maintaining is faster for the first time in batch {first}" if first else "recomputing is always faster"
    return Table("batches", title, ["batch", "rows loaded", "maintained", "recomputed", "gain"], rows, [note])


def _state(state: list[ShardState]) -> Table:
    """Show the stored state of each shard, and for each stage how uneven it is."""
    by_stage = {each.stage: [other for other in state if other.stage == each.stage] for each in state}
    rows: list[Entries] = []
    for stage, shards in by_stage.items():
        mean = sum(each.rows for each in shards) / len(shards)
        rows += [
            [count(stage), count(each.shard), count(each.rows), megabytes(each.size), ratio(each.rows / (mean or 1))]
            for each in shards
        ]
    note = "skew: the rows of a shard / the mean of all shards of its stage"
    return Table("state", "Stored state of the shards", ["stage", "shard", "rows", "MB", "skew"], rows, [note])


def _maintain(
    cell: Cell, dataset: Dataset, batches: int
) -> tuple[list[ShardState], list[BatchReport], list[Bar], Timings]:
    """Return the state of the shards, Spark's reports of the micro-batches, the bars of one, and the timings."""
    with closing(SparkEngine.open(cell, dataset, workload(dataset, cell.workload))) as engine:
        timings = list(_timed(engine, cell, batches))
        reports = cast("list[BatchReport]", engine.reports)
        by_length = sorted(reports[1:], key=lambda report: report["durationMs"]["triggerExecution"])
        bars = engine.timeline(by_length[len(by_length) // 2])
        return engine.state(), reports, bars, timings


def _recompute(cell: Cell, dataset: Dataset, batches: int) -> Timings:
    with closing(SparkSqlEngine(cell, dataset, workload(dataset, cell.workload))) as engine:
        return list(_timed(engine, cell, batches))


def _timed(engine: Engine, cell: Cell, batches: int) -> Iterator[tuple[int, float]]:
    """Feed batches; yield for each the rows loaded so far and its seconds."""
    loaded = 0
    while batches > 0 and not engine.feed.done:
        loaded += engine.take(cell.physical)
        seconds, _ = timed(engine.apply)
        batches -= 1
        yield loaded, seconds


def _parts(reports: list[BatchReport]) -> list[Entries]:
    """List the parts of a micro-batch's time. The times of concurrent tasks are added up."""

    def duration(*names: str) -> float:
        return median([sum(report["durationMs"].get(name, 0) for name in names) for report in reports])

    def state_duration(name: str) -> float:
        return median([sum(operator[name] for operator in report["stateOperators"]) for report in reports])

    parts = {
        "planning": duration("latestOffset", "getBatch", "queryPlanning"),
        "offset and commit logs": duration("walCommit", "commitOffsets"),
        "jobs (the two lines below add up concurrent tasks)": duration("addBatch"),
        "  stages: Python, and its requests to the state": state_duration("allUpdatesTimeMs"),
        "  state: commit of the changelog": state_duration("commitTimeMs"),
        "all": duration("triggerExecution"),
    }
    return [[words(name), brief(milliseconds / 1e3)] for name, milliseconds in parts.items()]
