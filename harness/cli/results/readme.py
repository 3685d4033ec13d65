"""The command that writes the published page of results."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

from deltamark.errors import DeltamarkError, naming
from deltamark.harness.benchmarks.cell import THROUGHPUT
from deltamark.harness.cli.commands import command
from deltamark.harness.cli.options import add_sf
from deltamark.harness.cli.results.tables import add_machine, directory, records
from deltamark.harness.cli.sweep_options import add_results, add_suite
from deltamark.harness.console.console import say
from deltamark.harness.console.table import folded, markdown
from deltamark.harness.report.crossover_figure import crossover_figure
from deltamark.harness.results import store
from deltamark.harness.results.record import Record, latest, of_queries
from deltamark.harness.suites.registry import SUITES
from deltamark.harness.suites.reporter import session_header
from deltamark.harness.system import machine
from deltamark.harness.system.machine import Header
from deltamark.harness.tables.tpch import growth, tables

ROOT = machine.ROOT
PAGE, REFERENCE = ROOT / "docs" / "results.md", "reference"
FIGURE = ROOT / "docs" / "figures" / "maintain-or-recompute.svg"
FIGURE_SF = "1"
BEGIN, END = "<!-- tables: made by make readme -->\n", "<!-- end of tables -->\n"
UNFOLDED = ("engines", "physical", "product", "workers")
"""The table of engines, and those of the post."""

Headers = Mapping[str, Header]


def options(parser: argparse.ArgumentParser) -> None:
    add_suite(parser)
    add_sf(parser)
    add_results(parser)
    add_machine(parser)
    parser.set_defaults(sf=Decimal(1), machine=REFERENCE)


@command("readme", options)
def run(args: argparse.Namespace) -> int:
    """Write the tables of the reference records into docs/results.md, and draw the README's figure from them.

    The records lie in results/reference; the tables go between the markers of the page.

    `make readme MACHINE=...` first replaces the reference of one suite by the last records of that directory of
    results.
    """
    reference = args.results / REFERENCE
    if directory(args) != reference:
        _replace_reference(args, reference)
    _write(PAGE, with_tables(PAGE.read_text(encoding="utf-8"), section(reference)))
    if svg := figure(reference):
        _write(FIGURE, svg)
    return 0


def _write(path: Path, content: str) -> None:
    with naming(path):
        path.write_text(content, encoding="utf-8")
    say(f"written from the reference records: {path}")


def _replace_reference(args: argparse.Namespace, reference: Path) -> None:
    """Replace the reference of a suite by the last record of each of its cells, and the headers of their sessions."""
    others = [record for record in store.read(reference).records if record.suite != args.suite]
    kept = [*others, *latest(records(args))]
    headers = store.sessions(reference) | store.sessions(directory(args))
    for name in (store.RECORDS, store.FINDINGS, store.SESSIONS):
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
    stored, headers = store.read(reference).records, store.sessions(reference)
    parts = []
    for suite in SUITES.values():
        of_suite = [record for record in stored if record.suite == suite.NAME]
        if of_suite:
            parts += [f"### {suite.TITLE}\n"] if suite.NAME != THROUGHPUT else []
            parts += [f"{session_header(_header(headers, session))}\n" for session in _sessions(of_suite)]
            parts += _tpch_tables(of_suite) if suite.NAME == THROUGHPUT else map(folded, suite.tables(of_suite))
    return "\n".join(parts)


def _tpch_tables(of_suite: Sequence[Record]) -> list[str]:
    parts = []
    for sf in sorted({record.dataset.removeprefix("SF ") for record in of_suite}):
        parts.append(f"Scale factor {sf}:\n")
        of_sf = tables(of_queries(of_suite, sf), sf)
        parts += [markdown(table) if table.name in UNFOLDED else folded(table) for table in of_sf]
    by_sf = growth(of_suite)
    return [*parts, folded(by_sf)] if by_sf else parts


def figure(reference: Path) -> str:
    """Draw the README's figure; return nothing if the records do not have its numbers."""
    named = {table.name: table for table in tables(of_queries(store.read(reference).records, FIGURE_SF), FIGURE_SF)}
    table = named.get("crossover")
    return crossover_figure(table, FIGURE_SF) if table and table.foot else ""


def with_tables(page: str, tables_text: str) -> str:
    """Replace the text between the markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise DeltamarkError("no place for tables", f"{PAGE}: {BEGIN.strip()} ... {END.strip()}", "restore it")
    return f"{before}{begin}\n{tables_text}\n{end}{after}"
