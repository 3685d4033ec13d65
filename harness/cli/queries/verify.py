"""Check maintained answers: against DuckDB over exactly the rows that are live, at random logical times, half of them
in the middle of a round; that larger logical batches say the same in larger steps; and that neither physical batches,
nor workers, nor variants change what is said. What is wrong is printed with the command that repeats it, and exits 2.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workload import known_workload, workload
from deltamark.errors import whole_number
from deltamark.harness.check import verify
from deltamark.harness.cli.data.data import quietly
from deltamark.harness.cli.options import MOST_SEED, MOST_TIMES, add_data, batch_sizes, physical, whole, worker_counts
from deltamark.harness.console.progress import ProgressLine
from deltamark.harness.engines.registry import DEFAULT, STREAM_ENGINES, known_stream_engine
from deltamark.harness.measure.cell import Cell
from deltamark.queries.catalogue import QUERIES, query
from deltamark.queries.parameters import parameters

WORKLOADS = "insert,window:500,refresh:5"


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_data(parser)
    add("queries", nargs="*", help="which (default all)")
    add("--workload", default=WORKLOADS, help=f"which, between commas (default {WORKLOADS})")
    add("--logical", default="1,7,1000", help="logical batches, between commas (default 1,7,1000)")
    add("--physical", default="1,13,1000,all", help="physical batches, between commas (default 1,13,1000,all)")
    add("--workers", default="1", help="numbers of workers, between commas (default 1)")
    add("--engine", default=DEFAULT, help=f"{' or '.join(STREAM_ENGINES)}, with whose streams all is compared")
    add("--times", default="40", metavar="K", help="how many times, or every (default 40)")
    add("--seed", type=whole(0, MOST_SEED), default=0, help="of the times and of how batches are cut (default 0)")
    add(
        "--parameters",
        type=whole(0, MOST_SEED),
        metavar="SEED",
        help="draw the queries' parameters (default: those for validation)",
    )


@dataclass(frozen=True)
class Asked:
    """What a run is to check."""

    queries: tuple[str, ...]
    workloads: tuple[str, ...]
    logical: tuple[int, ...]
    physical: tuple[int, ...]
    workers: tuple[int, ...]
    times: int
    """0 for every one."""
    seed: int
    parameters: int | None
    engine: str
    master: str


def run(chosen: argparse.Namespace) -> int:
    asked = _asked(chosen)
    dataset = quietly(chosen)
    cells = list(_cells(asked, dataset))
    wrong = done = 0
    try:
        with ProgressLine() as progress:
            for cell in cells:
                progress.report("checking", done, len(cells))
                started = time.monotonic()
                found = list(_check(cell, asked, dataset))
                done, wrong = done + 1, wrong + bool(found)
                _say(cell, found, time.monotonic() - started)
    except KeyboardInterrupt:
        print(f"interrupted: {done} of {len(cells)} checked, {wrong} wrong", file=sys.stderr)
        return 130
    print(f"{done} checked, {wrong} wrong")
    return 2 if wrong else 0


def _asked(chosen: argparse.Namespace) -> Asked:
    queries, workloads = chosen.queries or list(QUERIES), tuple(chosen.workload.split(","))
    for name in queries:
        query(name)
        parameters(name, chosen.sf, chosen.parameters)
    for name in workloads:
        known_workload(name)
    times = 0 if chosen.times == "every" else whole_number(chosen.times, 1, MOST_TIMES)
    return Asked(
        tuple(queries), workloads, batch_sizes(chosen.logical),
        tuple(map(physical, chosen.physical.split(","))), worker_counts(chosen.workers), times, chosen.seed,
        chosen.parameters, known_stream_engine(chosen.engine), chosen.master,
    )  # fmt: skip


def _cells(asked: Asked, dataset: Dataset) -> Iterator[Cell]:
    for name in asked.queries:
        for work in asked.workloads:
            for logical in asked.logical:
                yield Cell(name, dataset.manifest.sf, work, logical, seed=asked.parameters)


def _check(cell: Cell, asked: Asked, dataset: Dataset) -> Iterator[str]:
    """Check a query over a workload in logical batches of one size; yield what is wrong."""
    chance = Random(f"{asked.seed} {cell}")  # noqa: S311 (no secret)
    work, relations = workload(dataset, cell.workload), query(cell.query).relations
    times = (
        verify.random_times(work, relations, cell.logical, asked.times, chance)
        if asked.times
        else verify.every_time(dataset, work, relations, cell.logical)
    )
    answers = query(cell.query)
    for variant in (answers.default, *answers.accumulated):  # the others have the same stream, or are found below
        each = cell.but(variant=variant, physical=chance.choice(asked.physical), workers=chance.choice(asked.workers))
        yield from _problem(verify.check_answers(each, dataset, times))
    reference = verify.run_stream(cell, dataset)
    if cell.logical > 1:
        yield from _problem(verify.check_logical(verify.run_stream(cell.but(logical=1), dataset), reference))
    for each in _grid(cell, asked):
        if each != cell:
            yield from _problem(verify.check_digest(reference, each, dataset))


def _grid(cell: Cell, asked: Asked) -> Iterator[Cell]:
    """Yield the cells that must have one and the same stream."""
    answers = query(cell.query)
    cell = cell.but(engine=asked.engine, master=asked.master if asked.engine != cell.engine else "")
    for variant in answers.variants:
        if variant not in answers.accumulated:
            for size in asked.physical:
                for workers in asked.workers:
                    shown = "" if variant == answers.default else variant
                    yield cell.but(variant=shown, physical=size, workers=workers)


def _problem(found: str) -> Iterator[str]:
    if found:
        yield found


def _say(cell: Cell, found: list[str], seconds: float) -> None:
    verdict = "WRONG" if found else "right"
    print(f"{cell.query} {cell.workload} L={cell.logical}: {verdict} ({seconds:.1f} s)", flush=True)
    for each in found:
        print(each, flush=True)
