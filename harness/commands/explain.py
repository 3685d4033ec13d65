"""Print a query's plan as it runs: operators, arrangements, who shares them, what is kept; or its stages on Spark."""

from __future__ import annotations

import argparse
from contextlib import closing

from dataflow.spark.cut import cut
from dataflow.spark.explain import staged
from datagen.workload import workload
from harness import stream
from harness.commands.data import quietly
from harness.distributed import SPARK
from harness.engines import collection, open_engine
from harness.options import add_cell, cell_of


def options(parser: argparse.ArgumentParser) -> None:
    add_cell(parser)
    parser.add_argument("--rounds", type=int, metavar="N", default=0, help="feed N rounds first (default 0)")


def run(chosen: argparse.Namespace) -> int:
    cell, dataset = cell_of(chosen), quietly(chosen)
    work = workload(dataset, cell.workload)
    if cell.engine == SPARK:
        print(staged(cut(collection(cell, dataset, work), cell.workers)))
        return 0
    end = stream.after(work, cell.logical, chosen.rounds)
    with closing(open_engine(cell, dataset, work)) as engine:
        for _ in stream.changes(cell, dataset, engine, end):
            pass
        print(engine.explain())
    return 0
