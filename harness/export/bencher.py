"""The Bencher Metric Format: an object of benchmarks, each an object of measures.

https://bencher.dev/docs/reference/bencher-metric-format describes it. The built-in measures of Bencher have other units
(`latency` is in nanoseconds), so the measures here are of our own, and their names end in the unit.
"""

from __future__ import annotations

from deltamark.harness.export.metrics import Metric, metrics
from deltamark.harness.export.source import Encoded, ExportFormat, ExportSource, json_bytes, last_of_cells


def _encode(source: ExportSource) -> Encoded:
    records, left_out = last_of_cells(source.records)
    benchmarks = {record.cell: {metric.name: _metric(metric) for metric in metrics(record)} for record in records}
    return Encoded(json_bytes(benchmarks), len(records), left_out)


def _metric(metric: Metric) -> dict[str, float]:
    if not metric.runs:
        return {"value": metric.value}
    return {"value": metric.value, "lower_value": min(metric.runs), "upper_value": max(metric.runs)}


BENCHER = ExportFormat("bencher.json", _encode)
