"""Commands that check the streams of queries: `verify` against DuckDB and each other, `golden` against older ones."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from decimal import Decimal
from random import Random

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workloads.registry import known_workload, small_workloads, those_that_apply, workload
from deltamark.errors import DeltamarkError, whole_number
from deltamark.harness.benchmarks.benchmark import Benchmark, benchmark
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.verify import (
    SF,
    check_answers,
    check_digest,
    check_logical,
    digest_of,
    every_time,
    golden_cells,
    golden_file,
    random_times,
    read_golden,
    run_stream,
    write_golden,
)
from deltamark.harness.cli.commands import command
from deltamark.harness.cli.data.data import quietly
from deltamark.harness.cli.options import (
    MAX_SEED,
    MAX_TIMES,
    add_data,
    batch_sizes,
    physical,
    sql_files,
    whole,
    words,
    worker_counts,
)
from deltamark.harness.cli.parser import Parser
from deltamark.harness.console.console import say, warn
from deltamark.harness.console.progress import ProgressLine, ensure_compiled
from deltamark.harness.console.table import counted
from deltamark.harness.engines.base import REFUSALS
from deltamark.harness.engines.registry import DEFAULT, PLAN_ENGINES, known_stream_engine


def _add_checks(parser: Parser) -> None:
    add = parser.add_argument
    add("queries", nargs="*", help="queries to check (default: all)")
    add("--sql", type=sql_files, default=(), metavar="FILE,FILE", help="files of SQL, as queries to check")
    text = "workloads, separated by commas (default: one of each kind that applies)"
    add("--workload", type=words, default=(), help=text)
    text = "rounds that share a logical time, separated by commas"
    add("--logical", type=batch_sizes, default="1,7,1000", help=text)
    text = "logical batches fed at once, separated by commas"
    add("--physical", type=_physical_sizes, default="1,13,1000,all", help=text)
    add("--workers", type=worker_counts, default="1", help="numbers of workers, separated by commas")
    add("--engine", default=DEFAULT, help=f"engine whose streams are compared: {', '.join(PLAN_ENGINES)}, or another")
    add("--times", type=_times, default="40", metavar="K", help="number of logical times to check, or every")
    add("--seed", type=whole(0, MAX_SEED), default=0, help="seed of the times and of the batch sizes")
    text = "seed that draws the queries' parameters (default: validation parameters)"
    add("--parameters", type=whole(0, MAX_SEED), metavar="SEED", help=text)


def _physical_sizes(text: str) -> tuple[int, ...]:
    return tuple(map(physical, text.split(",")))


EVERY = 0
"""The number that stands for every logical time."""


def _times(text: str) -> int:
    return EVERY if text == "every" else whole_number(text, 1, MAX_TIMES)


@command("verify", add_data, _add_checks)
def verify(args: Namespace) -> int:
    """Check maintained answers against DuckDB, and that batching, workers and variants do not change them.

    DuckDB computes the answers over exactly the live rows, at random logical times, half of them in the middle of a
    round. The change stream in larger logical batches must be the stream in single rounds, in larger steps. Physical
    batches, the number of workers and the variant must not change the stream. Every violation is printed with the
    command that repeats it; exit code 2 means that there was one.

    Example: make verify SF=0.01 QUERIES=q05,q18
    """
    queries, given = _known_queries(args), args.workload
    args.workload = given or _usual_workloads(benchmark(args.benchmark))
    dataset = quietly(args)
    workloads = given or those_that_apply(dataset, args.workload)
    ensure_compiled()
    cells = [
        Cell(name, dataset.manifest.sf, work, logical, seed=args.parameters, benchmark=args.benchmark)
        for name in queries
        for work in workloads
        for logical in args.logical
    ]
    wrong = done = 0
    refused: dict[str, str] = {}
    try:
        with ProgressLine() as progress:
            for cell in cells:
                if cell.query in refused:
                    continue
                progress.report("checking", done, len(cells))
                started = time.monotonic()
                try:
                    problems = list(filter(None, _violations(cell, args, dataset)))
                except REFUSALS as error:
                    if len(queries) == 1:
                        raise
                    refused[cell.query] = _in_one_line(error)
                    continue
                done, wrong = done + 1, wrong + bool(problems)
                _print_result(cell, problems, time.monotonic() - started)
    except KeyboardInterrupt:
        warn(f"interrupted: {done} of {len(cells)} checked, {wrong} wrong")
        return 130
    for name, reason in refused.items():
        say(f"{name}: refused: {reason}")
    say(f"{done} checked, {wrong} wrong" + (f", {counted(len(refused), 'query')} refused" if refused else ""))
    return 2 if wrong else 0


def _in_one_line(error: DeltamarkError) -> str:
    """Return the text of an error about a query, or of several errors with the first of them."""
    return " ".join(str(error).splitlines()[:2])


def _known_queries(args: Namespace) -> list[str]:
    """Return the queries to check. A wrong name or parameter is an error here, before any data is made."""
    home = benchmark(args.benchmark)
    queries = [*args.queries, *args.sql] or list(home.queries)
    for name in queries:
        home.parameters(name, home.source.scale(args.sf), args.parameters)
    for name in args.workload:
        known_workload(name)
    known_stream_engine(args.engine)
    return queries


def _usual_workloads(home: Benchmark) -> Sequence[str]:
    """Return the workloads that are checked if none is given, of which all that apply to the data are."""
    has_all = home.relations.events and not home.source.has_changes
    return small_workloads(home.relations) if has_all else [home.workload]


def _violations(cell: Cell, args: Namespace, dataset: Dataset) -> Iterator[str]:
    """Check a query over a workload in logical batches of one size; yield each result, which is empty if it holds."""
    chance = Random(f"{args.seed} {cell}")  # noqa: S311 (no secret)
    work, answers = workload(dataset, cell.workload), cell.definition
    times = (
        every_time(work, cell.reads, cell.logical)
        if args.times == EVERY
        else random_times(work, cell.reads, cell.logical, args.times, chance)
    )
    compared = [  # the other variants are compared by their streams below
        cell.but(variant=variant, physical=chance.choice(args.physical), workers=chance.choice(args.workers))
        for variant in ("", *answers.accumulated)
    ]
    for each in compared:
        yield check_answers(each, dataset, times)
    reference = run_stream(cell, dataset)
    if cell.logical > 1:
        yield check_logical(run_stream(cell.but(logical=1), dataset), reference)
    for other in dict.fromkeys([compared[0], *_equivalent_cells(cell, args)]):
        if other != cell:  # the reference has the stream of the cell that was compared with DuckDB
            yield check_digest(reference, other, dataset)


def _equivalent_cells(cell: Cell, args: Namespace) -> Iterator[Cell]:
    """Yield the cells whose streams must equal the cell's."""
    answers = cell.definition
    cell = cell.but(engine=args.engine, master=args.master if args.engine != cell.engine else "")
    for variant in answers.variants:
        if variant not in answers.accumulated:
            for size in args.physical:
                for workers in args.workers:
                    name = "" if variant == answers.default else variant
                    yield cell.but(variant=name, physical=size, workers=workers)


def _print_result(cell: Cell, problems: list[str], seconds: float) -> None:
    verdict = "WRONG" if problems else "right"
    say(f"{cell.query} {cell.workload} L={cell.logical}: {verdict} ({seconds:.1f} s)")
    for problem in problems:
        say(problem)


def _add_write(parser: Parser) -> None:
    parser.add_argument("--write", choices=("yes", "no"), default="no", help="write the digests")


@command("golden", add_data, _add_write)
def golden(args: Namespace) -> int:
    """Compare the digests of all change streams of a benchmark with those that were written before.

    The digests of TPC-H, the Star Schema Benchmark, Nexmark and TPC-DS are those of SF 0.01, in results/golden; those
    of any other benchmark are kept in its folder, in golden.csv. Its description names the workloads. Exit code 2 means
    that one differs. WRITE=yes writes them instead, which is right only if a change of the streams is intended.
    """
    home = benchmark(args.benchmark)
    if home.source.scaled and args.sf != Decimal(SF):
        raise DeltamarkError("golden digests exist for one scale factor", args.sf, f"leave it at {SF}")
    known = {} if args.write == "yes" else read_golden(home)
    args.workload = [*home.golden]
    dataset = quietly(args)
    workloads = those_that_apply(dataset, args.workload)
    ensure_compiled()
    digests = _digests(golden_cells((), home, workloads), dataset)
    if args.write == "yes":
        write_golden(digests, home)
        say(f"{golden_file(home)}: {len(digests)} digests of {', '.join(workloads)}")
        return 0
    wrong = [cell for cell in {**known, **digests} if digests.get(cell) != known.get(cell)]
    for cell in wrong:
        say(f"{cell}: {digests.get(cell)}, not {known.get(cell)}\n  {cell.command('changes', '--digest')}")
    say(f"{len(digests)} digests of {', '.join(workloads)}: {len(wrong)} differ")
    return 2 if wrong else 0


def _digests(cells: list[Cell], dataset: Dataset) -> dict[Cell, str]:
    """Compute the digests of all cells except those that our engine refuses, whose reason is printed."""
    digests: dict[Cell, str] = {}
    refused: dict[str, str] = {}
    with ProgressLine() as progress:
        for done, cell in enumerate(cells):
            progress.report("digests", done, len(cells))
            try:
                digests[cell] = digest_of(cell, dataset)
            except REFUSALS as error:
                refused[cell.query] = _in_one_line(error)
    for query, reason in refused.items():
        say(f"left out: {query}: {reason}")
    return digests
