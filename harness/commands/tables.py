"""Print the tables of what is measured, from records alone."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from deltamark import DeltamarkError, unknown
from harness import machine, store
from harness.asked import add_results
from harness.options import add_sf
from harness.record import Record
from harness.tables import tables
from harness.tables.render import FORMATS


def options(parser: argparse.ArgumentParser) -> None:
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
    made = {table.name: table for table in tables(records(chosen), str(chosen.sf))}
    if chosen.table and chosen.table not in made:
        raise unknown("table", chosen.table, made)
    shown = [made[chosen.table]] if chosen.table else list(made.values())
    print("\n".join(FORMATS[chosen.format](table) for table in shown), end="")
    return 0


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


def comparable(where: Path, sf: str) -> list[Record]:
    """Read the records of a machine and a scale factor, and say so where some are of other versions."""
    read = store.read(where)
    if read.foreign:
        print(f"{read.foreign} records of other versions are not comparable, and left out: {where}", file=sys.stderr)
    return [record for record in read.records if record.sf == sf]
