"""Commands that show a query: its SQL, its plan, its answer, and the changes of its answer."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import closing
from decimal import Decimal

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.schema import scale_factor
from deltamark.datagen.workloads.registry import workload
from deltamark.datagen.workloads.workload import Workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check import change_stream
from deltamark.harness.check.answers import Snapshot
from deltamark.harness.check.change_stream import ChangeCsv, Digest, End, end_after_rounds, end_of, open_answer
from deltamark.harness.cli.commands import command
from deltamark.harness.cli.data.data import quietly
from deltamark.harness.cli.options import add_benchmark, add_cell, add_end, add_query, cell_of, given
from deltamark.harness.cli.parser import Parser
from deltamark.harness.console.console import say, write_csv
from deltamark.harness.console.progress import ensure_compiled
from deltamark.harness.console.table import grid
from deltamark.harness.engines.answers import answer_columns
from deltamark.harness.engines.base import Value
from deltamark.harness.engines.plans import plan_of, specified_plan
from deltamark.harness.engines.registry import PLAN_ENGINES, capabilities, open_stream


def _add_text(parser: Parser) -> None:
    add_query(parser)
    add_benchmark(parser)
    text = "scale factor, on which q11 depends"
    parser.add_argument("--sf", type=scale_factor, default=Decimal("0.01"), help=text)


@command("sql", _add_text)
def sql(args: Namespace) -> int:
    """Print a query's SQL.

    It is the text that DuckDB runs, with the parameters filled in.
    """
    cell = Cell(args.query, str(args.sf), seed=args.seed, given=given(args.param), benchmark=args.benchmark)
    say(cell.text)
    return 0


PLANNED_SF, ANALYZED_SF = Decimal(1), Decimal("0.01")


def _add_analysis(parser: Parser) -> None:
    parser.set_defaults(sf=None)
    parser.add_argument("--analyze", action="store_true", help="run the query, and measure each operator")
    text = "measure the first N rounds only; implies --analyze (default: all rounds)"
    parser.add_argument("--rounds", type=int, metavar="N", help=text)


@command("explain", add_cell, _add_analysis)
def explain(args: Namespace) -> int:
    """Print the plan of a query as a tree of operators, exchanges and arrangements, with estimated rows.

    The plan is made for a scale factor, 1 by default, and needs no data. On Spark the tree is divided into stages.

    With --analyze the query runs, on the data of scale factor 0.01 by default, one operator after another; the tree
    then has the changes and the time of each operator, and the rows and memory that it keeps.
    """
    analyzes = args.analyze or args.rounds is not None
    args.sf = args.sf or (ANALYZED_SF if analyzes else PLANNED_SF)
    cell = cell_of(args)
    print(_analyzed(cell, args) if analyzes else _planned(cell, args))
    return 0


def _planned(cell: Cell, args: Namespace) -> str:
    """Describe the program of a cell, without data if the benchmark has a specification."""
    if cell.engine not in PLAN_ENGINES:
        remedy = f"give --engine {' or '.join(PLAN_ENGINES)}"
        raise DeltamarkError("an engine that does not run our plans", cell.engine, remedy)
    specified = cell.home.source.specification(args.sf, cell.workload) is not None
    plan = specified_plan(cell) if specified else plan_of(cell, workload(quietly(args), cell.workload))
    return PLAN_ENGINES[cell.engine].explain(plan, cell.workers)


def _analyzed(cell: Cell, args: Namespace) -> str:
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


def _stream_of(args: Namespace) -> tuple[Cell, Dataset, Workload, End]:
    """Return the cell that a command names, its data, and the end of the stream."""
    cell, dataset = cell_of(args), quietly(args)
    ensure_compiled()
    work = workload(dataset, cell.workload)
    return cell, dataset, work, end_of(work, cell.logical, args.rounds, args.at)


BLOCK_ROWS = 1 << 16
"""Changes that are written at once; not measured."""


def _add_digest(parser: Parser) -> None:
    parser.add_argument("--digest", action="store_true", help="print only the number of changes and their digest")


@command("changes", add_cell, add_end, _add_digest)
def changes(args: Namespace) -> int:
    """Print the changes of a query's answer as CSV, or their digest.

    Each line is one changed row at one logical time; the lines are ordered. With --digest, only their number and a
    128-bit digest are printed. The digest does not depend on the order of the lines; docs/queries.md computes it in
    plain Python.

    Example: make changes QUERY=q05 SF=0.01
    """
    cell, dataset, work, end = _stream_of(args)
    with closing(open_stream(cell, dataset, work)) as engine:
        lines, digest = ChangeCsv(engine.schema), Digest()
        if not args.digest:
            say(lines.header)
        for batch in change_stream.gathered(change_stream.changes(engine, end), BLOCK_ROWS):
            if args.digest:
                lines.digest(batch, digest)
                continue
            for block in lines.blocks(lines.ordered(batch)):
                sys.stdout.buffer.write(block)
    if args.digest:
        say(digest)
    return 0


Rows = Sequence[tuple[Value, ...]]


def _add_format(parser: Parser) -> None:
    parser.add_argument("--format", choices=FORMATS, default="table", help="output format")


@command("answer", add_cell, add_end, _add_format)
def answer(args: Namespace) -> int:
    """Print a query's maintained answer.

    It has the columns, the order and the limit of the query's SQL. It is the answer at the end of the stream, or after
    a number of rounds, or at a logical time.

    Example: make answer QUERY=q05 SF=0.01
    """
    cell, dataset, work, end = _stream_of(args)
    with closing(open_answer(cell, dataset, work)) as stream:
        snapshot = Snapshot(stream.schema)
        for batch in stream.changes(end):
            snapshot.add(batch)
        names = [column.name for column in answer_columns(stream.schema)]
        FORMATS[args.format](names, snapshot.answer(cell.definition.order_by))
    return 0


def text(value: Value) -> str:
    """Write a value as in CSV: NULL is empty."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else f"{value:f}" if isinstance(value, Decimal) else str(value)


def _csv(names: Sequence[str], rows: Rows) -> None:
    write_csv(names, (map(text, row) for row in rows))


def _json(names: Sequence[str], rows: Rows) -> None:
    """Write one object for each row; decimals are numbers with all their places."""
    lines = []
    for row in rows:
        pairs = (f"{json.dumps(name)}: {_json_value(value)}" for name, value in zip(names, row, strict=True))
        lines.append(f"  {{{', '.join(pairs)}}}")
    say("[\n" + ",\n".join(lines) + "\n]" if lines else "[]")


def _json_value(value: Value) -> str:
    if isinstance(value, Decimal | int | float):
        return text(value)
    return json.dumps(None if value is None else str(value), ensure_ascii=False)


def _table(names: Sequence[str], rows: Rows) -> None:
    columns = zip(*rows, strict=True)
    numeric = [all(isinstance(value, Decimal | int | float | None) for value in column) for column in columns]
    align = ["right" if is_number else "left" for is_number in numeric]
    say(grid(names, [list(map(text, row)) for row in rows], align))
    say(f"({len(rows):,} row{'s' if len(rows) != 1 else ''})")


FORMATS: dict[str, Callable[[Sequence[str], Rows], None]] = {"table": _table, "csv": _csv, "json": _json}
