"""The trial of `make bench`: each planned cell has exactly one record, with a verified answer."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from deltamark.errors import DeltamarkError
from deltamark.harness.chaos.running import CommandRun, Invocation
from deltamark.harness.results import store
from deltamark.harness.results.record import Record
from deltamark.harness.system.machine import ROOT

CELLS = ("PHYSICAL=100,1000", "WORKERS=1,2", "ENGINES=embedded,duckdb", "SAMPLE=5", "RUNS=1")
FILES = {store.RECORDS, store.SESSIONS, store.LOCK}

TimelessFacts = tuple[str, str, int, int]


class BenchTrial:
    """settings: those that name the data and the queries."""

    def __init__(self, settings: Sequence[str], data: Path, scratch: Path, cells: Sequence[str] = CELLS) -> None:
        self._settings = (*settings, f"DATA={data.resolve()}", *cells)
        self._results, self._temporary = scratch / "results", scratch / "temporary"
        self._expected: dict[str, TimelessFacts] = {}

    @property
    def command(self) -> Invocation:
        words = [sys.executable, "-m", "harness", "bench", *self._settings, f"RESULTS={self._results}"]
        return Invocation(words, ROOT, self._temporary)

    def prepare(self) -> None:
        for directory in (self._results, self._temporary):
            shutil.rmtree(directory, ignore_errors=True)
        self._temporary.mkdir(parents=True)

    def keep_result(self) -> None:
        self._expected = {record.key: _timeless(record) for record in self._records()}

    def _records(self) -> list[Record]:
        return list(store.read(self._machine).records)

    @property
    def _machine(self) -> Path:
        return next(self._results.iterdir())

    def violations(self, struck: CommandRun) -> Iterator[str]:
        try:
            records = self._records()
            store.sessions(self._machine)
        except (DeltamarkError, ValueError) as error:
            yield f"unreadable: {error}"
            return
        yield from self._wrong_records([record for record in records if record.status == "ok"])
        for record in records:
            # a killed child leaves a record of a failed cell, and the next run measures the cell again
            if record.status != "ok" and not (record.status == "failed" and "child" in struck.target):
                yield f"{record.cell} has a record that is {record.status}: {record.problem}"
        for path in self._results.rglob("*"):
            if not path.is_dir() and path.name not in FILES:
                yield f"{path.relative_to(self._results)} was left"

    def _wrong_records(self, records: list[Record]) -> Iterator[str]:
        """Compare the records of successful cells with those of an undisturbed run."""
        counts = Counter(record.key for record in records)
        yield from (f"the cell {key} is missing" for key in self._expected if key not in counts)
        for record in records:
            if record.key not in self._expected:
                yield f"{record.cell} was not planned"
            elif counts[record.key] != 1:
                yield f"{record.cell} has {counts[record.key]} records"
            elif not record.verified:
                yield f"{record.cell} is not verified"
            elif _timeless(record) != self._expected[record.key]:
                yield f"{record.cell} has {_timeless(record)}, not {self._expected[record.key]}"


def _timeless(record: Record) -> TimelessFacts:
    """Return the facts that do not depend on the speed of the machine."""
    return record.cell, record.digest, record.tuples, record.changes
