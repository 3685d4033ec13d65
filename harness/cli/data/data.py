"""Commands that make, check and cut data."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Feed
from deltamark.datagen.tpch import TPCH
from deltamark.datagen.workloads.registry import workload
from deltamark.datagen.workloads.workload import Workload
from deltamark.datagen.workloads.zipf import exponents, skewed_directory
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import DEFAULT, benchmark
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.stored_data import check_skewed, check_source
from deltamark.harness.cli.commands import command
from deltamark.harness.cli.options import add_data, add_own_data, data_request
from deltamark.harness.cli.parser import Parser
from deltamark.harness.console.console import say
from deltamark.harness.console.progress import ProgressLine, open_dataset, open_quietly
from deltamark.harness.console.table import Entries, Table, brief, count, text, words
from deltamark.harness.engines.plans import sql_inputs
from deltamark.harness.measure.stats import median
from deltamark.harness.system.clock import Stopwatch


def quietly(args: Namespace) -> Dataset:
    """Open the data of a command, and make it if necessary, without printing anything on standard output."""
    return open_quietly(data_request(args))


def ensure(args: Namespace) -> Dataset:
    """Open the data of a command, make it if necessary, and print its size."""
    return open_dataset(data_request(args))


@command("data", add_data, add_own_data)
def make_data(args: Namespace) -> int:
    """Make the data of a benchmark, pre-batched into Arrow files, unless the directory has it already.

    TPC-H, the Star Schema Benchmark and Nexmark are generated; the rows of any other folder are those of its Parquet
    files. WORKLOAD=zipf:1 also makes the data of this workload of TPC-H, which otherwise is made when it is first
    needed.

    Example: make data SF=0.01
    """
    ensure(args)
    return 0


def _add_source(parser: Parser) -> None:
    text = "also generate the rows again, and compare them"
    parser.add_argument("--source", nargs="?", choices=("yes", "no"), const="yes", default="no", help=text)


@command("data-verify", add_data, add_own_data, _add_source)
def verify_data(args: Namespace) -> int:
    """Read every byte of the data again and compare its digests.

    With SOURCE=yes, DuckDB also compares every row with a newly generated one. With WORKLOAD=zipf:1, the data of this
    workload is checked, too: its digests, its references, its prices and the shares of its keys.
    """
    request = data_request(args)
    dataset = Dataset.open(request.directory)
    with ProgressLine() as progress:
        _verify(dataset, progress)
        if args.source == "yes" and request.source is not TPCH:
            raise DeltamarkError("rows that cannot be generated again", dataset.directory, "leave SOURCE out")
        if args.source == "yes":
            check_source(dataset, progress.report)
    _say(dataset, ", and every row equals a newly generated one" if args.source == "yes" else "")
    for exponent in exponents(request.workloads):
        skewed = Dataset.open(skewed_directory(dataset.directory, exponent))
        with ProgressLine() as progress:
            _verify(skewed, progress)
            check_skewed(dataset, skewed, exponent, progress.report)
        _say(skewed, f", and their keys follow Zipf's law with exponent {exponent}")
    return 0


def _verify(dataset: Dataset, progress: ProgressLine) -> None:
    dataset.verify(lambda done, total: progress.report("comparing digests, bytes", done, total))


def _say(dataset: Dataset, more: str) -> None:
    say(f"{dataset.directory}: {len(dataset.manifest.files)} files are unchanged{more}")


QUERY, WORKLOADS = "q05", ("insert", "window:500", "refresh:10", "late:500")
"""The query of TPC-H whose columns are cut, and the workloads."""

BATCHES = ((1, 1), (1, 1000), (1, 100_000), (100_000, 1))
MAX_BATCHES = 20_000
"""The largest number of timed batches for each workload and batch size; not measured."""


@command("bench-feed", add_data)
def bench_feed(args: Namespace) -> int:
    """Measure the cost of cutting batches.

    The batches have the columns of q05 in TPC-H, and all columns of another benchmark, for several workloads and batch
    sizes.
    """
    dataset, home = ensure(args), benchmark(args.benchmark)
    works = [workload(dataset, name) for name in (WORKLOADS if home.name == DEFAULT else [home.workload])]
    if home.name == DEFAULT:
        columns = dict(sql_inputs(Cell(QUERY, dataset.manifest.sf)))
    else:
        columns = {name: tuple(column.name for column in each.columns) for name, each in dataset.relations.items()}
    rows = [_measure(work, columns, *sizes) for work in works for sizes in BATCHES]
    headers = ["workload", "L", "P", "batches", "rows", "p50", "p99", "time per row"]
    say(f"\n{text(Table('feed', 'Time to cut a batch', headers, rows))}")
    return 0


def _measure(work: Workload, columns: Mapping[str, Sequence[str]], logical: int, physical: int) -> Entries:
    feed = Feed(work, columns, logical=logical)
    watch, rows = Stopwatch(), 0
    while not feed.done and len(watch.laps) < MAX_BATCHES:
        with watch:
            deltas = feed.take(physical)
        rows += sum(len(delta.time) for delta in deltas)
    p99 = sorted(watch.laps)[len(watch.laps) * 99 // 100]
    times = (median(watch.laps), p99, watch.seconds / rows)
    numbers = (logical, physical, len(watch.laps), rows)
    return [words(work.name), *map(count, numbers), *map(brief, times)]
