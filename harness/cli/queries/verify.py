"""Check maintained answers against DuckDB, and that batching, workers and variants do not change them.

DuckDB computes the answers over exactly the live rows, at random logical times, half of them in the middle of a round.
The change stream in larger logical batches must be the stream in single rounds, in larger steps. Physical batches, the
number of workers and the variant must not change the stream. Every violation is printed with the command that repeats
it; exit code 2 means that there was one.

Example: make verify SF=0.01 QUERIES=q05,q18
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workloads.registry import known_workload, small_workloads, those_that_apply, workload
from deltamark.errors import whole_number
from deltamark.harness.benchmarks.benchmark import Benchmark, benchmark
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check import verify
from deltamark.harness.cli.data.data import quietly
from deltamark.harness.cli.options import (
    MAX_SEED,
    MAX_TIMES,
    add_data,
    batch_sizes,
    physical,
    sql_files,
    whole,
    worker_counts,
)
from deltamark.harness.console.console import say, warn
from deltamark.harness.console.progress import ProgressLine, ensure_compiled
from deltamark.harness.engines.base import REFUSALS
from deltamark.harness.engines.registry import DEFAULT, PLAN_ENGINES, known_stream_engine


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_data(parser)
    add("queries", nargs="*", help="queries to check (default: all)")
    add("--sql", type=sql_files, default=(), metavar="FILE,FILE", help="files of SQL, as queries to check")
    add("--workload", default="", help="workloads, separated by commas (default: one of each kind that applies)")
    add("--logical", default="1,7,1000", help="rounds that share a logical time, separated by commas")
    add("--physical", default="1,13,1000,all", help="logical batches fed at once, separated by commas")
    add("--workers", default="1", help="numbers of workers, separated by commas")
    add("--engine", default=DEFAULT, help=f"engine whose streams are compared: {', '.join(PLAN_ENGINES)}, or another")
    add("--times", default="40", metavar="K", help="number of logical times to check, or every")
    add("--seed", type=whole(0, MAX_SEED), default=0, help="seed of the times and of the batch sizes")
    text = "seed that draws the queries' parameters (default: validation parameters)"
    add("--parameters", type=whole(0, MAX_SEED), metavar="SEED", help=text)


@dataclass(frozen=True)
class VerifyRequest:
    """The settings of one run of this command. times: 0 for every logical time."""

    benchmark: str
    queries: tuple[str, ...]
    workloads: tuple[str, ...]
    logical: tuple[int, ...]
    physical: tuple[int, ...]
    workers: tuple[int, ...]
    times: int
    seed: int
    parameters: int | None
    engine: str
    master: str


def run(args: argparse.Namespace) -> int:
    home = benchmark(args.benchmark)
    is_given, args.workload = bool(args.workload), args.workload or ",".join(_usual_workloads(home))
    request = _request(args)
    dataset = quietly(args)
    if not is_given:
        request = replace(request, workloads=tuple(those_that_apply(dataset, request.workloads)))
    ensure_compiled()
    cells = list(_cells(request, dataset))
    wrong = done = 0
    refused: dict[str, str] = {}
    try:
        with ProgressLine() as progress:
            for cell in cells:
                progress.report("checking", done, len(cells))
                started = time.monotonic()
                try:
                    problems = list(filter(None, _violations(cell, request, dataset)))
                except REFUSALS as error:
                    if len(request.queries) == 1:
                        raise
                    refused[cell.query] = str(error)
                    continue
                done, wrong = done + 1, wrong + bool(problems)
                _print_result(cell, problems, time.monotonic() - started)
    except KeyboardInterrupt:
        warn(f"interrupted: {done} of {len(cells)} checked, {wrong} wrong")
        return 130
    for name, reason in refused.items():
        say(f"{name}: refused: {reason}")
    say(f"{done} checked, {wrong} wrong" + (f", {len(refused)} queries refused" if refused else ""))
    return 2 if wrong else 0


def _usual_workloads(home: Benchmark) -> Sequence[str]:
    """Return the workloads that are checked if none is given, of which all that apply to the data are."""
    has_all = home.relations.events and not home.source.has_changes
    return small_workloads(home.relations) if has_all else [home.workload]


def _request(args: argparse.Namespace) -> VerifyRequest:
    home = benchmark(args.benchmark)
    queries = [*args.queries, *args.sql] or list(home.queries)
    workloads = tuple(args.workload.split(","))
    for name in queries:
        home.parameters(name, home.source.scale(args.sf), args.parameters)
    for name in workloads:
        known_workload(name)
    times = 0 if args.times == "every" else whole_number(args.times, 1, MAX_TIMES)
    return VerifyRequest(
        args.benchmark, tuple(queries), workloads, batch_sizes(args.logical),
        tuple(map(physical, args.physical.split(","))), worker_counts(args.workers), times, args.seed, args.parameters,
        known_stream_engine(args.engine), args.master,
    )  # fmt: skip


def _cells(request: VerifyRequest, dataset: Dataset) -> Iterator[Cell]:
    for name in request.queries:
        for work in request.workloads:
            for logical in request.logical:
                yield Cell(
                    name, dataset.manifest.sf, work, logical, seed=request.parameters, benchmark=request.benchmark
                )


def _violations(cell: Cell, request: VerifyRequest, dataset: Dataset) -> Iterator[str]:
    """Check a query over a workload in logical batches of one size; yield each result, which is empty if it holds."""
    chance = Random(f"{request.seed} {cell}")  # noqa: S311 (no secret)
    work, answers = workload(dataset, cell.workload), cell.definition
    times = (
        verify.random_times(work, cell.reads, cell.logical, request.times, chance)
        if request.times
        else verify.every_time(work, cell.reads, cell.logical)
    )
    compared = [  # the other variants are compared by their streams below
        cell.but(variant=variant, physical=chance.choice(request.physical), workers=chance.choice(request.workers))
        for variant in ("", *answers.accumulated)
    ]
    for each in compared:
        yield verify.check_answers(each, dataset, times)
    reference = verify.run_stream(cell, dataset)
    if cell.logical > 1:
        yield verify.check_logical(verify.run_stream(cell.but(logical=1), dataset), reference)
    for other in dict.fromkeys([compared[0], *_equivalent_cells(cell, request)]):
        if other != cell:  # the reference has the stream of the cell that was compared with DuckDB
            yield verify.check_digest(reference, other, dataset)


def _equivalent_cells(cell: Cell, request: VerifyRequest) -> Iterator[Cell]:
    """Yield the cells whose streams must equal the cell's."""
    answers = cell.definition
    cell = cell.but(engine=request.engine, master=request.master if request.engine != cell.engine else "")
    for variant in answers.variants:
        if variant not in answers.accumulated:
            for size in request.physical:
                for workers in request.workers:
                    name = "" if variant == answers.default else variant
                    yield cell.but(variant=name, physical=size, workers=workers)


def _print_result(cell: Cell, problems: list[str], seconds: float) -> None:
    verdict = "WRONG" if problems else "right"
    say(f"{cell.query} {cell.workload} L={cell.logical}: {verdict} ({seconds:.1f} s)")
    for problem in problems:
        say(problem)
