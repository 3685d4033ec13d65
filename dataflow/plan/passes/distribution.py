"""Distributions of rows over workers, and the exchanges that lead from one to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Distribution:
    """How the rows of a stream are distributed over the workers.

    whole     every worker has all rows
    sliced    each worker has a slice of each superstep, and its times follow those of the worker before
    anywhere  equal rows may be at different workers
    scanned   ordered over the workers as `sliced`, but divided at times that are peculiar to one aggregate, with the
              digest `aggregate`
    owned     at the worker that owns the values of the columns `by`; with `low`, `by` is one column, and a worker owns
              ranges of its values from `low` up
    first     at the first worker
    """

    kind: Literal["whole", "sliced", "anywhere", "scanned", "owned", "first"]
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


WHOLE, SLICED = Distribution("whole"), Distribution("sliced")
ANYWHERE, FIRST = Distribution("anywhere"), Distribution("first")


@dataclass(frozen=True)
class Exchange:
    """A movement of rows: to the owners of the values of columns, to the first worker, or to every worker.

    dealt: every worker has all rows, and takes its own; so nothing moves. It may also take its slice of an input.
    """

    to: Literal["owner", "slice", "first", "all"]
    by: tuple[str, ...] = ()
    low: int | None = None
    dealt: bool = False

    def __str__(self) -> str:
        places = {"first": "one worker", "slice": "slices", "all": "all workers"}
        movement = "deal" if self.dealt else "exchange"
        return f"{movement} by {', '.join(self.by)}" if self.to == "owner" else f"{movement} to {places[self.to]}"

    def applied(self) -> Distribution:
        """Return the distribution of rows after the exchange."""
        if self.to == "owner":
            return Distribution("owned", self.by, self.low)
        return {"first": FIRST, "slice": SLICED, "all": WHOLE}[self.to]


@dataclass(frozen=True)
class OperatorDistribution:
    """How an operator runs on several workers: the exchanges of its inputs, and the distribution of its result.

    second: the exchange between two phases, for an operator that selects few rows of all: each worker selects among its
    own rows, and the first worker selects among those.
    """

    exchanges: tuple[Exchange | None, ...]
    distribution: Distribution
    second: Exchange | None = None
