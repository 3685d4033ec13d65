"""The format of the tool `customSmallerIsBetter` of github-action-benchmark: a list of entries, one for each chart.

https://github.com/benchmark-action/github-action-benchmark#examples describes it. `range` is free text there.
"""

from __future__ import annotations

from deltamark.harness.export.metrics import Metric, metrics
from deltamark.harness.export.source import Encoded, ExportFormat, ExportSource, json_bytes, last_of_cells
from deltamark.harness.results.record import QueryRecord


def _encode(source: ExportSource) -> Encoded:
    records, left_out = last_of_cells(source.records)
    entries = [_entry(record, metric) for record in records for metric in metrics(record)]
    return Encoded(json_bytes(entries), len(records), left_out)


def _entry(record: QueryRecord, metric: Metric) -> dict[str, str | float]:
    entry: dict[str, str | float] = {
        "name": f"{record.cell} {metric.name}", "unit": metric.unit, "value": metric.value,
    }  # fmt: skip
    if metric.runs:
        entry["range"] = f"{min(metric.runs)} to {max(metric.runs)}"
    return {**entry, "extra": _extra(record)}


def _extra(record: QueryRecord) -> str:
    lines = [
        f"fastest of {len(record.seconds)} runs", f"{record.tuples} tuples in {record.batches} batches",
        f"verified by {record.verified or 'nothing'}", f"commit {record.commit or 'unknown'}",
    ]  # fmt: skip
    return "\n".join(lines)


GITHUB_ACTION_BENCHMARK = ExportFormat("github-action-benchmark.json", _encode)
