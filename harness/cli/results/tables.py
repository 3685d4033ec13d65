"""The command that prints tables, and the records that several commands read."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from functools import partial
from pathlib import Path

from deltamark.errors import DeltamarkError, unknown
from deltamark.harness.benchmarks.benchmark import benchmark
from deltamark.harness.benchmarks.cell import THROUGHPUT
from deltamark.harness.cli.commands import command
from deltamark.harness.cli.options import add_benchmark, add_sf
from deltamark.harness.cli.sweep_options import add_results, add_suite
from deltamark.harness.console.console import say, terminal_width, warn
from deltamark.harness.console.table import FORMATS, Table, text
from deltamark.harness.results import store
from deltamark.harness.results.record import Record, of_queries, of_suites
from deltamark.harness.suites.registry import SUITES
from deltamark.harness.suites.suite import benchmark_setting
from deltamark.harness.system import machine
from deltamark.harness.tables.tpch import GROWTH, bench_command, growth


def options(parser: argparse.ArgumentParser) -> None:
    add_suite(parser)
    add_benchmark(parser)
    add_sf(parser)
    add_results(parser)
    add_machine(parser)
    parser.add_argument("--format", choices=FORMATS, default="text", help="output format")
    parser.add_argument("--table", default="", metavar="NAME", help="table to print (default: all but growth)")


def add_machine(parser: argparse.ArgumentParser) -> None:
    text = "machine whose records to read, by the name of its directory in results (default: this machine)"
    parser.add_argument("--machine", default="", help=text)


@command("tables", options)
def run(args: argparse.Namespace) -> int:
    """Print the tables of a suite.

    They are made from records alone. The table `growth` has a column for each scale factor with records, whatever SF
    is.
    """
    tables = {table.name: table for table in _tables(args)}
    selected = [table for name, table in tables.items() if args.table in ("", name, name.partition("-")[0])]
    if not selected:
        raise unknown("table", args.table, [*tables, *([GROWTH] if args.suite == THROUGHPUT else [])])
    write = partial(text, width=terminal_width()) if args.format == "text" else FORMATS[args.format]
    say("\n".join(write(table) for table in selected), end="")
    return 0


def _tables(args: argparse.Namespace) -> list[Table]:
    if (args.suite, args.table) == (THROUGHPUT, GROWTH):
        return [_growth_table(args)]
    suite = SUITES[args.suite]
    return suite.tables(records(args, suite.READS))


def _growth_table(args: argparse.Namespace) -> Table:
    """Make the table of growth; raise an error unless two scale factors have records."""
    path = directory(args)
    stored = store.read(path)
    warn_of_foreign(stored, path)
    queries = of_queries(stored.records, "", args.benchmark)
    table = growth(queries)
    if table is None:
        found = ", ".join(f"SF {sf}" for sf in sorted({record.sf for record in queries})) or "no records"
        remedy = f"{bench_command('1')}, and the same with SF=10"
        raise DeltamarkError("growth needs records of two scale factors", f"{path}, {found}", remedy)
    return table


def dataset_of(args: argparse.Namespace, stored: store.StoredRecords) -> tuple[str, str]:
    """Return the scale factor, and the setting of the benchmark unless it is the default one.

    The folder of a benchmark may be gone although it has records, which then have its only scale.
    """
    try:
        scale = str(benchmark(args.benchmark).source.scale(args.sf))
    except DeltamarkError:
        scales = {record.sf for record in stored.records if record.benchmark == args.benchmark}
        if len(scales) != 1:
            raise
        (scale,) = scales
    return scale, benchmark_setting(args.benchmark)


def directory(args: argparse.Namespace) -> Path:
    path: Path = args.results / (args.machine or machine.name(machine.facts()))
    return path


def records(args: argparse.Namespace, others: Collection[str] = ()) -> list[Record]:
    """Read the records of the selected suite and benchmark; raise an error if there are none.

    Those of queries are of the scale factor alone.

    others: suites whose records are read, too.
    """
    path = directory(args)
    stored = store.read(path)
    warn_of_foreign(stored, path)
    named = benchmark_setting(args.benchmark)
    dataset, setting = f"{named}suite {args.suite}", f"{named}SUITE={args.suite}"
    of_suite = [record for record in of_suites(stored.records, args.benchmark) if record.suite == args.suite]
    if args.suite == THROUGHPUT:
        sf, named = dataset_of(args, stored)
        of_suite = of_queries(stored.records, sf, args.benchmark)
        dataset, setting = f"{named}SF {sf}", f"{named}SF={sf}"
    if not of_suite:
        raise DeltamarkError("nothing is measured", f"{path}, {dataset}", f"make bench {setting}")
    return [*of_suite, *(record for record in stored.records if record.suite in others)]


def warn_of_foreign(stored: store.StoredRecords, path: Path) -> None:
    if stored.foreign:
        warn(f"{stored.foreign} records of other versions are not comparable, and left out: {path}")
