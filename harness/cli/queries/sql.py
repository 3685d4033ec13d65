"""Print a query's SQL.

It is the text that DuckDB runs, with the parameters filled in.
"""

from __future__ import annotations

import argparse
from decimal import Decimal

from deltamark.datagen.schema import scale_factor
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.cli.options import add_benchmark, add_query, given
from deltamark.harness.console.console import say


def options(parser: argparse.ArgumentParser) -> None:
    add_query(parser)
    add_benchmark(parser)
    text = "scale factor, on which q11 depends"
    parser.add_argument("--sf", type=scale_factor, default=Decimal("0.01"), help=text)


def run(args: argparse.Namespace) -> int:
    cell = Cell(args.query, str(args.sf), seed=args.seed, given=given(args.param), benchmark=args.benchmark)
    say(cell.text)
    return 0
