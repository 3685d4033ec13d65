"""A cell: what is maintained, over which stream, in which batches, by which engine. Whatever is measured or checked is
one, and can say the command that repeats it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from deltamark.queries.catalogue import query
from deltamark.queries.parameters import parameters
from deltamark.queries.query import Parameters

ALL = 1 << 40
"""More logical batches than any stream has: all at once."""


@dataclass(frozen=True)
class Cell:
    query: str
    sf: str
    workload: str = "insert"
    logical: int = 1
    physical: int = ALL
    variant: str = ""
    """The default one where it is empty."""
    workers: int = 1
    engine: str = "embedded"
    seed: int | None = None
    given: tuple[tuple[str, str], ...] = ()
    """Parameters as they were written."""
    master: str = ""
    """Where Spark runs it; where it is empty, on this machine, an executor of one core a worker."""
    checkpoint: str = ""
    """Where a query on Spark keeps what it needs to go on; nowhere after it has ended, where it is empty."""

    @property
    def parameters(self) -> Parameters:
        return parameters(self.query, Decimal(self.sf), self.seed, dict(self.given))

    @property
    def sql(self) -> str:
        return query(self.query).oracle(self.parameters)

    def but(self, **changed: Any) -> Cell:
        return replace(self, **changed)

    @property
    def row(self) -> str:
        """Name what it shares with the same query and workload in other batches."""
        return self.query if self.workload == "insert" else f"{self.query} {self.workload}"

    @property
    def place(self) -> str:
        """Name which it is of its row."""
        return f"{self.logical}x{self.physical}"

    @property
    def again(self) -> str:
        return self.command("changes", "--digest")

    def command(self, name: str, *more: str) -> str:
        """Return the command that does something with this cell."""
        said = {
            "sf": self.sf, "workload": self.workload, "logical": str(self.logical), "physical": batch(self.physical),
            "variant": self.variant, "workers": "" if self.workers == 1 else str(self.workers),
            "engine": "" if self.engine == "embedded" else self.engine, "master": self.master,
            "seed": "" if self.seed is None else str(self.seed),
        }  # fmt: skip
        words = [word for setting, value in said.items() if value for word in (f"--{setting}", value)]
        words += [word for name, value in self.given for word in ("--param", f"'{name}={value}'")]
        return " ".join(["python -m harness", name, self.query, *words, *more])

    def __str__(self) -> str:
        variant = f" ({self.variant})" if self.variant else ""
        return (
            f"{self.query}{variant}, {self.workload}, L={self.logical}, P={batch(self.physical)}, "
            f"{self.workers} worker{'s' if self.workers != 1 else ''}, {self.engine}"
        )


@dataclass(frozen=True)
class MotifCell:
    """A motif in a graph without directions; where there is a batch, while so many edges come and go at a time."""

    motif: str
    graph: str
    batch: int = 0

    @property
    def row(self) -> str:
        return f"{self.motif} {self.graph}{' half' if self.batch else ''}"

    @property
    def place(self) -> str:
        return str(self.batch or "static")

    @property
    def again(self) -> str:
        """Return the command that counts it again, and asks DuckDB."""
        how = f"--workload half --batch {self.batch}" if self.batch else "--static"
        return f"python -m harness motif {self.motif} --graph {self.graph} --orient {how} --check 1"


AnyCell = Cell | MotifCell


def batch(physical: int) -> str:
    return "all" if physical == ALL else str(physical)
