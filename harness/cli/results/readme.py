"""The command that writes the published page of results."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from deltamark.errors import DeltamarkError, naming
from deltamark.harness.cli.commands import command
from deltamark.harness.cli.results.tables import add_machine, directory
from deltamark.harness.cli.sweep_options import add_results
from deltamark.harness.console.console import say
from deltamark.harness.console.table import markdown
from deltamark.harness.report.figures import FIGURES
from deltamark.harness.report.page import UNFOLDED
from deltamark.harness.results import store
from deltamark.harness.results.record import Record, latest, of_queries
from deltamark.harness.suites.reporter import session_header
from deltamark.harness.system import machine
from deltamark.harness.system.machine import Header
from deltamark.harness.tables.tpch import tables

ROOT = machine.ROOT
PAGE, REFERENCE = ROOT / "docs" / "results.md", ROOT / "results" / "reference"
FOLDER = ROOT / "docs" / "figures"
BEGIN, END = "<!-- tables: made by make readme -->\n", "<!-- end of tables -->\n"

Headers = Mapping[str, Header]


def options(parser: argparse.ArgumentParser) -> None:
    add_results(parser)
    add_machine(parser)
    parser.set_defaults(results=REFERENCE.parent, machine=REFERENCE.name)


@command("readme", options)
def run(args: argparse.Namespace) -> int:
    """Write tables of the reference records into docs/results.md, and draw the figures of the README from them.

    The records lie in results/reference; the table of engines and those of the post of 2017 go between the markers of
    the page. `make site` writes all tables.

    `make readme RESULTS=... MACHINE=...` first puts the last records of that directory of results in place of those of
    the same cells.
    """
    measured = directory(args).resolve()
    if measured != REFERENCE:
        _replace(REFERENCE, measured)
    _write(PAGE, with_tables(PAGE.read_text(encoding="utf-8"), section(REFERENCE)))
    records = store.read(REFERENCE).records
    for name, draw in FIGURES.items():
        if svg := draw(records):
            _write(FOLDER / f"{name}.svg", svg)
    return 0


def _write(path: Path, content: str) -> None:
    with naming(path):
        path.write_text(content, encoding="utf-8")
    say(f"written from the reference records: {path}")


def _replace(reference: Path, measured: Path) -> None:
    """Put the last records of a directory of results in place of those of the same cells, with their sessions."""
    new = latest(store.read(measured).records)
    cells = {record.cell for record in new}
    kept = [*(record for record in store.read(reference).records if record.cell not in cells), *new]
    headers = store.sessions(reference) | store.sessions(measured)
    for name in (store.RECORDS, store.SESSIONS):
        (reference / name).unlink(missing_ok=True)
    with store.writing(reference) as writer:
        writer.add(kept)
        for session in _sessions(kept):
            writer.add_session(_without_paths(_header(headers, session)))


def _header(headers: Headers, session: str) -> Header:
    if session not in headers:
        remedy = f"restore {store.SESSIONS} beside the records, or measure again"
        raise DeltamarkError("no header of the session of a record", session, remedy)
    return headers[session]


def _without_paths(header: Header) -> Header:
    """Remove the directories of data and results from a session's command, which do not matter to its numbers."""
    words = shlex.split(header["argv"])
    values = {at + 1 for at, word in enumerate(words) if word in ("--data", "--results")}
    kept = [
        word
        for at, word in enumerate(words)
        if at not in values and not re.match(r"(--data|--results|DATA|RESULTS)(=|$)", word)
    ]
    return {**header, "argv": shlex.join(kept)}


def _sessions(of_records: Iterable[Record]) -> list[str]:
    return list(dict.fromkeys(record.session for record in of_records))


def section(reference: Path) -> str:
    """Return the text between the markers."""
    stored = of_queries(store.read(reference).records)
    headers = store.sessions(reference)
    parts: list[str] = []
    for sf in sorted({record.sf for record in stored}):
        shown = [table for table in tables(of_queries(stored, sf), sf) if table.name in UNFOLDED]
        parts += [f"Scale factor {sf}:\n", *map(markdown, shown)]
    parts += [f"{session_header(_header(headers, session))}\n" for session in _sessions(stored)]
    return "\n".join(parts)


def with_tables(page: str, tables_text: str) -> str:
    """Replace the text between the markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise DeltamarkError("no place for tables", f"{PAGE}: {BEGIN.strip()} ... {END.strip()}", "restore it")
    return f"{before}{begin}\n{tables_text}\n{end}{after}"
