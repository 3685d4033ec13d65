"""Compare the digests of all change streams with those in results/golden.

The digests are computed at SF 0.01. Exit code 2 means that one differs. WRITE=yes writes them to results/golden
instead, which is right only if a change of the streams is intended.
"""

from __future__ import annotations

import argparse
from decimal import Decimal

from deltamark.errors import DeltamarkError
from deltamark.harness.check.golden import FILE, SF, WORKLOADS, golden_cells, read_golden, write_golden
from deltamark.harness.check.verify import digest_of
from deltamark.harness.cli.data.data import quietly
from deltamark.harness.cli.options import add_tpch_data
from deltamark.harness.console.compilation import ensure_compiled
from deltamark.harness.console.console import say
from deltamark.harness.console.progress import ProgressLine
from deltamark.harness.measure.cell import Cell


def options(parser: argparse.ArgumentParser) -> None:
    add_tpch_data(parser)
    parser.set_defaults(workload=tuple(WORKLOADS))
    parser.add_argument("--write", choices=("yes", "no"), default="no", help="write the digests to results/golden")


def run(args: argparse.Namespace) -> int:
    if args.sf != Decimal(SF):
        raise DeltamarkError("golden digests exist for one scale factor", args.sf, f"leave it at {SF}")
    dataset, cells = quietly(args), golden_cells()
    ensure_compiled()
    digests: dict[Cell, str] = {}
    with ProgressLine() as progress:
        for cell in cells:
            progress.report("digests", len(digests), len(cells))
            digests[cell] = digest_of(cell, dataset)
    if args.write == "yes":
        write_golden(digests)
        say(f"{FILE}: {len(digests)} digests")
        return 0
    committed = read_golden()
    wrong = [cell for cell in cells if digests[cell] != committed.get(cell)]
    for cell in wrong:
        say(f"{cell}: {digests[cell]}, not {committed.get(cell)}\n  {cell.command('changes', '--digest')}")
    say(f"{len(cells)} digests, {len(wrong)} differ")
    return 2 if wrong else 0
