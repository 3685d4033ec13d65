"""Print a query's maintained answer.

It has the columns, the order and the limit of the query's SQL. It is the answer at the end of the stream, or after a
number of rounds, or at a logical time.

Example: make answer QUERY=q05 SF=0.01
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from contextlib import closing
from decimal import Decimal

from deltamark.datagen.workloads.registry import workload
from deltamark.harness.check.answers import Snapshot
from deltamark.harness.check.change_stream import end_of, open_answer
from deltamark.harness.cli.data.data import quietly
from deltamark.harness.cli.options import add_cell, add_end, cell_of
from deltamark.harness.console.console import say, write_csv
from deltamark.harness.console.progress import ensure_compiled
from deltamark.harness.console.table import grid
from deltamark.harness.engines.answers import answer_columns
from deltamark.harness.engines.base import Value

Rows = Sequence[tuple[Value, ...]]


def options(parser: argparse.ArgumentParser) -> None:
    add_cell(parser)
    add_end(parser)
    parser.add_argument("--format", choices=FORMATS, default="table", help="output format")


def run(args: argparse.Namespace) -> int:
    cell, dataset = cell_of(args), quietly(args)
    ensure_compiled()
    work = workload(dataset, cell.workload)
    end = end_of(work, cell.logical, args.rounds, args.at)
    with closing(open_answer(cell, dataset, work)) as stream:
        snapshot = Snapshot(stream.schema)
        for changes in stream.changes(end):
            snapshot.add(changes)
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
