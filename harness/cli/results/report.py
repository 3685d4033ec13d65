"""Write the report: one HTML file with charts and tables.

It is made from records alone.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from deltamark.errors import naming
from deltamark.harness.cli.options import add_sf
from deltamark.harness.cli.results.tables import add_machine, comparable, directory, records
from deltamark.harness.cli.sweep_options import add_results
from deltamark.harness.report.page import ReportData, page
from deltamark.harness.results import store

FILE = "report.html"


def options(parser: argparse.ArgumentParser) -> None:
    add_sf(parser)
    add_results(parser)
    add_machine(parser)
    text = f"where it is written (default {FILE} beside the records)"
    parser.add_argument("--output", type=Path, metavar="FILE", help=text)


def run(chosen: argparse.Namespace) -> int:
    where = directory(chosen)
    found = store.findings(where)
    known = comparable(where, str(chosen.sf)) if found else records(chosen)
    made = page(ReportData(known, store.sessions(where), where.name, str(chosen.sf), found))
    path = chosen.output or where / FILE
    with naming(path):
        path.write_text(made, encoding="utf-8")
    print(f"{path}: {len(made.encode()) / 1e6:.1f} MB")
    return 0
