"""Print a query's SQL.

It is the text that DuckDB runs, with the parameters filled in.
"""

from __future__ import annotations

import argparse
from decimal import Decimal

from deltamark.datagen.schema import scale_factor
from deltamark.harness.cli.options import add_query, given
from deltamark.harness.console.console import say
from deltamark.harness.measure.cell import Cell
from deltamark.queries.catalogue import query


def options(parser: argparse.ArgumentParser) -> None:
    add_query(parser)
    text = "scale factor, on which q11 depends"
    parser.add_argument("--sf", type=scale_factor, default=Decimal("0.01"), help=text)


def run(args: argparse.Namespace) -> int:
    query(args.query)
    say(Cell(args.query, str(args.sf), seed=args.seed, given=given(args.param)).sql)
    return 0
