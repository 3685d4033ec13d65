"""Write the tables of the reference records, results/reference, into the README, between its markers.

`make readme MACHINE=...` makes the last records of that directory of results the reference first.
"""

from __future__ import annotations

import argparse
from decimal import Decimal
from pathlib import Path

from deltamark import DeltamarkError
from harness import store, telling
from harness.asked import add_results
from harness.commands.tables import add_machine, directory, records
from harness.options import add_sf
from harness.tables import tables
from harness.tables.render import folded, markdown

ROOT = Path(__file__).resolve().parent.parent.parent
README, REFERENCE = ROOT / "README.md", "reference"
BEGIN, END = "<!-- tables: made by make readme -->\n", "<!-- end of tables -->\n"
OPEN = ("physical", "product", "workers")
"""The post's tables, which are shown at once."""


def options(parser: argparse.ArgumentParser) -> None:
    add_sf(parser)
    add_results(parser)
    add_machine(parser)
    parser.set_defaults(sf=Decimal(1), machine=REFERENCE)


def run(chosen: argparse.Namespace) -> int:
    reference = chosen.results / REFERENCE
    if directory(chosen) != reference:
        _copy(chosen, reference)
    text = README.read_text(encoding="utf-8")
    README.write_text(with_tables(text, section(reference)), encoding="utf-8")
    print(f"{README}: tables of {reference}")
    return 0


def _copy(chosen: argparse.Namespace, reference: Path) -> None:
    """Make the last record of every cell, and the headers of their sessions, the reference."""
    last = store.latest(records(chosen)).values()
    headers = store.sessions(directory(chosen))
    for name in (store.RECORDS, store.SESSIONS):
        (reference / name).unlink(missing_ok=True)
    with store.writing(reference) as writer:
        for record in last:
            writer.add(record)
        for session in dict.fromkeys(record.session for record in last):
            writer.add_session(headers[session])


def section(reference: Path) -> str:
    """Return what stands between the markers."""
    read = store.read(reference).records
    parts = [f"{telling.header(header)}\n" for header in store.sessions(reference).values()]
    for sf in sorted({record.sf for record in read}):
        parts.append(f"Scale factor {sf}:\n")
        parts += [markdown(table) if table.name in OPEN else folded(table) for table in tables(read, sf)]
    return "\n".join(parts)


def with_tables(readme: str, made: str) -> str:
    """Replace what stands between the markers."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise DeltamarkError("no place for tables in the README", f"{BEGIN.strip()} ... {END.strip()}", "restore it")
    return f"{before}{begin}\n{made}\n{end}{after}"
