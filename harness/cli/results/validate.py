"""The command that validates contributed records."""

from __future__ import annotations

import argparse
import re
import shlex
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom

from deltamark.datagen.schema import scale_factor
from deltamark.errors import DeltamarkError, naming
from deltamark.harness.cli.commands import call, command
from deltamark.harness.cli.options import whole
from deltamark.harness.cli.sweep_options import RESULTS
from deltamark.harness.console.console import say, warn
from deltamark.harness.console.table import NOTHING, Entries, Table, counted, markdown, rate, ratio, words
from deltamark.harness.engines.peers import PEERS, peer
from deltamark.harness.engines.registry import every_engine
from deltamark.harness.report.cells import command as bench_command
from deltamark.harness.report.cells import title
from deltamark.harness.results import store
from deltamark.harness.results.commits import known_commits, tracked
from deltamark.harness.results.contribution import directories, facts, faults, read
from deltamark.harness.results.record import Record, latest
from deltamark.harness.system import machine
from deltamark.harness.system.machine import ROOT

MAX_CELLS, MAX_SHOWN = 100, 20
"""The cells that are measured again, and the faults of a directory that are shown, at most."""


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text = "directory with records.jsonl and sessions.jsonl, or one with such directories"
    add("--records", type=Path, default=RESULTS / store.CONTRIBUTED, metavar="DIR", help=text)
    text = "directory with the earlier state of such directories, whose records are not validated again (default: none)"
    add("--before", type=Path, metavar="DIR", help=text)
    add("--cells", type=whole(0, MAX_CELLS), default=3, metavar="N", help="random cells that are measured again")
    text = "largest scale factor of these cells"
    add("--largest", type=scale_factor, default=scale_factor("1"), metavar="SF", help=text)
    add("--data", type=Path, default=Path("data"), metavar="DIR", help="directory of the data")
    add("--output", type=Path, metavar="FILE", help="file for the summary in Markdown")


@command("validate", options)
def run(args: argparse.Namespace) -> int:
    """Validate records that are contributed, and measure random cells again.

    The records are compared with the committed ones: their form, names, keys, data, change streams and commits. Cells
    of engines that are set up here are measured with the code of this tree; the ratio is that of two machines. Exit
    code 2: a record is not valid.

    Example: make validate RECORDS=results/contributed/NAME
    """
    places = directories(args.records)
    if not (places or args.before):
        raise DeltamarkError("no records", args.records, f"give a directory with {store.RECORDS}")
    committed = _committed()
    found = [_contribution(directory, args.before, committed) for directory in places]
    records = [record for each in found if not each.faults for record in each.records]
    again = _measured_again(records, args)
    wrong = [f"{title(record)}: another change stream than here" for record, here in again if _differs(record, here)]
    summary = "\n".join(["### deltamark: contributed records\n", *map(_lines, found), *_table(again), *wrong])
    say(summary)
    if args.output:
        with naming(args.output):
            args.output.parent.mkdir(parents=True, exist_ok=True)
            args.output.write_text(f"{summary}\n", encoding="utf-8")
    return 2 if wrong or any(each.faults for each in found) else 0


@dataclass(frozen=True)
class Contribution:
    """The new records of a directory. gone: the number of earlier records that it no longer has."""

    name: str
    records: Sequence[Record]
    gone: int
    faults: Sequence[str]


def _contribution(directory: Path, before: Path | None, committed: Sequence[Record]) -> Contribution:
    """Read and check the records of a directory, whose name becomes a part of commands."""
    if not re.fullmatch(r"[\w.-]+", directory.name, re.ASCII):
        return Contribution(directory.name, (), 0, ["not a name of a machine: use letters, digits, points and dashes"])
    try:
        lines = read(directory / store.RECORDS)
        sessions = store.read_sessions(read(directory / store.SESSIONS), directory / store.SESSIONS)
        old = _lines_before(directory.name, before)
        new = [(number, line) for number, line in enumerate(lines, 1) if line not in old]
        stored = store.read_lines([line for _, line in new], directory / store.RECORDS)
    except DeltamarkError as error:
        return Contribution(directory.name, (), 0, [str(error)])
    if stored.foreign:
        return Contribution(directory.name, (), 0, [f"{counted(stored.foreign, 'record')} of another version"])
    known = facts(committed, known_commits(ROOT, {record.commit for record in stored.records}), time.time())
    found = [
        f"line {number}: {fault}"
        for (number, _), record in zip(new, stored.records, strict=True)
        for fault in faults(record, sessions, known)
    ]
    return Contribution(directory.name, stored.records, len(old.difference(lines)), found)


def _lines_before(name: str, directory: Path | None) -> set[bytes]:
    """Return the lines that the records of a contribution had before; none if it is new."""
    path = directory / name / store.RECORDS if directory else None
    return set(read(path)) if path and path.exists() else set()


def _committed() -> list[Record]:
    """Read the records that this project publishes."""
    files = tracked(ROOT, f":(glob)results/*/{store.RECORDS}")
    return [record for file in files for record in store.read((ROOT / file).parent).records]


Again = Sequence[tuple[Record, Record | None]]
"""Records, each with that of the same cell on this machine."""


def _measured_again(records: Sequence[Record], args: argparse.Namespace) -> Again:
    """Measure random cells again. The choice cannot be foreseen."""
    engines = {name for name in every_engine() if name not in PEERS or peer(name).is_current}
    right = [record for record in latest(records) if record.engine in engines and record.has_numbers]
    able = [record for record in right if scale_factor(record.sf) <= args.largest]
    chosen = SystemRandom().sample(able, min(args.cells, len(able)))
    with tempfile.TemporaryDirectory() as results:
        for record in chosen:
            *settings, _ = shlex.split(bench_command(record))[1:]  # the last one is RESULTS
            try:
                call([*settings, f"RESULTS={results}", f"DATA={args.data}"])
            except DeltamarkError as error:
                warn(f"{title(record)}: {error}")
        here = store.read(Path(results) / machine.name(machine.facts())).records
    measured = {record.cell: record for record in here}
    return [(record, measured.get(record.cell)) for record in chosen]


def _differs(record: Record, here: Record | None) -> bool:
    return bool(here and here.has_numbers and record.digest and here.digest and record.digest != here.digest)


def _lines(of: Contribution) -> str:
    """Summarize a directory in Markdown. The texts of records are not in it, but errors may quote some."""
    gone = f", {counted(of.gone, 'record')} withdrawn or changed" if of.gone else ""
    verdict = f"{counted(len(of.faults), 'fault')}" if of.faults else "valid"
    more = len(of.faults) - MAX_SHOWN
    shown = [*of.faults[:MAX_SHOWN], *([f"and {more} more"] if more > 0 else [])]
    head = f"{_quoted(of.name)}: {counted(len(of.records), 'new record')}{gone}: **{verdict}**"
    return "- " + "\n  - ".join([head, *map(_quoted, shown)])


def _quoted(text: str) -> str:
    """Write a text as code of Markdown, on one line."""
    return f"`{' '.join(text.replace('`', chr(39)).split())}`"


def _table(again: Again) -> list[str]:
    """Show the rates of the cells on both machines."""
    rows = [[words(title(record)), rate(record.rate), *_here(record, here)] for record, here in again]
    notes = ["ratio: the rate here, with the code of this tree, to that of the record"]
    table = Table("again", "Measured again", ["cell", "record", "here", "ratio"], rows, notes)
    return [f"\n{markdown(table)}"] if rows else ["\nNo cell was measured again."]


def _here(record: Record, here: Record | None) -> Entries:
    """Return the rate of a cell on this machine and its ratio to that of a record, or the word for its outcome."""
    if here is None or not here.has_numbers:
        return [words(here.status if here else "-"), NOTHING]
    return [rate(here.rate), ratio(here.rate / record.rate)]
