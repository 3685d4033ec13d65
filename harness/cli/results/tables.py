"""Print the tables of the results.

They are made from records alone.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from deltamark.errors import DeltamarkError, unknown
from deltamark.harness.cli.options import add_sf
from deltamark.harness.cli.sweep_options import add_results, add_suite
from deltamark.harness.results import machine, store
from deltamark.harness.results.finding import Finding
from deltamark.harness.results.record import Record
from deltamark.harness.suites import TPCH
from deltamark.harness.tables import suite_tables, tables
from deltamark.harness.tables.entry import Table
from deltamark.harness.tables.render import FORMATS


def options(parser: argparse.ArgumentParser) -> None:
    add_suite(parser)
    add_sf(parser)
    add_results(parser)
    add_machine(parser)
    parser.add_argument("--format", choices=FORMATS, default="text", help="how to print them (default text)")
    parser.add_argument("--table", default="", metavar="NAME", help="which (default all)")


def add_machine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--machine", default="", help="whose records, as directories of results are named (default this)"
    )


def run(chosen: argparse.Namespace) -> int:
    made = {table.name: table for table in _made(chosen)}
    shown = [table for name, table in made.items() if chosen.table in ("", name, name.partition("-")[0])]
    if not shown:
        raise unknown("table", chosen.table, made)
    print("\n".join(FORMATS[chosen.format](table) for table in shown), end="")
    return 0


def _made(chosen: argparse.Namespace) -> list[Table]:
    """Make the tables of TPC-H at a scale factor, or all of another suite."""
    if chosen.suite == TPCH:
        return tables(records(chosen), str(chosen.sf))
    return suite_tables(findings(chosen), chosen.suite)


def directory(chosen: argparse.Namespace) -> Path:
    found: Path = chosen.results / (chosen.machine or machine.name(machine.facts()))
    return found


def records(chosen: argparse.Namespace) -> list[Record]:
    """Read the records that a command asks for."""
    found = comparable(directory(chosen), str(chosen.sf))
    if not found:
        raise DeltamarkError(
            "nothing is measured", f"{directory(chosen)}, SF {chosen.sf}", f"make bench SF={chosen.sf}"
        )
    return found


def findings(chosen: argparse.Namespace) -> list[Finding]:
    """Read what the suite that a command asks for has found."""
    found = [each for each in store.findings(directory(chosen)) if each.suite == chosen.suite]
    if not found:
        raise DeltamarkError(
            "nothing is measured", f"{directory(chosen)}, suite {chosen.suite}", f"make bench SUITE={chosen.suite}"
        )
    return found


def comparable(where: Path, sf: str) -> list[Record]:
    """Read the records of a machine and a scale factor, and say so where some are of other versions."""
    read = store.read(where)
    if read.foreign:
        print(f"{read.foreign} records of other versions are not comparable, and left out: {where}", file=sys.stderr)
    return [record for record in read.records if record.sf == sf]
