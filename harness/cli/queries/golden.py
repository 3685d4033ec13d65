"""Compare the digests of all change streams of a benchmark with those that were written before.

The digests of TPC-H, the Star Schema Benchmark and Nexmark are those of SF 0.01, in results/golden; those of any other
benchmark are kept in its folder, in golden.csv. Exit code 2 means that one differs. WRITE=yes writes them instead,
which is right only if a change of the streams is intended.
"""

from __future__ import annotations

import argparse
from decimal import Decimal

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workloads.registry import those_that_apply
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import benchmark
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.verify import OF_TPCH, SF, digest_of, golden_cells, golden_file, read_golden, write_golden
from deltamark.harness.cli.data.data import quietly
from deltamark.harness.cli.options import add_data
from deltamark.harness.console.console import say
from deltamark.harness.console.progress import ProgressLine, ensure_compiled
from deltamark.harness.engines.base import REFUSALS


def options(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    parser.add_argument("--write", choices=("yes", "no"), default="no", help="write the digests")


def run(args: argparse.Namespace) -> int:
    home = benchmark(args.benchmark)
    if home.source.scaled and args.sf != Decimal(SF):
        raise DeltamarkError("golden digests exist for one scale factor", args.sf, f"leave it at {SF}")
    known = {} if args.write == "yes" else read_golden(home)
    args.workload = OF_TPCH if home.source is benchmark().source else ()  # zipf has data of its own
    dataset = quietly(args)
    workloads = args.workload or those_that_apply(dataset, [home.workload] if home.source.has_changes else OF_TPCH)
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
                refused[cell.query] = str(error)
    for query, reason in refused.items():
        say(f"left out: {query}: {reason}")
    return digests
