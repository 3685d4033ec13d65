"""The trial of `make bench`: each planned cell has one record with a verified answer, and none is lost or doubled."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from deltamark.errors import DeltamarkError
from deltamark.harness.chaos.running import Command, Ran
from deltamark.harness.results import store
from deltamark.harness.results.machine import ROOT
from deltamark.harness.results.record import QueryRecord, of_queries

CELLS = ("QUERIES=q06,q15", "PHYSICAL=100,1000", "WORKERS=1,2", "ENGINES=embedded,duckdb", "SAMPLE=5", "RUNS=1")
FILES = {store.RECORDS, store.SESSIONS, store.LOCK}


class BenchTrial:
    def __init__(self, sf: str, data: Path, scratch: Path, cells: Sequence[str] = CELLS) -> None:
        self._sf, self._data, self._cells = sf, data, cells
        self._results, self._temporary = scratch / "results", scratch / "temporary"
        self._wanted: dict[str, Any] = {}

    @property
    def command(self) -> Command:
        where = [f"SF={self._sf}", f"DATA={self._data.resolve()}", f"RESULTS={self._results}"]
        return Command([sys.executable, "-m", "harness", "bench", *where, *self._cells], ROOT, self._temporary)

    def begin(self) -> None:
        for each in (self._results, self._temporary):
            shutil.rmtree(each, ignore_errors=True)
        self._temporary.mkdir(parents=True)

    def learn(self) -> None:
        self._wanted = {each.key: _lasting(each) for each in self._records()}

    def _records(self) -> list[QueryRecord]:
        return of_queries(store.read(self._machine).records, self._sf)

    @property
    def _machine(self) -> Path:
        return next(self._results.iterdir())

    def wrong(self, struck: Ran, _again: Ran) -> Iterator[str]:
        try:
            records = self._records()
            store.sessions(self._machine)
        except (DeltamarkError, ValueError) as error:
            yield f"unreadable: {error}"
            return
        yield from self._miscounted([each for each in records if each.status == "ok"])
        for each in records:
            # a killed child leaves a record of a failed cell, and the next run measures the cell again
            if each.status != "ok" and not (each.status == "failed" and "child" in struck.hit):
                yield f"{each.cell} has a record that is {each.status}: {each.problem}"
        for path in self._results.rglob("*"):
            if not path.is_dir() and path.name not in FILES:
                yield f"{path.relative_to(self._results)} was left"

    def _miscounted(self, records: list[QueryRecord]) -> Iterator[str]:
        """Compare the good records with those of an unharmed run."""
        times = Counter(each.key for each in records)
        yield from (f"the cell {key} is missing" for key in self._wanted if key not in times)
        for each in records:
            if each.key not in self._wanted:
                yield f"{each.cell} was not planned"
            elif times[each.key] != 1:
                yield f"{each.cell} has {times[each.key]} records"
            elif not each.verified:
                yield f"{each.cell} is not verified"
            elif _lasting(each) != self._wanted[each.key]:
                yield f"{each.cell} says {_lasting(each)}, not {self._wanted[each.key]}"


def _lasting(record: QueryRecord) -> tuple[str, str, int, int]:
    """Return what a record says that does not depend on how fast a machine is."""
    return record.cell, record.digest, record.tuples, record.changes
