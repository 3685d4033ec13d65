"""Print a query's SQL as DuckDB answers it, with the parameters filled in."""

from __future__ import annotations

import argparse
from decimal import Decimal

from deltamark.datagen.schema import scale_factor
from deltamark.harness.cli.options import add_query, given
from deltamark.harness.measure.cell import Cell
from deltamark.queries.catalogue import query


def options(parser: argparse.ArgumentParser) -> None:
    add_query(parser)
    text = "scale factor, which q11 depends on (default 0.01)"
    parser.add_argument("--sf", type=scale_factor, default=Decimal("0.01"), help=text)


def run(chosen: argparse.Namespace) -> int:
    query(chosen.query)
    print(Cell(chosen.query, str(chosen.sf), seed=chosen.seed, given=given(chosen.param)).sql)
    return 0
