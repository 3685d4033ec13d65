"""Print a query's plan.

It lists operators, arrangements, who shares them, what is kept; or its stages on Spark.
"""

from __future__ import annotations

import argparse
from contextlib import closing

from deltamark.dataflow.spark.planning.explain import explain_stages
from deltamark.dataflow.spark.planning.stage_planner import plan_stages
from deltamark.datagen.workload import workload
from deltamark.harness.check import change_stream
from deltamark.harness.cli.data.data import quietly
from deltamark.harness.cli.options import add_cell, cell_of
from deltamark.harness.engines.embedded import collection, open_engine
from deltamark.harness.engines.spark import SPARK


def options(parser: argparse.ArgumentParser) -> None:
    add_cell(parser)
    parser.add_argument("--rounds", type=int, metavar="N", default=0, help="feed N rounds first (default 0)")


def run(chosen: argparse.Namespace) -> int:
    cell, dataset = cell_of(chosen), quietly(chosen)
    work = workload(dataset, cell.workload)
    if cell.engine == SPARK:
        print(explain_stages(plan_stages(collection(cell, dataset, work), cell.workers)))
        return 0
    end = change_stream.after(work, cell.logical, chosen.rounds)
    with closing(open_engine(cell, dataset, work)) as engine:
        for _ in change_stream.changes(cell, dataset, engine, end):
            pass
        print(engine.explain())
    return 0
