"""The records of a machine as a table: a row for each cell, a column for each field.

Times are in seconds and sizes in bytes, and the names of the columns say so. Lists with an entry per timed run become
the entry of the fastest run; the trace of single batches is left out. An unknown number is null, not 0.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from deltamark.harness.export.source import ExportSource, last_of_cells
from deltamark.harness.measure.stats import median
from deltamark.harness.results.plausibility import doubt_of
from deltamark.harness.results.record import SPREAD, EngineInfo, QueryRecord

TEXT, BOOL, COUNT, NUMBER = pa.string(), pa.bool_(), pa.int64(), pa.float64()


def _latency(name: str) -> Callable[[QueryRecord], float]:
    return lambda record: record.latency[name]


COLUMNS: dict[str, tuple[pa.DataType, Callable[[QueryRecord], object]]] = {
    "suite": (TEXT, lambda record: record.suite),
    "cell": (TEXT, lambda record: record.cell),
    "query": (TEXT, lambda record: record.query),
    "variant": (TEXT, lambda record: record.variant),
    "is_default": (BOOL, lambda record: record.is_default),
    "sf": (NUMBER, lambda record: float(record.sf)),
    "workload": (TEXT, lambda record: record.workload),
    "engine": (TEXT, lambda record: record.engine),
    "engine_version": (TEXT, lambda record: _external(record, lambda info: info.name)),
    "engine_digest": (TEXT, lambda record: _external(record, lambda info: info.digest)),
    "engine_output": (TEXT, lambda record: _external(record, lambda info: info.output)),
    "recomputed": (BOOL, lambda record: record.recomputed),
    "logical": (COUNT, lambda record: record.logical),
    "physical": (COUNT, lambda record: record.physical),
    "workers": (COUNT, lambda record: record.workers),
    "sample": (COUNT, lambda record: record.sample),
    "fully_timed": (BOOL, lambda record: record.fully_timed),
    "requested_runs": (COUNT, lambda record: record.requested_runs),
    "runs": (COUNT, lambda record: len(record.seconds)),
    "seconds": (NUMBER, lambda record: record.best),
    "seconds_median": (NUMBER, lambda record: median(record.seconds)),
    "seconds_max": (NUMBER, lambda record: max(record.seconds)),
    "cpu_seconds": (NUMBER, lambda record: record.of_fastest(record.cpu)),
    "cut_seconds": (NUMBER, lambda record: record.of_fastest(record.cut)),
    "outside_seconds": (NUMBER, lambda record: record.of_fastest(record.outside)),
    "untimed_seconds": (NUMBER, lambda record: record.of_fastest(record.untimed)),
    "timed_cpu_seconds": (NUMBER, lambda record: record.of_fastest(record.timed_cpu)),
    "untimed_cpu_seconds": (NUMBER, lambda record: record.of_fastest(record.untimed_cpu)),
    "doubt": (TEXT, doubt_of),
    "tuples": (COUNT, lambda record: record.tuples),
    "changes": (COUNT, lambda record: record.changes),
    "batches": (COUNT, lambda record: record.batches),
    "tuples_per_second": (NUMBER, lambda record: record.rate),
    **{f"latency_{name}_seconds": (NUMBER, _latency(name)) for name in SPREAD},
    "state_rows": (COUNT, lambda record: record.state_rows or None),
    "state_bytes": (COUNT, lambda record: record.state_bytes or None),
    "peak_bytes": (COUNT, lambda record: record.peak_bytes or None),
    "oracle_seconds": (NUMBER, lambda record: record.oracle_seconds or None),
    "control_seconds": (NUMBER, lambda record: record.control or None),
    "elapsed_seconds": (NUMBER, lambda record: record.elapsed or None),
    "limit_seconds": (NUMBER, lambda record: record.limit or None),
    "verified": (TEXT, lambda record: record.verified),
    "digest": (TEXT, lambda record: record.digest),
    "data": (TEXT, lambda record: record.data),
    "code": (TEXT, lambda record: record.code),
    "versions": (TEXT, lambda record: record.versions),
    "commit": (TEXT, lambda record: record.commit),
    "repository": (TEXT, lambda record: record.repository),
    "session": (TEXT, lambda record: record.session),
    "finished_at": (TEXT, lambda record: record.finished_at),
    "measuring": (COUNT, lambda record: record.measuring),
    "key": (TEXT, lambda record: record.key),
}
"""The type of each column, and the function that returns its value."""


def flat_table(source: ExportSource) -> tuple[pa.Table, dict[str, int]]:
    """Return the table, sorted by cell, and the numbers of records that were left out by reason."""
    records, left_out = last_of_cells(source.records)
    arrays = [pa.array([value(record) for record in records], kind) for kind, value in COLUMNS.values()]
    return pa.table(arrays, names=list(COLUMNS)), left_out


def _external(record: QueryRecord, value: Callable[[EngineInfo], str]) -> str | None:
    return value(record.external) if record.external else None
