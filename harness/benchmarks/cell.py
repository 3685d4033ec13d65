"""Cells: a query with its stream, batching, engine and goal, the unit of every measurement and check.

A cell is measured by the suite that its goal names (harness/suites/registry.py), and can name the command that repeats
it. The batchings, L x P, are those that the benchmark measures and that tables have columns for.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from decimal import Decimal

from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import DEFAULT, Benchmark, benchmark
from deltamark.queries.query import Parameters, Query

Batching = tuple[int, int]
"""L rounds per logical batch, and P logical batches per physical batch."""


def product_batchings(product: int) -> tuple[Batching, ...]:
    """Return all L x P with a product, in powers of ten, as in the post's table."""
    powers = [10**power for power in range(len(str(product)))]
    if any(product % power for power in powers):
        raise DeltamarkError("not a power of ten", product, "write PRODUCT=100000")
    return tuple((power, product // power) for power in powers)


PHYSICAL: tuple[Batching, ...] = ((1, 1000), (1, 10_000), (1, 100_000), (1, 1_000_000))
PRODUCT = product_batchings(100_000)
FINE, COARSE = PRODUCT[0], PRODUCT[-1]
SMALL: tuple[Batching, ...] = ((1, 1), (1, 10), (1, 100))
CROSSOVER: tuple[Batching, ...] = ((1000, 1), (100_000, 1), (1_000_000, 1))
"""The batchings that compare maintaining with recomputing: one answer per batch."""
ON_SPARK: tuple[Batching, ...] = ((100_000, 1), (1_000_000, 1))
"""The batchings that compare Spark with one worker, and with recomputing on Spark, which needs about a second for
any batch.
"""


DEFAULT_ENGINE = "embedded"
"""The engine of a cell that names none."""

ALL = 1 << 40
"""The size of a physical batch that takes the whole stream: more logical batches than any stream has."""


THROUGHPUT = "tpch"
"""The default goal: the times of all batches. Records and commands have had this name since TPC-H was the only data."""

GROWTH = "growth"
"""The goal of certificates. Their data have the name of the benchmark, because they have all of its scale factors."""


@dataclass(frozen=True)
class Cell:
    query: str
    sf: str
    """The scale factor, or the name of a graph."""
    workload: str = "insert"
    logical: int = 1
    physical: int = ALL
    variant: str = ""
    """Empty for the default variant."""
    workers: int = 1
    engine: str = DEFAULT_ENGINE
    seed: int | None = None
    given: tuple[tuple[str, str], ...] = ()
    """Parameters of the query, unparsed."""
    master: str = ""
    """The Spark master; empty for a local cluster with one single-core executor per worker."""
    checkpoint: str = ""
    """The directory of a Spark query's checkpoints; empty for a temporary one."""
    benchmark: str = DEFAULT
    """The name of the benchmark, or the path of its folder."""
    sample: int = 0
    """The number of batches to time at most, spread over the stream; 0: all."""
    goal: str = THROUGHPUT
    """The kind of measurement: the name of its suite."""
    arrivals: str = ""
    """The times at which rounds become due in an open loop."""
    dataset: str = ""
    """The name of the data in records of other goals than throughput."""
    table: str = ""
    """The table that has the records of the cell, for other goals than throughput."""
    part: str = ""
    """The name of the cell within its table; empty if it is the only one."""
    data: str = ""
    """The digest of the data."""

    but = replace

    @property
    def home(self) -> Benchmark:
        return benchmark(self.benchmark)

    @property
    def definition(self) -> Query:
        return self.home.query(self.query)

    @property
    def digest(self) -> str:
        """A digest of the file of the query, unless the code of this package contains it."""
        return self.home.digest(self.query)

    @property
    def reads(self) -> tuple[str, ...]:
        """The relations that the query reads."""
        return self.home.reads(self.query)

    @property
    def parameters(self) -> Parameters:
        return self.home.parameters(self.query, Decimal(self.sf), self.seed, dict(self.given))

    @property
    def text(self) -> str:
        """The SQL as engines run it."""
        return self.definition.text(self.parameters)

    @property
    def sql(self) -> str:
        """The SQL as the oracle runs it, with the rows in order."""
        return self.definition.oracle(self.parameters)

    @property
    def row(self) -> str:
        """The name of the cells with the same query and workload, in all batchings."""
        return self.query if self.workload == "insert" else f"{self.query} {self.workload}"

    @property
    def place(self) -> str:
        """The name of the cell within its row."""
        return f"{self.logical}x{self.physical}"

    @property
    def again(self) -> str:
        return self.command("changes", "--digest")

    def command(self, name: str, *more: str) -> str:
        """Return a command line for this cell."""
        settings = {
            "benchmark": "" if self.benchmark == DEFAULT else self.benchmark,
            "sf": self.sf, "workload": self.workload, "logical": str(self.logical), "physical": batch(self.physical),
            "variant": self.variant, "workers": "" if self.workers == 1 else str(self.workers),
            "engine": "" if self.engine == DEFAULT_ENGINE else self.engine, "master": self.master,
            "seed": "" if self.seed is None else str(self.seed),
        }  # fmt: skip
        words = [word for setting, value in settings.items() if value for word in (f"--{setting}", shlex.quote(value))]
        words += [word for name, value in self.given for word in ("--param", f"'{name}={value}'")]
        return " ".join(["python -m harness", name, self.query, *words, *more])

    def __str__(self) -> str:
        variant = f" ({self.variant})" if self.variant else ""
        return (
            f"{self.query}{variant}, {self.workload}, L={self.logical}, P={batch(self.physical)}, "
            f"{self.workers} worker{'s' if self.workers != 1 else ''}, {self.engine}"
        )


def cells_of(name: str, sf: str) -> list[Cell]:
    """Return a cell of each query of a benchmark."""
    home = benchmark(name)
    return [Cell(query, sf, home.workload, benchmark=name) for query in home.queries]


@dataclass(frozen=True)
class MotifCell:
    """A motif in an undirected graph. batch: edge changes per batch, or 0 for a static graph."""

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
        """The command that repeats the count and compares it with DuckDB's."""
        mode = f"--workload half --batch {self.batch}" if self.batch else "--static"
        return f"python -m harness motif {self.motif} --graph {self.graph} --orient {mode} --check 1"


AnyCell = Cell | MotifCell


def batch(physical: int) -> str:
    return "all" if physical == ALL else str(physical)
