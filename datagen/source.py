"""Sources: where the rows of a benchmark come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from deltamark.datagen.schema import Relations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Parts:
    """The rows of each relation in Parquet files, in their order.

    changes: Parquet files with the changes of the rows by rounds, by relation; empty if rows only arrive.
    """

    relations: Relations
    files: Mapping[str, Sequence[Path]]
    changes: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class Specification:
    """The rows and bounds that the data of a scale factor will have, so that plans need no data.

    rows: the most live rows of a relation; bounds: of a column of numbers or dates; words: of a column of codes.
    """

    rows: Callable[[str], int]
    bounds: Callable[[str, str], tuple[int, int]]
    words: Callable[[str, str], Sequence[str]]


class Source(ABC):
    """A generator, or files."""

    name: str
    """The beginning of the names of data directories."""
    relations: Relations
    scaled: bool = True
    """Whether there are rows for every scale factor."""

    has_changes: bool = False
    """Whether rows may leave by the changes that come with them."""

    def scale(self, sf: Decimal) -> Decimal:
        """Return a scale factor if the source has any, and otherwise 1."""
        return sf if self.scaled else Decimal(1)

    def specification(self, sf: Decimal, workload: str) -> Specification | None:  # noqa: ARG002 (for those that have one)
        """Return the rows and bounds under a workload, if they are known without the data."""
        return None

    @abstractmethod
    def version(self) -> str:
        """Return the version of the rows: equal versions and scale factors mean equal rows."""

    @abstractmethod
    def parts(
        self, spark: Callable[[], SparkSession], sf: Decimal, making: Path, report: Callable[[int, int], None]
    ) -> Parts:
        """Make the Parquet files below `making`, except those that an interrupted run left there; report the parts."""
