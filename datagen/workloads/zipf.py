"""The workload zipf:Z: the rounds of `insert` over skewed data, in which keys follow Zipf's law with exponent Z."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.schema import Relations
from deltamark.datagen.tpch import RELATIONS
from deltamark.datagen.workloads.arrivals import Insert
from deltamark.datagen.workloads.workload import ChangedRows, Workload, WorkloadKind
from deltamark.errors import DeltamarkError, shortened

KIND = "zipf"

MAX_HUNDREDTHS = 400
"""The largest exponent, with which nine in ten orders belong to one customer. Not tuned."""


class Zipf(Workload):
    """The rows of skewed data. Its rounds need only the plain data, which has as many rows."""

    def __init__(self, plain: Dataset, hundredths: int) -> None:
        self._exponent = exponent_of(hundredths)
        self.name = f"{KIND}:{self._exponent}"
        self._plain = plain
        self._rows = Insert(plain)
        self.rounds = self._rows.rounds

    @cached_property
    def dataset(self) -> Dataset:  # type: ignore[override]
        directory = skewed_directory(self._plain.directory, self._exponent)
        if not directory.exists():
            remedy = f"make data SF={self._plain.manifest.sf} WORKLOAD={self.name}"
            raise DeltamarkError(f"no data of the workload {self.name}", directory, remedy)
        return Dataset.open(directory)

    def most_live(self, name: str) -> int:
        return self._rows.most_live(name)

    def pieces(self, name: str, start: int, stop: int) -> list[ChangedRows]:
        return self._rows.pieces(name, start, stop)


def skewed_directory(plain: Path, exponent: Decimal) -> Path:
    """Return the directory of skewed data: its name is that of the plain data, with the exponent."""
    return plain.with_name(f"{plain.name}-{KIND}{exponent}")


def exponent_of(hundredths: int) -> Decimal:
    """Return an exponent with as few places as possible, so that it has one spelling."""
    return Decimal(f"{(Decimal(hundredths) / 100).normalize():f}")


def hundredths(text: str, cause: str) -> int:
    """Read an exponent in hundredths. Only the shortest spelling is accepted, because it is part of names."""
    for number in range(1, MAX_HUNDREDTHS + 1):
        if str(exponent_of(number)) == text:
            return number
    remedy = f"write one from 0.01 to {exponent_of(MAX_HUNDREDTHS)} with at most two places, such as 1 or 1.2"
    raise DeltamarkError(cause, shortened(text), remedy)


def exponents(workloads: Iterable[str]) -> list[Decimal]:
    """Return the exponents of the skewed data that some workloads need."""
    return [Decimal(name.partition(":")[2]) for name in dict.fromkeys(workloads) if name.startswith(f"{KIND}:")]


def _are_of_tpch(relations: Relations) -> bool:
    """Return whether relations are those of TPC-H, of which small data repeats keys."""
    return [replace(each, repeats_keys=False) for each in relations.values()] == [*RELATIONS.values()]


KINDS = (
    WorkloadKind(
        name=KIND, letter="Z", open=Zipf, small="1", noun="number", read=hundredths,
        lacks=lambda relations: "" if _are_of_tpch(relations) else "it rewrites the keys of TPC-H",
        meaning="inserts rows whose keys follow Zipf's law with exponent Z",
    ),
)  # fmt: skip
