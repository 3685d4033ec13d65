"""Write the tables of the reference records into the README.

The records lie in results/reference; the tables go between the markers of the README.

`make readme MACHINE=...` makes the last records of that directory of results the reference first, those of one suite.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path

from deltamark.errors import DeltamarkError, naming
from deltamark.harness.cli.options import add_sf
from deltamark.harness.cli.results.tables import add_machine, directory, findings, records
from deltamark.harness.cli.sweep_options import add_results, add_suite
from deltamark.harness.console import sweep_lines
from deltamark.harness.results import machine, store
from deltamark.harness.results.finding import Finding, latest
from deltamark.harness.results.record import Record
from deltamark.harness.results.session import Header
from deltamark.harness.suites import TPCH
from deltamark.harness.tables import suite_tables, tables
from deltamark.harness.tables.render import folded, markdown

ROOT = machine.ROOT
README, REFERENCE = ROOT / "README.md", "reference"
BEGIN, END = "<!-- tables: made by make readme -->\n", "<!-- end of tables -->\n"
OPEN = ("physical", "product", "workers")
"""The post's tables, which are shown at once."""

TITLES = {"graph": "Graphs", "loops": "Distances", "shared": "Sharing"}


def options(parser: argparse.ArgumentParser) -> None:
    add_suite(parser)
    add_sf(parser)
    add_results(parser)
    add_machine(parser)
    parser.set_defaults(sf=Decimal(1), machine=REFERENCE)


def run(chosen: argparse.Namespace) -> int:
    reference = chosen.results / REFERENCE
    if directory(chosen) != reference:
        _copy(chosen, reference)
    text = README.read_text(encoding="utf-8")
    made = with_tables(text, section(reference))
    with naming(README):
        README.write_text(made, encoding="utf-8")
    print(f"{README}: tables of {reference}")
    return 0


def _copy(chosen: argparse.Namespace, reference: Path) -> None:
    """Make the last record of every cell of a suite, and the headers of their sessions, the reference."""
    kept, found = store.read(reference).records, store.findings(reference)
    if chosen.suite == TPCH:
        kept = list(store.latest(records(chosen)).values())
    else:
        found = [each for each in found if each.suite != chosen.suite] + latest(findings(chosen))
    headers = store.sessions(reference) | store.sessions(directory(chosen))
    for name in (store.RECORDS, store.FINDINGS, store.SESSIONS):
        (reference / name).unlink(missing_ok=True)
    with store.writing(reference) as writer:
        for record in kept:
            writer.add(record)
        if found:
            writer.add_findings(found)
        for session in _sessions([*kept, *found]):
            writer.add_session(_placeless(_header(headers, session)))


def _header(headers: Mapping[str, Header], session: str) -> Header:
    if session not in headers:
        remedy = f"restore {store.SESSIONS} beside the records, or measure again"
        raise DeltamarkError("no header of the session that made a record", session, remedy)
    return headers[session]


def _placeless(header: Header) -> Header:
    """Leave out of a session's command where files lay: that is nobody else's business, and not what was measured."""
    words = shlex.split(header["argv"])
    named = {at + 1 for at, word in enumerate(words) if word in ("--data", "--results")}
    kept = [
        word
        for at, word in enumerate(words)
        if at not in named and not re.match(r"(--data|--results|DATA|RESULTS)(=|$)", word)
    ]
    return {**header, "argv": shlex.join(kept)}


def _sessions(made: Iterable[Record | Finding]) -> list[str]:
    return list(dict.fromkeys(each.session for each in made))


def section(reference: Path) -> str:
    """Return what stands between the markers."""
    read, found, headers = store.read(reference).records, store.findings(reference), store.sessions(reference)
    parts = [f"{sweep_lines.header(_header(headers, session))}\n" for session in _sessions(read)]
    for sf in sorted({record.sf for record in read}):
        parts.append(f"Scale factor {sf}:\n")
        parts += [markdown(table) if table.name in OPEN else folded(table) for table in tables(read, sf)]
    for suite, title in TITLES.items():
        of_suite = [each for each in found if each.suite == suite]
        if of_suite:
            parts.append(f"### {title}\n")
            parts += [f"{sweep_lines.header(_header(headers, session))}\n" for session in _sessions(of_suite)]
            parts += map(folded, suite_tables(of_suite, suite))
    return "\n".join(parts)


def with_tables(readme: str, made: str) -> str:
    """Replace what stands between the markers."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise DeltamarkError("no place for tables in the README", f"{BEGIN.strip()} ... {END.strip()}", "restore it")
    return f"{before}{begin}\n{made}\n{end}{after}"
