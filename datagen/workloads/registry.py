"""The names of the workloads, by which commands select them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workloads.arrivals import Insert, Late, Refresh, Slide, Window
from deltamark.datagen.workloads.changes import Changes
from deltamark.datagen.workloads.steps import Churn, Hot, Updates
from deltamark.datagen.workloads.workload import InapplicableError, Workload, refusal
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
    "window": WorkloadKind("N", Window, "keeps the last N events (in TPC-H: orders)"),
    "refresh": WorkloadKind("K", Refresh, "loads all rows, then runs TPC-H's refresh functions"),
    "slide": WorkloadKind("N", Slide, "keeps the last N rows of every relation"),
    "late": WorkloadKind("H", Late, "inserts rows up to H rounds late"),
    "update": WorkloadKind("K", Updates, "loads all rows, then changes events and their members in K rounds"),
    "churn": WorkloadKind("K", Churn, "loads all rows, then changes every relation in K rounds"),
    "hot": WorkloadKind(
        "N", Hot, "loads all rows, then busy rows (in TPC-H: customers and parts) leave and come back in N rounds"
    ),
    KIND: WorkloadKind(
        "Z", Zipf, "inserts rows whose keys follow Zipf's law with exponent Z", noun="number", read=hundredths
    ),
}

PLAIN: Mapping[str, Callable[[Dataset], Workload]] = {"insert": Insert, "changes": Changes}
"""The workloads whose names contain no number."""

NAMES = (*PLAIN, *(f"{name}:{kind.letter}" for name, kind in KINDS.items()))


def meanings(texts: Iterable[str]) -> str:
    """Explain the kinds of some workloads, each in one clause."""
    names = {text.partition(":")[0] for text in texts}
    return "; ".join(f"{name}:{kind.letter} {kind.meaning}" for name, kind in KINDS.items() if name in names)


def workload(dataset: Dataset, text: str) -> Workload:
    """Open a workload by its name."""
    kind, _, size = known_workload(text).partition(":")
    if dataset.manifest.changes:
        return _given(dataset, kind, _number(kind, size) if size else 0)
    return KINDS[kind].open(dataset, _number(kind, size)) if size else PLAIN[kind](dataset)


def applicable(dataset: Dataset, texts: Iterable[str]) -> list[str]:
    """Return those workloads of a list that apply to the data."""
    found: list[str] = []
    for text in texts:
        with suppress(InapplicableError):
            workload(dataset, text)
            found.append(text)
    return found


def _given(dataset: Dataset, kind: str, size: int) -> Workload:
    """Open a workload over data that says in which rounds its rows arrive, and perhaps leave."""
    given = Changes(dataset)
    if given.retracts and kind != Changes.name:
        raise refusal(kind, f"its rows come and go as the data says, which is the workload {Changes.name}")
    if kind not in (Changes.name, Insert.name, "slide"):
        raise refusal(kind, "its rows arrive in the rounds of the data; insert and slide:N apply")
    return given if kind == Changes.name else Changes(dataset, f"{kind}:{size}" if size else kind, size)


def known_workload(text: str) -> str:
    """Return the name of a workload if it is well formed, which needs no data."""
    kind, colon, size = text.partition(":")
    if kind in PLAIN and not colon:
        return text
    if kind not in KINDS:
        raise unknown("workload", text, NAMES)
    _number(kind, size)
    return text


def _number(kind: str, text: str) -> int:
    """Read the number in the name of a workload."""
    known = KINDS[kind]
    return known.read(text, f"{kind}:{known.letter} needs a {known.noun} {known.letter}")
