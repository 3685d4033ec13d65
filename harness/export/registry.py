"""The export formats by name."""

from __future__ import annotations

from collections.abc import Mapping

from deltamark.harness.export.asv import ASV
from deltamark.harness.export.bencher import BENCHER
from deltamark.harness.export.csv_file import CSV
from deltamark.harness.export.github_action_benchmark import GITHUB_ACTION_BENCHMARK
from deltamark.harness.export.parquet_file import PARQUET
from deltamark.harness.export.source import ExportFormat

EXPORTS: Mapping[str, ExportFormat] = {
    "github-action-benchmark": GITHUB_ACTION_BENCHMARK,
    "bencher": BENCHER,
    "asv": ASV,
    "csv": CSV,
    "parquet": PARQUET,
}
