"""Print how a query's answer changes, as CSV: one line a row and logical time, ordered. With --digest, how many lines
there are and one 128-bit digest of them, which does not depend on their order (README has it in plain Python).
"""

from __future__ import annotations

import argparse
import sys
from contextlib import closing

from deltamark.datagen.workload import workload
from deltamark.harness.check import change_stream
from deltamark.harness.check.change_csv import ChangeCsv, Digest
from deltamark.harness.cli.data.data import quietly
from deltamark.harness.cli.options import add_cell, add_end, cell_of
from deltamark.harness.engines.registry import open_stream

GATHERED = 1 << 16


def options(parser: argparse.ArgumentParser) -> None:
    add_cell(parser)
    add_end(parser)
    parser.add_argument("--digest", action="store_true", help="print the number of changes and their digest alone")


def run(chosen: argparse.Namespace) -> int:
    cell, dataset = cell_of(chosen), quietly(chosen)
    work = workload(dataset, cell.workload)
    end = change_stream.end_of(work, cell.logical, chosen.rounds, chosen.at)
    with closing(open_stream(cell, dataset, work)) as engine:
        lines, digest = ChangeCsv(engine.schema), Digest()
        if not chosen.digest:
            print(lines.header, flush=True)
        for changes in change_stream.gathered(change_stream.changes(engine, end), GATHERED):
            if chosen.digest:
                lines.digest(changes, digest)
                continue
            for block in lines.blocks(lines.ordered(changes)):
                sys.stdout.buffer.write(block)
    if chosen.digest:
        print(digest)
    return 0
