"""Print the changes of a query's answer as CSV, or their digest.

Each line is one changed row at one logical time; the lines are ordered. With --digest, only their number and a 128-bit
digest are printed. The digest does not depend on the order of the lines; docs/queries.md computes it in plain Python.

Example: make changes QUERY=q05 SF=0.01
"""

from __future__ import annotations

import argparse
import sys
from contextlib import closing

from deltamark.datagen.workloads.registry import workload
from deltamark.harness.check import change_stream
from deltamark.harness.check.change_stream import ChangeCsv, Digest
from deltamark.harness.cli.data.data import quietly
from deltamark.harness.cli.options import add_cell, add_end, cell_of
from deltamark.harness.console.console import say
from deltamark.harness.console.progress import ensure_compiled
from deltamark.harness.engines.registry import open_stream

BLOCK_ROWS = 1 << 16
"""Changes that are written at once; not measured."""


def options(parser: argparse.ArgumentParser) -> None:
    add_cell(parser)
    add_end(parser)
    parser.add_argument("--digest", action="store_true", help="print only the number of changes and their digest")


def run(args: argparse.Namespace) -> int:
    cell, dataset = cell_of(args), quietly(args)
    ensure_compiled()
    work = workload(dataset, cell.workload)
    end = change_stream.end_of(work, cell.logical, args.rounds, args.at)
    with closing(open_stream(cell, dataset, work)) as engine:
        lines, digest = ChangeCsv(engine.schema), Digest()
        if not args.digest:
            say(lines.header)
        for changes in change_stream.gathered(change_stream.changes(engine, end), BLOCK_ROWS):
            if args.digest:
                lines.digest(changes, digest)
                continue
            for block in lines.blocks(lines.ordered(changes)):
                sys.stdout.buffer.write(block)
    if args.digest:
        say(digest)
    return 0
