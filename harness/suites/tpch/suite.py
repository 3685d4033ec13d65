"""The suite of TPC-H: queries, workloads, batchings, workers and engines over one scale factor."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

from deltamark.datagen.dataset import Dataset
from deltamark.harness.benchmarks.benchmark import DEFAULT
from deltamark.harness.console.table import Table
from deltamark.harness.engines.plans import specified_plan
from deltamark.harness.measure.client import MeasurementClient, ServerSpec
from deltamark.harness.measure.windows import rounds_of
from deltamark.harness.results import machine
from deltamark.harness.results.record import TPCH, Record, of_queries
from deltamark.harness.suites.plan import Plan
from deltamark.harness.suites.suite import DataSuite
from deltamark.harness.suites.tpch.checked_measurer import CheckedMeasurer
from deltamark.harness.suites.tpch.grid import GridSettings, SampledCell, grid_cells
from deltamark.harness.tables import tpch

CHECK_BYTES_PER_DATA_BYTE = 4
"""The memory of a check relative to its data; a generous estimate, not measured."""


@dataclass(frozen=True, kw_only=True)
class TpchSuite(GridSettings, DataSuite):
    NAME = TPCH
    TITLE = "TPC-H"
    CODE = "suites.tpch"

    def cells(self) -> Sequence[SampledCell]:
        directory = self._wanted.directory
        rounds = rounds_of(Dataset.open(directory)) if machine.data(directory) else None
        cells = grid_cells(self, machine.data(directory), rounds)
        files = {each.cell.query: each.cell for each in cells if each.cell.query not in self.home.queries}
        for each in files.values() if self.home.source.specification(self.sf, "insert") else ():
            specified_plan(each)  # a mistake in a file is one error, before any data is made
        return cells

    def headline(self, plan: Plan) -> str:
        """Describe the cells, such as `484 cells = 22 queries x 22 batchings`."""
        cells = [cell.cell for cell in plan.cells if isinstance(cell, SampledCell)]
        queries = len({cell.query for cell in cells})
        batchings = len({(c.workload, c.engine, c.logical, c.physical, c.workers) for c in cells})
        exactly = "=" if queries * batchings == len(cells) else "of"
        return f"{len(cells)} cells {exactly} {queries} queries x {batchings} batchings"

    @contextmanager
    def measurer(self, plan: Plan) -> Iterator[CheckedMeasurer]:
        dataset = Dataset.open(self._wanted.directory)
        with closing(MeasurementClient(ServerSpec(dataset.directory))) as service:
            measurer = CheckedMeasurer(plan, dataset, service, _has_room_for_two_checks(dataset))
            service.warm(self.benchmark)
            yield measurer

    @classmethod
    def tables(cls, records: Iterable[Record]) -> list[Table]:
        return [table for sf, found in _by_dataset(records) for table in tpch.tables(found, sf)]

    @classmethod
    def summary(cls, records: Iterable[Record]) -> list[Table]:
        return [tpch.summary(found, sf) for sf, found in _by_dataset(records)]

    @property
    def selection(self) -> str:
        named = "" if self.benchmark == DEFAULT else f"BENCHMARK={shlex.quote(self.benchmark)} "
        return f"{named}SF={self.home.source.scale(self.sf)}"


def _by_dataset(records: Iterable[Record]) -> Iterator[tuple[str, list[Record]]]:
    records = [record for record in records if record.suite == TPCH]
    for benchmark, sf in sorted({(record.benchmark, record.sf) for record in records}):
        yield sf, of_queries(records, sf, benchmark)


def _has_room_for_two_checks(dataset: Dataset) -> bool:
    facts, size = machine.facts(), sum(chunk.bytes for chunk in dataset.manifest.files)
    return facts["usable"] > 1 and 2 * CHECK_BYTES_PER_DATA_BYTE * size < 1e9 * facts["memory_gb"]
