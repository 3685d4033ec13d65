"""Print a query's maintained answer, after some rounds or at a logical time: columns, order and limit as in its SQL."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from decimal import Decimal

from tabulate import tabulate

from deltamark.datagen.workload import workload
from deltamark.harness.check.change_stream import end_of, open_answer
from deltamark.harness.check.decode import Value, answer_columns
from deltamark.harness.check.snapshot import Snapshot
from deltamark.harness.cli.data.data import quietly
from deltamark.harness.cli.options import add_cell, add_end, cell_of
from deltamark.queries.catalogue import query

Rows = Sequence[tuple[Value, ...]]


def options(parser: argparse.ArgumentParser) -> None:
    add_cell(parser)
    add_end(parser)
    parser.add_argument("--format", choices=FORMATS, default="table", help="how to print it (default table)")


def run(chosen: argparse.Namespace) -> int:
    cell, dataset = cell_of(chosen), quietly(chosen)
    work = workload(dataset, cell.workload)
    end = end_of(work, cell.logical, chosen.rounds, chosen.at)
    with closing(open_answer(cell, dataset, work)) as stream:
        snapshot = Snapshot(stream.schema)
        for changes in stream.changes(end):
            snapshot.add(changes)
        names = [each.name for each in answer_columns(stream.schema)]
        FORMATS[chosen.format](names, snapshot.answer(query(cell.query).order))
    return 0


def text(value: Value) -> str:
    """Write a value as CSV does: a missing one is empty."""
    return "" if value is None else f"{value:f}" if isinstance(value, Decimal) else str(value)


def _csv(names: Sequence[str], rows: Rows) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(map(text, row) for row in rows)


def _json(names: Sequence[str], rows: Rows) -> None:
    """Write an object a row; decimals are numbers with all their places."""
    lines = []
    for row in rows:
        pairs = (f"{json.dumps(name)}: {_json_value(value)}" for name, value in zip(names, row, strict=True))
        lines.append(f"  {{{', '.join(pairs)}}}")
    print("[\n" + ",\n".join(lines) + "\n]" if lines else "[]")


def _json_value(value: Value) -> str:
    if isinstance(value, Decimal | int | float):
        return text(value)
    return json.dumps(None if value is None else str(value), ensure_ascii=False)


def _table(names: Sequence[str], rows: Rows) -> None:
    numbers = [all(isinstance(row[at], Decimal | int | float | None) for row in rows) for at in range(len(names))]
    align = ["right" if each else "left" for each in numbers]
    print(
        tabulate([list(map(text, row)) for row in rows], names, disable_numparse=True, colalign=align if rows else None)
    )
    print(f"({len(rows):,} row{'s' if len(rows) != 1 else ''})")


FORMATS: dict[str, Callable[[Sequence[str], Rows], None]] = {"table": _table, "csv": _csv, "json": _json}
