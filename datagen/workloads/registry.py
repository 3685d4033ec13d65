"""The names of the workloads, by which commands select them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workloads.churn import Churn
from deltamark.datagen.workloads.hot import Hot
from deltamark.datagen.workloads.insert import Insert
from deltamark.datagen.workloads.late import Late
from deltamark.datagen.workloads.refresh import Refresh
from deltamark.datagen.workloads.slide import Slide
from deltamark.datagen.workloads.update import OrderUpdates
from deltamark.datagen.workloads.window import Window
from deltamark.datagen.workloads.workload import Workload
from deltamark.datagen.workloads.zipf import KIND, Zipf, hundredths
from deltamark.errors import unknown, whole_number

MAX_SIZE = 10**12
"""The largest number in the name of a workload: more than any data has rows."""


def _size(text: str, cause: str) -> int:
    return whole_number(text, 1, MAX_SIZE, cause)


@dataclass(frozen=True)
class WorkloadKind:
    """A kind of workloads whose names contain a number."""

    letter: str
    open: Callable[[Dataset, int], Workload]
    meaning: str
    """One clause for the notes of tables."""
    noun: str = "whole number"
    read: Callable[[str, str], int] = _size
    """Reads the number; the second argument is the cause of the error for another text."""


KINDS = {
    "window": WorkloadKind("N", Window, "keeps the last N orders"),
    "refresh": WorkloadKind("K", Refresh, "loads all rows, then runs TPC-H's refresh functions"),
    "slide": WorkloadKind("N", Slide, "keeps the last N rows of every relation"),
    "late": WorkloadKind("H", Late, "inserts rows up to H rounds late"),
    "update": WorkloadKind("K", OrderUpdates, "loads all rows, then changes orders and lines in K rounds"),
    "churn": WorkloadKind("K", Churn, "loads all rows, then changes every relation in K rounds"),
    "hot": WorkloadKind("N", Hot, "loads all rows, then busy customers and parts leave and come back in N rounds"),
    KIND: WorkloadKind(
        "Z", Zipf, "inserts rows whose keys follow Zipf's law with exponent Z", noun="number", read=hundredths
    ),
}

NAMES = ("insert", *(f"{name}:{kind.letter}" for name, kind in KINDS.items()))


def meanings(texts: Iterable[str]) -> str:
    """Explain the kinds of some workloads, each in one clause."""
    names = {text.partition(":")[0] for text in texts}
    return "; ".join(f"{name}:{kind.letter} {kind.meaning}" for name, kind in KINDS.items() if name in names)


def workload(dataset: Dataset, text: str) -> Workload:
    """Open a workload by its name."""
    kind, _, size = known_workload(text).partition(":")
    return KINDS[kind].open(dataset, _number(kind, size)) if size else Insert(dataset)


def known_workload(text: str) -> str:
    """Return the name of a workload if it is well formed, which needs no data."""
    kind, colon, size = text.partition(":")
    if kind == "insert" and not colon:
        return text
    if kind not in KINDS:
        raise unknown("workload", text, NAMES)
    _number(kind, size)
    return text


def _number(kind: str, text: str) -> int:
    """Read the number in the name of a workload."""
    known = KINDS[kind]
    return known.read(text, f"{kind}:{known.letter} needs a {known.noun} {known.letter}")
