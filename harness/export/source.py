"""The input and the output of an export format, and the selection of the records that have numbers.

A record without numbers, of a cell that failed, was wrong or took too long, never becomes a number of an export.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from deltamark.harness.results.record import MEASURING, QueryRecord, latest
from deltamark.harness.results.session import Facts


@dataclass(frozen=True)
class ExportSource:
    """All records of a machine, in the order of measurement, and the facts behind them."""

    records: list[QueryRecord]
    machine: str
    """The name of the machine's directory."""
    facts: Facts | None
    """The machine as its last session describes it."""
    repository: Path
    """The git repository whose commits the records name."""


@dataclass(frozen=True)
class Encoded:
    """An export in memory. `left_out` counts the records without a place in it, by reason."""

    content: bytes | Mapping[str, bytes]
    """The content of a file, or of the files of a directory by their relative paths."""
    cells: int
    left_out: Mapping[str, int]


@dataclass(frozen=True)
class ExportFormat:
    """A format, and the default name of its file or directory beside the records."""

    target: str
    encode: Callable[[ExportSource], Encoded]


def last_of_cells(records: Iterable[QueryRecord]) -> tuple[list[QueryRecord], Counter[str]]:
    """Return the last record of each cell, sorted by cell, and count those that were left out by reason.

    If the last measurement of a cell failed, an earlier number does not stand in for it.
    """
    return with_numbers(latest(records).values())


def with_numbers(records: Iterable[QueryRecord]) -> tuple[list[QueryRecord], Counter[str]]:
    """Return the records with numbers, sorted by cell, and count the others by reason."""
    kept, left_out = [], Counter[str]()
    for record in records:
        if reason := _reason(record):
            left_out[reason] += 1
        else:
            kept.append(record)
    return sorted(kept, key=lambda record: record.cell), left_out


def _reason(record: QueryRecord) -> str:
    if record.status == "ok" and record.measuring != MEASURING:
        return "measured in another way"
    return "" if record.has_numbers else record.status if record.status != "ok" else "not timed"


def json_bytes(value: object) -> bytes:
    """Encode a value as indented JSON. Numbers keep all of their digits."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
