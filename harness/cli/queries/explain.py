"""Print the plan of a query as a tree of operators, exchanges and arrangements, with estimated rows.

The plan is made for a scale factor, 1 by default, and needs no data. On Spark the tree is divided into stages.

With --analyze the query runs, on the data of scale factor 0.01 by default, one operator after another; the tree then
has the changes and the time of each operator, and the rows and memory that it keeps.
"""

from __future__ import annotations

import argparse
from contextlib import closing
from decimal import Decimal

from deltamark.datagen.workloads.registry import workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.change_stream import end_after_rounds
from deltamark.harness.cli.data.data import quietly
from deltamark.harness.cli.options import add_cell, cell_of
from deltamark.harness.engines.plans import plan_of, specified_plan
from deltamark.harness.engines.registry import PLAN_ENGINES, capabilities

PLANNED_SF, ANALYZED_SF = Decimal(1), Decimal("0.01")


def options(parser: argparse.ArgumentParser) -> None:
    add_cell(parser)
    parser.set_defaults(sf=None)
    parser.add_argument("--analyze", action="store_true", help="run the query, and measure each operator")
    text = "measure the first N rounds only; implies --analyze (default: all rounds)"
    parser.add_argument("--rounds", type=int, metavar="N", help=text)


def run(args: argparse.Namespace) -> int:
    analyzes = args.analyze or args.rounds is not None
    args.sf = args.sf or (ANALYZED_SF if analyzes else PLANNED_SF)
    cell = cell_of(args)
    print(_analyzed(cell, args) if analyzes else _planned(cell, args))
    return 0


def _planned(cell: Cell, args: argparse.Namespace) -> str:
    """Describe the program of a cell, without data if the benchmark has a specification."""
    if cell.engine not in PLAN_ENGINES:
        remedy = f"give --engine {' or '.join(PLAN_ENGINES)}"
        raise DeltamarkError("an engine that does not run our plans", cell.engine, remedy)
    specified = cell.home.source.specification(args.sf, cell.workload) is not None
    plan = specified_plan(cell) if specified else plan_of(cell, workload(quietly(args), cell.workload))
    return PLAN_ENGINES[cell.engine].explain(plan, cell.workers)


def _analyzed(cell: Cell, args: argparse.Namespace) -> str:
    """Run the query of a cell, and describe its program with the measurements."""
    if not capabilities(cell.engine).analyzes:
        remedy = "leave --analyze and --rounds out"
        raise DeltamarkError("no times of single operators", f"engine {cell.engine}", remedy)
    if cell.workers > 1:
        raise DeltamarkError("--analyze needs one worker", f"{cell.workers} workers", "leave --workers out")
    dataset = quietly(args)
    work = workload(dataset, cell.workload)
    with closing(PLAN_ENGINES[cell.engine](cell, dataset, work)) as engine:
        return engine.analyze(end_after_rounds(work, cell.logical, args.rounds).rounds)
