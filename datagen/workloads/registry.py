"""The names of the workloads, by which commands select them: the kinds that the modules of this package declare."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from deltamark.datagen import workloads
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.schema import Relations
from deltamark.datagen.workloads.arrivals import Insert
from deltamark.datagen.workloads.changes import Changes
from deltamark.datagen.workloads.workload import InapplicableError, Workload, WorkloadKind, refusal
from deltamark.errors import unknown


def _declared() -> Iterable[WorkloadKind]:
    for name in sorted(module.name for module in pkgutil.iter_modules(workloads.__path__)):
        if name != "registry":
            yield from getattr(importlib.import_module(f"{workloads.__name__}.{name}"), "KINDS", ())


KINDS: Mapping[str, WorkloadKind] = {kind.name: kind for kind in _declared()}

PLAIN: Mapping[str, Callable[[Dataset], Workload]] = {"insert": Insert, "changes": Changes}
"""The workloads whose names contain no number."""

NAMES = (*PLAIN, *(f"{name}:{kind.letter}" for name, kind in KINDS.items()))


def meanings(texts: Iterable[str]) -> str:
    """Explain the kinds of some workloads, each in one clause."""
    names = {text.partition(":")[0] for text in texts}
    return "; ".join(f"{name}:{kind.letter} {kind.meaning}" for name, kind in KINDS.items() if name in names)


def small_workloads(relations: Relations) -> list[str]:
    """Return a workload of each kind that applies to the relations of a benchmark, with a small number."""
    return [Insert.name, *(f"{name}:{kind.small}" for name, kind in KINDS.items() if not kind.lacks(relations))]


def lacks(text: str, relations: Relations) -> str:
    """Return the reason why a workload does not apply to relations, which needs no data; empty if it does."""
    kind = known_workload(text).partition(":")[0]
    return KINDS[kind].lacks(relations) if kind in KINDS else ""


def applicable(text: str, relations: Relations) -> str:
    """Return the name of a workload if it is well formed and applies to relations."""
    if reason := lacks(text, relations):
        raise refusal(text, reason)
    return text


def workload(dataset: Dataset, text: str) -> Workload:
    """Open a workload by its name."""
    kind, _, size = known_workload(text).partition(":")
    if dataset.manifest.changes:
        return _given(dataset, kind, KINDS[kind].number(size) if size else 0)
    applicable(text, dataset.relations)
    return KINDS[kind].open(dataset, KINDS[kind].number(size)) if size else PLAIN[kind](dataset)


def those_that_apply(dataset: Dataset, texts: Iterable[str]) -> list[str]:
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
    KINDS[kind].number(size)
    return text
