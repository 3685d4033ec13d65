"""The command that writes the site: the page of the field, the reports that it links to, and the history."""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from deltamark.errors import DeltamarkError, naming
from deltamark.harness.cli.commands import command
from deltamark.harness.cli.results.tables import warn_of_foreign
from deltamark.harness.cli.sweep_options import add_results
from deltamark.harness.compare.trees import resolve
from deltamark.harness.console.console import say
from deltamark.harness.report.page import ReportData, page
from deltamark.harness.report.sections.history import history_page
from deltamark.harness.report.site import Site, first_page
from deltamark.harness.results import store
from deltamark.harness.results.commits import KnownCommit, known_commits
from deltamark.harness.results.record import PROJECT, of_queries, of_suites
from deltamark.harness.system.machine import ROOT
from deltamark.harness.tables.field import Field, MachineRecords
from deltamark.harness.tables.history import commit_history, relation

FOLDER, FILE, HISTORY, MANUAL = "site", "index.html", "history.html", "manual"


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_results(parser)
    add("--branch", default="", metavar="NAME", help="branch of git whose records the site has, too")
    text = "address of the sources that the page links to (default: the path from the site to this tree)"
    add("--source", default="", metavar="URL", help=text)
    add("--output", type=Path, metavar="DIR", help=f"directory of the site (default: {FOLDER} in RESULTS)")


@command("site", options)
def run(args: argparse.Namespace) -> int:
    """Write the site: one page with all engines, the reports with the records of its numbers, and the history.

    The page begins with the engines whose answers are right. It is made of the records of all machines in RESULTS, and
    compares numbers of one machine alone. It links to the manual if `make docs` has written it there. The files load
    nothing from the network.
    """
    output: Path = args.output or args.results / FOLDER
    with _extracted(args.branch) as extracted:
        machines = [*_machines(args.results), *_machines(extracted)]
    field = Field(machines)
    if not field.parts:
        raise DeltamarkError("no records of queries", args.results, "make bench writes some")
    known = known_commits(ROOT, {record.commit for each in machines for record in each.records})
    with naming(output):
        output.mkdir(parents=True, exist_ok=True)
    for each in machines:
        _write_reports(field, each, known, output)
    history = _history(machines, known)
    if history:
        _write(output / HISTORY, history)
    source = args.source or os.path.relpath(ROOT, output)
    manual = MANUAL if (output / MANUAL / FILE).exists() else ""
    _write(output / FILE, first_page(Site(field, source, HISTORY if history else "", manual)))
    return 0


@contextmanager
def _extracted(branch: str) -> Iterator[Path | None]:
    """Extract the files of a branch to a temporary directory; None without one."""
    if not branch:
        yield None
        return
    words = ["git", "archive", resolve(ROOT, branch)]
    archive = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    with tempfile.TemporaryDirectory() as directory, tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(directory, filter="data")
        yield Path(directory)


def _machines(directory: Path | None) -> Iterator[MachineRecords]:
    """Read the records of all machines in a directory, and then those that others have contributed."""
    folders = [directory, directory / store.CONTRIBUTED] if directory else []
    for file in [file for folder in folders for file in sorted(folder.glob(f"*/{store.RECORDS}"))]:
        stored = store.read(file.parent)
        warn_of_foreign(stored, file.parent)
        name = file.parent.relative_to(folders[0]).as_posix()
        yield MachineRecords(name, stored.records, store.sessions(file.parent))


def _write_reports(field: Field, of: MachineRecords, known: dict[str, KnownCommit], output: Path) -> None:
    """Write a report for each benchmark and scale factor of a machine."""
    parts = {part.report: part for part in field.parts if part.directory == of.name}
    for file, part in parts.items():
        records, others = of_queries(of.records, part.sf, part.benchmark), of_suites(of.records, part.benchmark)
        _write(output / file, page(ReportData(records, of.sessions, of.name, part.sf, others, known)))


def _history(machines: Sequence[MachineRecords], known: dict[str, KnownCommit]) -> str:
    """Return the page of the history of this project; empty if no record has a commit."""
    db = relation([(of_queries(each.records), each.sessions) for each in machines])
    where = f"repository = '{PROJECT}'"
    ((number,),) = db.rows(f"SELECT count(*) FROM comparable WHERE {where}")
    return history_page(commit_history(db, known, where)) if number else ""


def _write(path: Path, html: str) -> None:
    with naming(path):
        path.write_text(html, encoding="utf-8")
    say(f"{path}: {len(html.encode()) / 1e6:.1f} MB")
