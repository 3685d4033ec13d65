"""Distributions of rows over workers, and the exchanges that lead from one to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Distribution:
    """How the rows of a stream are distributed over the workers.

    sliced    each worker has a slice of each superstep, and its times follow those of the worker before
    anywhere  equal rows may be at different workers
    scanned   ordered over the workers as `sliced`, but divided at times that are peculiar to one aggregate, with the
              digest `aggregate`
    owned     at the worker that owns the values of the columns `by`; with `low`, `by` is one column, and a worker owns
              ranges of its values from `low` up
    first     at the first worker
    """

    kind: Literal["sliced", "anywhere", "scanned", "owned", "first"]
    by: tuple[str, ...] = ()
    low: int | None = None
    aggregate: str = ""

    @property
    def equal_rows_meet(self) -> bool:
        """Whether equal rows are at one worker."""
        return self.kind in ("owned", "first")

    @property
    def in_order(self) -> bool:
        """Whether no row of a worker is earlier than one of a worker before it."""
        return self.kind in ("sliced", "scanned")


SLICED, ANYWHERE, FIRST = Distribution("sliced"), Distribution("anywhere"), Distribution("first")


@dataclass(frozen=True)
class Exchange:
    """A movement of rows: to the owners of the values of columns, to the first worker, or to every worker."""

    to: Literal["owner", "first", "all"]
    by: tuple[str, ...] = ()
    low: int | None = None

    def __str__(self) -> str:
        return f"by {', '.join(self.by)}" if self.to == "owner" else f"to {self.to.replace('first', 'one worker')}"

    def applied(self) -> Distribution:
        """Return the distribution of rows after the exchange."""
        if self.to == "owner":
            return Distribution("owned", self.by, self.low)
        return FIRST if self.to == "first" else ANYWHERE


@dataclass(frozen=True)
class OperatorDistribution:
    """How an operator runs on several workers: the exchanges of its inputs, and the distribution of its result.

    second: the exchange between two phases, for an operator that selects few rows of all: each worker selects among its
    own rows, and the first worker selects among those.
    """

    exchanges: tuple[Exchange | None, ...]
    distribution: Distribution
    second: Exchange | None = None
