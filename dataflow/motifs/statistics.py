"""Statistics of maintained motifs: see dataflow.language.motif."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from deltamark.dataflow.operators.extend import ExtendCounts

StateT = TypeVar("StateT")
ReadT = TypeVar("ReadT")


class HasStates(Protocol):
    """A dataflow, or a worker of one."""

    def states(self, kind: type[StateT], read: Callable[[StateT], ReadT], /) -> list[ReadT]: ...


def proposals(dataflow: HasStates) -> int:
    """Count the values that were proposed as extensions of rows.

    >>> triangle = [Atom(edges, ("a", "b")), Atom(edges, ("b", "c")), Atom(edges, ("c", "a"))]
    >>> with Dataflow(delta_query(triangle).count()) as dataflow:
    ...     dataflow.push({"edges": Batch([0] * 3, [1] * 3, {"src": [1, 2, 3], "dst": [2, 3, 1]})})
    ...     proposals(dataflow)
    1
    3
    """
    return sum(dataflow.states(ExtendCounts, ExtendCounts.proposals))


def extended_rows(dataflow: HasStates) -> int:
    """Count the rows that were made by extending others."""
    return sum(dataflow.states(ExtendCounts, ExtendCounts.extended))
