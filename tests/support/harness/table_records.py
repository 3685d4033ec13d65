"""Records for tests of tables, and the texts of a table's rows."""

from __future__ import annotations

from support.harness.records import changed

from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.results.record import Origin, blank_record

ORIGIN = Origin("code", "versions")
OF_CELLS = ("workers", "engine", "workload", "variant", "benchmark")


def record(name, logical, physical, took=0.5, **changes):
    cell = {key: changes.pop(key) for key in OF_CELLS if key in changes}
    made = blank_record(Cell(name, "1", logical=logical, physical=physical, data="data", **cell), ORIGIN)
    latency = dict.fromkeys(("p50", "p95", "p99", "max"), took)
    return changed(made, **{"seconds": [took], "tuples": 6_000_000, "batches": 60, "latency": latency, **changes})


def texts(row):
    return [entry.text for entry in row]
