"""Print a query's plan.

It lists operators, arrangements, who shares them, what is kept; or its stages on Spark.
"""

from __future__ import annotations

import argparse
from contextlib import closing

from deltamark.datagen.workload import workload
from deltamark.harness.check.change_stream import end_after_rounds
from deltamark.harness.cli.data.data import quietly
from deltamark.harness.cli.options import add_cell, cell_of
from deltamark.harness.engines.registry import open_stream


def options(parser: argparse.ArgumentParser) -> None:
    add_cell(parser)
    parser.add_argument("--rounds", type=int, metavar="N", default=0, help="feed N rounds first (default 0)")


def run(args: argparse.Namespace) -> int:
    cell, dataset = cell_of(args), quietly(args)
    work = workload(dataset, cell.workload)
    end = end_after_rounds(work, cell.logical, args.rounds)
    with closing(open_stream(cell, dataset, work)) as engine:
        print(engine.explain(end.rounds))
    return 0
