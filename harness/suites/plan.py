"""The plan of a run: the cells of a suite, the records that make some of them done, and estimates of the rest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from msgspec.structs import replace

from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.engines.external.named import is_program
from deltamark.harness.engines.registry import external_info
from deltamark.harness.results.record import Origin, Record, blank_record


@dataclass(frozen=True)
class Effort:
    """The number of timed runs of a cell, and the limit in seconds: per run (throughput) or per cell (other goals)."""

    runs: int
    limit: float

    def is_met_by(self, record: Record) -> bool:
        if record.status == "timeout":
            return record.limit >= self.limit
        if record.status == "refused":
            return True
        return record.status == "ok" and record.requested_runs >= self.runs


@dataclass(frozen=True)
class Estimate:
    """The estimated seconds of some cells, and the number of cells without an estimate, because no similar cell was
    measured.
    """

    seconds: float
    unmeasured: int
    estimated: int


@dataclass(frozen=True)
class Plan:
    cells: Sequence[Cell]
    known: Sequence[Record]
    """The stored records of the suite, of any data and code."""
    origin: Origin
    effort: Effort
    program_origin: Origin | None = None
    """The origin of the cells of programs that a user provides, if they have a repository of their own."""

    @cached_property
    def done(self) -> dict[str, Record]:
        """The last record of each key, if it took enough effort."""
        last = {record.key: record for record in self.known}
        return {key: record for key, record in last.items() if self.effort.is_met_by(record)}

    @cached_property
    def remaining(self) -> list[Cell]:
        return [cell for cell in self.cells if self.blank(cell).key not in self.done]

    def blank(self, cell: Cell) -> Record:
        return replace(self._blank(cell), requested_runs=self.effort.runs, limit=self.effort.limit)

    def _blank(self, cell: Cell) -> Record:
        own = self.program_origin if is_program(cell.engine) else None
        return blank_record(cell, own or self.origin, external_info(cell.engine))

    def estimate(self, cells: Iterable[Cell], measured: Sequence[Record] = ()) -> Estimate:
        """Estimate the time of cells: their last time, else the mean of similar cells, else the default of the suite,
        else the mean of this run.

        measured: a record of each cell of this run, which are not among the known ones.
        """
        durations = _Durations([*self.known, *measured])
        mean = math.fsum(record.elapsed for record in measured) / len(measured) if measured else None
        guesses = [durations.guess(self._blank(cell)) for cell in cells]
        known = [guess for guess in (mean if guess is None else guess for guess in guesses) if guess is not None]
        return Estimate(sum(known), len(guesses) - len(known), len(known))


class _Durations:
    """The durations of measured cells, alone and by groups of similar cells."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._cells: dict[str, float] = {}
        self._groups: dict[tuple[str, ...], list[float]] = {}
        for record in records:
            self._cells[record.cell] = record.elapsed
            for group in record.estimate_groups:
                self._groups.setdefault(group, []).append(record.elapsed)

    def guess(self, record: Record) -> float | None:
        if record.cell in self._cells:
            return self._cells[record.cell]
        for group in record.estimate_groups:
            if durations := self._groups.get(group):
                return math.fsum(durations) / len(durations)
        return record.default_estimate
