"""The command that writes the report."""

from __future__ import annotations

import argparse
from pathlib import Path

from deltamark.errors import DeltamarkError, naming
from deltamark.harness.cli.commands import command
from deltamark.harness.cli.options import add_benchmark, add_sf
from deltamark.harness.cli.results.tables import add_machine, dataset_of, directory, warn_of_foreign
from deltamark.harness.cli.sweep_options import add_results
from deltamark.harness.console.console import say
from deltamark.harness.report.page import ReportData, page
from deltamark.harness.results import store
from deltamark.harness.results.commits import known_commits
from deltamark.harness.results.record import PROJECT, of_queries, of_suites
from deltamark.harness.system.machine import ROOT

FILE = "report.html"


def options(parser: argparse.ArgumentParser) -> None:
    add_benchmark(parser)
    add_sf(parser)
    add_results(parser)
    add_machine(parser)
    text = f"output file (default: {FILE} beside the records)"
    parser.add_argument("--output", type=Path, metavar="FILE", help=text)


@command("report", options)
def run(args: argparse.Namespace) -> int:
    """Write the report: one HTML file with charts and tables.

    It is made from records; git only adds the times and subjects of commits.
    """
    machine = directory(args)
    stored = store.read(machine)
    warn_of_foreign(stored, machine)
    sf, named = dataset_of(args, stored)
    queries = of_queries(stored.records, sf, args.benchmark)
    others = of_suites(stored.records, args.benchmark)
    if not (queries or others):
        raise DeltamarkError("nothing is measured", f"{machine}, {named}SF {sf}", f"make bench {named}SF={sf}")
    commits = known_commits(ROOT, (record.commit for record in queries if record.repository == PROJECT))
    html = page(ReportData(queries, store.sessions(machine), machine.name, sf, others, commits))
    path = args.output or machine / FILE
    with naming(path):
        path.write_text(html, encoding="utf-8")
    say(f"{path}: {len(html.encode()) / 1e6:.1f} MB")
    return 0
