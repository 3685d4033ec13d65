"""The metrics of a record that the exports for other benchmark tools contain: the same numbers for each tool.

The time is that of the fastest run, as in the tables of this project: other programs on the machine can only add to a
time. The least and the most are the fastest and the slowest of the timed runs, not a confidence interval.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from deltamark.harness.results.record import QueryRecord

Unit = Literal["seconds", "bytes"]


@dataclass(frozen=True)
class Metric:
    """A number of a record. `runs` has a value per timed run, or none if only one number was taken."""

    name: str
    unit: Unit
    value: float
    runs: tuple[float, ...] = ()


def metrics(record: QueryRecord) -> Iterator[Metric]:
    """Return the metrics of a record with numbers. An engine that does not report its memory has fewer."""
    yield Metric("seconds", "seconds", record.best, tuple(record.seconds))
    yield Metric("latency-p99-seconds", "seconds", record.latency["p99"])
    if record.state_bytes:
        yield Metric("state-bytes", "bytes", record.state_bytes)
    if record.peak_bytes:
        yield Metric("peak-bytes", "bytes", record.peak_bytes)
