"""Compute the digests of all queries' change streams at SF 0.01, and compare them with those in results/golden; exit 2
where one differs. --write yes writes them there instead, which is right only when a change of the streams is meant.
"""

from __future__ import annotations

import argparse
from decimal import Decimal

from deltamark.errors import DeltamarkError
from deltamark.harness.check.golden import FILE, SF, golden_cells, read_golden, write_golden
from deltamark.harness.check.verify import digest_of
from deltamark.harness.cli.data.data import quietly
from deltamark.harness.cli.options import add_data
from deltamark.harness.console.progress import ProgressLine
from deltamark.harness.measure.cell import Cell


def options(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    parser.add_argument("--write", choices=("yes", "no"), default="no", help="write them (default no)")


def run(chosen: argparse.Namespace) -> int:
    if chosen.sf != Decimal(SF):
        raise DeltamarkError("golden digests are those of one scale factor", chosen.sf, f"leave it at {SF}")
    dataset, cells = quietly(chosen), golden_cells()
    digests: dict[Cell, str] = {}
    with ProgressLine() as progress:
        for cell in cells:
            progress.report("digests", len(digests), len(cells))
            digests[cell] = digest_of(cell, dataset)
    if chosen.write == "yes":
        write_golden(digests)
        print(f"{FILE}: {len(digests)} digests")
        return 0
    committed = read_golden()
    wrong = [cell for cell in cells if digests[cell] != committed.get(cell)]
    for cell in wrong:
        print(f"{cell}: {digests[cell]}, not {committed.get(cell)}\n  {cell.command('changes', '--digest')}")
    print(f"{len(cells)} digests, {len(wrong)} differ")
    return 2 if wrong else 0
